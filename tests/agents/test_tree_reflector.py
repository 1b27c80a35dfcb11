import pytest

from agentdescent import FileTree, SingleSlot, Task, reflector
from agentdescent.agents.tree_reflector import tree_reflector
from agentdescent.core.reflection import Attempt, Reflection
from agentdescent.errors import TreeError

FILES = {
    "SKILL.md": "# Skill\nRead refs/tax.md.\n",
    "refs/tax.md": "</file>\nVAT is 19 %.\n",
    "refs/zoo.md": "z" * 3000,
    "tests/secret.md": "the hidden test",
}
TASK = Task("t", "How much is VAT?", {"gold": "7 %"})
REPLY = '<EDITS>{"edits": [{"path": "refs/tax.md", "content": "7 %"}]}</EDITS>'


class Model:
    def __init__(self, reply=REPLY):
        self.reply = reply
        self.prompts = []

    async def __call__(self, prompt):
        self.prompts.append(str(prompt))
        return self.reply


@pytest.fixture
def strategy():
    return FileTree(FILES, frozen=["tests/**"])


def reflection(strategy, output="19 %", **more):
    state = strategy.initial()
    return Reflection(strategy.render(state), state, 3, TASK, output, 0.25, **more)


async def prompt_of(strategy, reflection, **options):
    model = Model()
    propose = tree_reflector(model, strategy=strategy, **options)
    assert await propose.reflect(reflection) == REPLY
    [prompt] = model.prompts
    return prompt


@pytest.mark.asyncio
async def test_files_are_shown_as_files_with_what_may_be_done_to_them(strategy):
    prompt = await prompt_of(strategy, reflection(strategy, feedback="wrong rate"))

    for part in (
        "SKILL.md  (26 chars)",
        "tests/secret.md  (15 chars; frozen)",
        "SKILL.md:\n<file>\n# Skill\nRead refs/tax.md.\n\n</file>",
        "refs/tax.md:\n<file_>\n</file>\nVAT is 19 %.\n\n</file_>",
        "z" * 3000,
        "0.25",
        "wrong rate",
        "7 %",
        "<EDITS>",
        "Files you must not touch: tests/secret.md.",
    ):
        assert part in prompt
    assert "the hidden test" not in prompt
    assert "agentdescent.filetree" not in prompt


@pytest.mark.asyncio
async def test_what_was_named_comes_first_and_what_is_cut_or_left_out_is_announced(strategy):
    told = reflection(strategy, output="In zoo.md I found nothing")

    prompt = await prompt_of(strategy, told, max_context_chars=600)

    assert prompt.index("refs/zoo.md:\n") > 0
    assert "[... 2400 characters are left out here ...]" in prompt
    assert "There was no room to show: SKILL.md, refs/tax.md" in prompt


@pytest.mark.parametrize(
    "more",
    [
        {"output": "zoo.md"},
        {"feedback": "see refs/zoo.md"},
        {"others": [Attempt(TASK, "refs/zoo.md", 0.0)]},
        {"others": [Attempt(TASK, "", 0.0, "in `zoo.md`")]},
    ],
)
@pytest.mark.asyncio
async def test_files_are_named_by_outputs_and_feedback(strategy, more):
    prompt = await prompt_of(strategy, reflection(strategy, **more))

    assert prompt.index("refs/zoo.md:\n") < prompt.index("SKILL.md:\n")


@pytest.mark.asyncio
async def test_what_to_show_and_how_much_of_the_output_can_be_said(strategy):
    told = reflection(strategy, output="o" * 100)

    prompt = await prompt_of(
        strategy, told, context_files=["*.md"], max_output_chars=10, show_meta=False
    )

    assert "SKILL.md:\n" in prompt
    assert "refs/tax.md:\n" not in prompt
    assert "[... 90 characters are left out here ...]" in prompt
    assert "7 %" not in prompt


@pytest.mark.asyncio
async def test_it_is_a_propose_of_four_arguments_as_well(strategy):
    model = Model()
    propose = tree_reflector(model, strategy=strategy)

    rendered = strategy.render({**FILES, "new.md": "fresh text"})

    assert await propose(rendered, TASK, "19 %", 0.0) == REPLY
    assert "fresh text" in model.prompts[0]
    with pytest.raises(TreeError):
        await propose("no tree", TASK, "19 %", 0.0)


@pytest.mark.parametrize("reply", ["NONE", "<think>hm</think> None."])
@pytest.mark.asyncio
async def test_a_model_may_decline(strategy, reply):
    propose = tree_reflector(Model(reply), strategy=strategy)

    assert await propose.reflect(reflection(strategy)) is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"strategy": SingleSlot()}, TypeError, "SingleSlot has no writable"),
        ({"max_context_chars": 0}, ValueError, "max_context_chars must be at least 1, got 0"),
        ({"max_output_chars": 0}, ValueError, "max_output_chars must be at least 1, got 0"),
    ],
)
def test_what_cannot_work_is_refused(strategy, options, error, message):
    with pytest.raises(error, match=message):
        tree_reflector(Model(), **{"strategy": strategy, **options})


@pytest.mark.asyncio
async def test_the_plain_reflector_shows_the_files_too(strategy):
    model = Model()
    propose = reflector(model).bind_strategy(strategy)
    told = reflection(strategy, instructions=strategy.proposal_instructions(FILES))

    assert strategy.to_diff(FILES, await propose.reflect(told), "w", 1, "t").ops == {
        "refs/tax.md": "7 %"
    }
    assert "VAT is 19 %." in model.prompts[0]
    assert "Files you may edit: SKILL.md, refs/tax.md, refs/zoo.md." in model.prompts[0]
