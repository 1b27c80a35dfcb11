"""What the README shows is what its first command prints."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_demo_prints_what_is_shown():
    printed = subprocess.run(
        [sys.executable, "-m", "agentdescent", "demo"], capture_output=True, text=True, check=True
    ).stdout
    shown = re.search(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[1]

    assert shown.strip() == printed.strip()
