"""The two examples of front ends learn what they say, and the page shows what they print."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("columns", "till")


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(name):
    """What the page says that the script prints."""
    page = (ROOT / "docs" / "frontends.md").read_text(encoding="utf-8")
    title = re.escape(f'```text title="python examples/{name}.py"')
    return re.search(rf"^{title}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[1]


@pytest.fixture(scope="module")
def columns():
    return loaded("columns")


@pytest.fixture
def skill(columns, tmp_path):
    return Path(shutil.copytree(columns.HERE / "skill", tmp_path / "orders"))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_what_the_script_prints(name):
    script = ROOT / "examples" / f"{name}.py"
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)

    assert shown(name).strip() == printed.stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_from_below_a_half_to_all(name):
    before, after = re.match(r"held-out reward (\S+) -> (\S+)\n", shown(name)).groups()

    assert float(before) < 0.5
    assert float(after) == 1.0


def test_the_reflector_sees_training_tasks_only(columns, skill):
    seen = []

    def watched(rendered, task, output, reward):
        seen.append(task.id)
        return columns.reflect(rendered, task, output, reward)

    result = columns.learn(skill, propose=watched)

    assert seen
    assert not set(seen) & set(result.test.tasks)


def test_a_skill_that_is_not_read_teaches_nothing(columns, skill):
    program = skill.parent / "agent.py"
    text = (columns.HERE / "agent.py").read_text(encoding="utf-8")
    program.write_text(text.replace('skill.read_text(encoding="utf-8")', '""'))

    result = columns.learn(skill, agent=program, write_back=False)

    assert result.final_reward == result.initial_reward
    assert result.outcomes().keys() <= {"no-gain", "below-threshold", "oracle-rejected"}
