import subprocess
import sys

LOADED = """
import sys
from agentdescent.ledger import GitLedger, MemoryLedger, scratch_ledger
GitLedger("nowhere"), MemoryLedger(), scratch_ledger()
print([name for name in ("pygit2", "numpy", "httpx", "tenacity") if name in sys.modules])
"""


def test_git_does_not_load_before_a_ledger_is_opened():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
