"""Every Python block of the README and the documentation runs as it is printed."""

import ast
import asyncio
import inspect
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.apis import CLAUDE, KEY, OPENAI, says, serving_in_a_thread

ROOT = Path(__file__).parents[2]
NAMES = ROOT / "docs" / "names.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    page: Path
    line: int
    source: str

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def run(self, names):
        """Execute in a namespace that has `names`; `await` may stand outside of functions."""
        padded = "\n" * (self.line - 1) + self.source
        code = compile(padded, self.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        namespace = {"__name__": "__snippet__", **names}
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, namespace))
        else:
            exec(code, namespace)
        return namespace


def snippets(page):
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield Snippet(page, text.count("\n", 0, match.start(1)) + 1, match[1])


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERY = [snippet for page in PAGES for snippet in snippets(page)]


def stand_ins():
    (names,) = snippets(NAMES)
    return names.run({})


@pytest.fixture(scope="module")
def models():
    """Where the environment says that models are."""
    with (
        serving_in_a_thread(says(OPENAI.reply("honey, say"))) as openai,
        serving_in_a_thread(says(CLAUDE.reply("2, or 42"))) as anthropic,
    ):
        yield {"OPENAI": openai.url, "ANTHROPIC": anthropic.url}


@pytest.mark.filterwarnings("ignore:.*still running in threads:RuntimeWarning")
@pytest.mark.parametrize("snippet", EVERY, ids=str)
def test_snippet_runs_as_printed(snippet, tmp_path, monkeypatch, models):
    monkeypatch.chdir(tmp_path)
    for provider, url in models.items():
        monkeypatch.setenv(f"{provider}_BASE_URL", url)
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)

    snippet.run(stand_ins())


def test_no_python_block_escapes_the_collector():
    fences = sum(page.read_text(encoding="utf-8").count("```py") for page in PAGES)

    assert len(EVERY) == fences
