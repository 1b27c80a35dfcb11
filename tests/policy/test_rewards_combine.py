"""Rewards made of others: their values, what they say, and where they run."""

import asyncio
import gc
import warnings
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.identity import Identity, identity_of
from agentdescent.core.reply import Reply, Tokens
from agentdescent.core.task import Task
from agentdescent.errors import RewardContractError
from agentdescent.rewards import (
    Scored,
    contains,
    cost_penalty,
    exact_match,
    explained,
    gated,
    last_number,
    length_penalty,
    matches,
    token_f1,
    weighted,
)

TASK = Task("t1", "question", {"gold": "Paris", "n": 3})
VALUES = st.floats(0.0, 1.0)


def constant(value, name="constant"):
    def reward(task, output):
        return value

    reward.__name__ = name
    return reward


def later(value, name="later"):
    async def reward(task, output):
        await asyncio.sleep(0)
        return value

    reward.__name__ = name
    return reward


def plain_later(task, output):
    return later(0.5)(task, output)


def failing(task, output):
    raise OSError("no judge")


async def failing_later(task, output):
    raise OSError("no judge")


def test_weights_need_not_add_up_to_one():
    reward = weighted((constant(1.0, "a"), 3), (constant(0.5, "b"), 1))

    assert reward(TASK, "x") == Scored(0.875, "", {"a": 1.0, "b": 0.5})


def test_a_mapping_of_weights_will_do():
    assert weighted({exact_match(): 1.0, token_f1(): 1.0})(TASK, "Paris").value == 1.0


def test_a_weighted_mean_keeps_what_each_says_and_what_each_is_made_of():
    first = constant(Scored(0.5, "too short", {"depth": 0.25}), "judge")
    second = constant(Scored(1.0), "judge")

    scored = weighted((first, 1), (second, 1))(TASK, "x")

    assert scored.feedback == "judge: too short"
    assert scored.parts == {"judge": 0.5, "judge.depth": 0.25, "judge_2": 1.0}


@pytest.mark.parametrize("weights", [(-1.0, 2.0), (0.0, 0.0), (float("nan"), 1.0), ()])
def test_senseless_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights must be finite and at least 0"):
        weighted(*((constant(1.0), weight) for weight in weights))


def test_what_is_no_reward_is_refused():
    with pytest.raises(TypeError, match="scorer must be a function"):
        weighted((1.0, 1.0))


@given(st.lists(st.tuples(VALUES, st.floats(0.0, 100.0)), min_size=1, max_size=5))
def test_a_weighted_mean_lies_between_the_least_and_the_greatest(pairs):
    if not any(weight for _, weight in pairs):
        return
    values = [value for value, _ in pairs]

    mean = weighted(*((constant(value), weight) for value, weight in pairs))(TASK, "").value

    assert min(values) <= mean <= max(values)


def test_a_gate_that_fails_leaves_nothing_and_asks_no_further():
    scored = gated(constant(0.5, "format"), failing)(TASK, "x")

    assert scored == Scored(
        0.0,
        "format did not let the output pass: it gave 0.5, and 0.999 is needed",
        {"format": 0.5},
    )


def test_a_gate_that_says_why_is_quoted():
    scored = gated(constant(Scored(0.0, "no date"), "format"), failing)(TASK, "x")

    assert scored.feedback == "format did not let the output pass: no date"


def test_a_gate_that_passes_changes_nothing():
    inner = constant(Scored(0.5, "vague", {"depth": 0.25}))
    gate = constant(Scored(0.8, "fine", {"tone": 1.0}), "gate")

    assert gated(gate, inner, pass_mark=0.8)(TASK, "x") == Scored(
        0.5, "vague", {"gate": 0.8, "gate.tone": 1.0, "depth": 0.25}
    )


@pytest.mark.parametrize("mark", [0.0, 1.5, float("nan")])
def test_a_pass_mark_that_passes_all_or_nothing_is_refused(mark):
    with pytest.raises(ValueError, match=r"pass_mark must be in \(0, 1\]"):
        gated(constant(1.0), constant(1.0), pass_mark=mark)


@pytest.mark.parametrize(
    ("output", "unit", "value"),
    [
        ("x" * 10, "chars", 1.0),
        ("x" * 15, "chars", 0.5),
        ("x" * 20, "chars", 0.0),
        ("x" * 99, "chars", 0.0),
        ("x " * 15, "words", 0.5),
        (None, "words", 1.0),
    ],
)
def test_length_is_penalised_in_a_straight_line(output, unit, value):
    reward = length_penalty(constant(1.0), free=10, zero_at=20, unit=unit)

    assert reward(TASK, output).value == value
    assert reward(TASK, output).parts == {"length": value}


def test_a_penalty_says_so_after_what_the_inner_reward_says():
    inner = constant(Scored(1.0, "good", {"depth": 1.0}))

    scored = length_penalty(inner, free=1, zero_at=3)(TASK, "ab")

    assert scored == Scored(
        0.5, "good\nthe output has 2 chars, and 1 are free", {"depth": 1.0, "length": 0.5}
    )


@pytest.mark.parametrize(
    ("penalty", "settings", "problem"),
    [
        (length_penalty, {"free": 5, "zero_at": 5}, "free=5 must be at least 0 and below"),
        (length_penalty, {"free": -1, "zero_at": 5}, "free=-1 must be at least 0"),
        (length_penalty, {"free": 1, "zero_at": 5, "unit": "lines"}, "unit must be"),
        (cost_penalty, {"free": 9, "zero_at": 5}, "free=9 must be at least 0 and below zero_at=5"),
    ],
)
def test_senseless_penalties_are_refused(penalty, settings, problem):
    with pytest.raises(ValueError, match=problem):
        penalty(constant(1.0), **settings)


def test_tokens_are_penalised_where_they_are_known():
    reward = cost_penalty(constant(0.8), free=100, zero_at=200)
    dear = Reply("x", tokens=Tokens(input=100, output=50))

    assert reward(TASK, dear) == Scored(
        0.4, "the output took 150 tokens, and 100 are free", {"cost": 0.5}
    )
    assert reward(TASK, Reply("x")) == Scored(0.8)


def test_an_output_that_cannot_know_its_tokens_is_a_mistake():
    with pytest.raises(RewardContractError, match=r"'t1' took: it is str.*use length_penalty"):
        cost_penalty(constant(1.0), free=1, zero_at=2)(TASK, "x")


@given(VALUES, st.integers(0, 50), st.integers(1, 50), st.text(max_size=200))
def test_a_penalty_takes_away_and_never_gives(value, free, span, output):
    penalised = length_penalty(constant(value), free=free, zero_at=free + span)(TASK, output)

    assert 0.0 <= penalised.value <= value


@given(VALUES, VALUES, st.floats(0.01, 1.0))
def test_a_gate_gives_all_or_nothing(gate, value, mark):
    scored = gated(constant(gate), constant(value), pass_mark=mark)(TASK, "x")

    assert scored.value == (value if gate >= mark else 0.0)


def test_an_inner_reward_out_of_range_is_a_contract_error():
    with pytest.raises(RewardContractError, match="outside"):
        weighted((constant(47), 1))(TASK, "x")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "inner",
    [later(0.5), partial(later(0.5)), plain_later],
    ids=["coroutine function", "partial", "plain function of an awaitable"],
)
async def test_inner_rewards_may_be_awaited(inner):
    assert (await weighted((inner, 1), (constant(1.0), 1))(TASK, "x")).value == 0.75
    assert (await gated(inner, constant(1.0), pass_mark=0.5)(TASK, "x")).value == 1.0
    assert (await gated(constant(1.0), inner)(TASK, "x")).value == 0.5
    assert (await gated(inner, inner)(TASK, "x")).value == 0.0
    assert (await length_penalty(inner, free=1, zero_at=3)(TASK, "ab")).value == 0.25


@pytest.mark.asyncio
@pytest.mark.parametrize("broken", [failing, failing_later])
async def test_a_failure_leaves_no_coroutine_behind(broken):
    started = plain_later
    rewards = [weighted((started, 1), (broken, 1)), weighted((broken, 1), (started, 1))]
    rewards += [gated(started, broken, pass_mark=0.5), gated(broken, started)]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for reward in rewards:
            with pytest.raises(OSError, match="no judge"):
                await reward(TASK, "x")
        gc.collect()

    assert not [warning for warning in caught if "never awaited" in str(warning.message)]


def test_what_is_made_of_pure_rewards_is_pure():
    assert weighted((exact_match(), 1), (token_f1(), 1)).is_pure
    assert not weighted((exact_match(), 1), (constant(1.0), 1)).is_pure


def test_every_inner_reward_checks_the_tasks():
    reward = weighted((constant(1.0), 1), (gated(matches("x"), last_number("n")), 1))

    reward.check(TASK)
    with pytest.raises(RewardContractError, match=r"'t2'.*meta\['n'\]"):
        reward.check(Task("t2", "question"))


def test_identities_tell_combinations_apart_and_vouch_only_for_what_vouches_for_itself():
    plain = weighted((exact_match(), 1), (token_f1(), 2))
    others = [
        weighted((exact_match(), 2), (token_f1(), 1)),
        weighted((token_f1(), 1), (exact_match(), 2)),
        gated(exact_match(), token_f1()),
        gated(exact_match(), token_f1(), pass_mark=0.5),
        length_penalty(exact_match(), free=1, zero_at=2),
        cost_penalty(exact_match(), free=1, zero_at=2),
    ]

    assert len({identity_of(reward).name for reward in [plain, *others]}) == 7
    assert plain.identity.explicit
    assert isinstance(weighted((constant(1.0), 1)).identity, Identity)
    assert not identity_of(weighted((exact_match(), 1), (constant(1.0), 1))).explicit


def test_a_combination_shows_what_it_is_made_of():
    reward = length_penalty(exact_match(), free=1, zero_at=2, unit="words")

    assert repr(reward) == (
        "length_penalty(exact_match(gold_key='gold', normalise=True), free=1, zero_at=2, "
        "unit='words')"
    )


class Lenient:
    solved_threshold = 0.6

    def __call__(self, task, output):
        return 1.0


def test_tasks_are_solved_where_the_inner_rewards_take_them_for_solved():
    assert weighted((Lenient(), 1), (exact_match(), 3)).solved_threshold == pytest.approx(0.89925)
    assert gated(exact_match(), Lenient()).solved_threshold == 0.6
    assert length_penalty(Lenient(), free=1, zero_at=2).solved_threshold == 0.6
    assert weighted((Lenient(), 1), (exact_match(), 1))(TASK, "Paris").parts == {
        "Lenient": 1.0,
        "exact_match": 1.0,
    }


def test_a_scorer_explains_itself():
    assert explained(exact_match())(TASK, "Rome") == Scored(
        0.0, "the answer of the output is 'rome'; expected was 'paris'"
    )
    assert explained(exact_match())(TASK, "Paris!") == Scored(1.0)


def test_the_expected_answer_can_be_kept_back():
    said = explained(exact_match(), reveal_gold=False)(TASK, "Rome").feedback

    assert said == "the answer of the output is 'rome', which is not all that was expected"


@pytest.mark.parametrize(
    ("scorer", "output", "said"),
    [
        (last_number("n"), "4%", "the number of the output is 4%; expected was 3"),
        (last_number("n"), "none", "no number was found in the output; expected was 3"),
        (contains(), None, "no answer was found in the output; expected was 'paris'"),
        (token_f1(), "Paris or Rome", "the answer of the output is 'paris or rome'; "),
        (exact_match(), "x" * 300, f"the answer of the output is '{'x' * 199} ...; expected"),
    ],
)
def test_explanations(scorer, output, said):
    assert explained(scorer)(TASK, output).feedback.startswith(said)


def test_nothing_found_is_said_without_the_expected_answer_too():
    scorer = explained(last_number("n"), reveal_gold=False)

    assert scorer(TASK, "none").feedback == "no number was found in the output"


def test_only_ready_made_scorers_explain_themselves():
    with pytest.raises(TypeError, match="return Scored"):
        explained(constant(1.0))
