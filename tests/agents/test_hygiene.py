import pytest

from agentdescent.agents.hygiene import bare, declines, visible

RULE = "Express amounts in cents."


@pytest.mark.parametrize(
    "reply",
    [
        RULE,
        f"  \n{RULE}\n\n",
        f"<think>It said dollars.</think>{RULE}",
        f"<think>\nIt said\n\ndollars.\n</think>\n\n{RULE}\n",
        f"<thinking>Hm.</thinking>\n{RULE}",
        f"<think>One.</think>\n<think>Two.</think>\n{RULE}",
        f"It said dollars.\n</think>\n\n{RULE}",
        f"It said dollars. </think>\n{RULE}",
        f"```\n{RULE}\n```",
        f"```text\n{RULE}\n```\n",
        f"~~~~\n{RULE}\n~~~~",
        f"<think>Hm.</think>\n```\n{RULE}\n```",
    ],
)
def test_packaging_comes_off(reply):
    assert visible(reply) == RULE


@pytest.mark.parametrize(
    "reply",
    [
        "Think between <think> and </think> before you answer.",
        "Do not print a <think> tag.",
        "End your reasoning with </think> and then answer.",
        "Answer in a fence:\n```\n42\n```",
        "```\nfirst\n```\nand\n```\nsecond\n```",
        "```\nfirst\n```\nand more",
        "```never closed\nrule",
        "```",
        "`x`",
    ],
)
def test_what_belongs_to_the_proposal_stays(reply):
    assert visible(reply) == reply


def test_a_fence_inside_the_outer_one_stays():
    prompt = "Answer like this:\n```json\n{}\n```\nand add nothing."

    assert visible(f"```markdown\n{prompt}\n```") == prompt


def test_a_longer_fence_may_hold_shorter_ones():
    assert visible("````\n```\n42\n```\n````") == "```\n42\n```"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n\t",
        "<think>I should",
        "<think>",
        f"<think>One.</think>\n<think>Two, {RULE}",
        "<think>All thought, no word.</think>",
        "only thought\n</think>",
        "```\n```",
        "```\n\n```",
    ],
)
def test_nothing_is_left_of_mere_thinking(reply):
    assert visible(reply) == ""


@pytest.mark.parametrize(
    "text",
    [
        "NONE",
        "None.",
        "none",
        " NONE \n",
        "**NONE**",
        '"NONE"',
        "(none)",
        "`NONE`",
        "_None_",
        "NONE!",
    ],
)
def test_none_alone_declines(text):
    assert declines(text)


@pytest.mark.parametrize(
    "text",
    [
        "nonetheless, be brief",
        "None of the amounts may be in dollars.",
        "NONE needed",
        "No",
        "",
        "1",
    ],
)
def test_none_within_a_sentence_is_a_proposal(text):
    assert not declines(text)


@pytest.mark.parametrize(
    "reply",
    [
        f"Rule: {RULE}",
        f"rule : {RULE}",
        f"**Rule:** {RULE}",
        f"**Rule**: {RULE}",
        f"_New rule_: {RULE}",
        f"Proposed Rule:\n\n{RULE}",
        f"PROPOSAL: {RULE}",
        f'"{RULE}"',
        f"'{RULE}'",
        f"\u201c{RULE}\u201d",
        f"\u00ab {RULE} \u00bb",
        f'Rule: "{RULE}"',
        f'"Rule: {RULE}"',
        f"Rule:\n```\n{RULE}\n```",
        f"<think>Hm.</think>Rule: {RULE}",
        RULE,
    ],
)
def test_labels_and_quotes_around_the_whole_come_off(reply):
    assert bare(reply) == RULE


@pytest.mark.parametrize(
    "reply",
    [
        '"Yes" or "No" is all you may say; never "Perhaps"',
        '"routing": "go left"',
        "'Don't' is spelt 'do not'",
        '"Never closed',
        '"',
        '""',
        "Rules: be brief.",
        "The rule: be brief.",
        "**Rule: be brief.**",
        "Ruler: measure.",
        "Be brief.\nRule: and kind.",
    ],
)
def test_labels_and_quotes_within_the_proposal_stay(reply):
    assert bare(reply) == reply


def test_a_label_that_is_a_key_stays():
    assert bare("Rule: be brief", ["rule"]) == "Rule: be brief"
    assert bare("**Rule:** be brief", ["rule"]) == "**Rule:** be brief"


@pytest.mark.timeout(5)
@pytest.mark.parametrize("loop", ["<think>\n", "\n<thinking>", "\n<think></think>", "</think>"])
def test_a_model_that_repeats_a_tag_for_ever_is_read_in_no_time(loop):
    assert visible(100_000 * loop) == ""
