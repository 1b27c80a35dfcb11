"""What cannot be honoured is refused before the first call, in words that say what to do."""

import math

import pytest

from agentdescent import (
    AggregatorConfig,
    GovernanceError,
    RewardContractError,
    RunningLoopError,
    Task,
    async_evolve,
    contains,
    evolve,
    exact_match,
    last_number,
)
from agentdescent.ledger import MemoryLedger
from support.refusals import refused
from support.toy import HiddenRules

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def world():
    return HiddenRules(rules=2, per_rule=4, run_s=0.1)


@pytest.fixture
def evolve_with(schedule, world):
    """A run of one round (or four rollouts) with some arguments of one's own."""

    async def attempt(**options):
        tasks = options.pop("tasks", world.tasks)
        reward = options.pop("reward", world.reward)
        options = {"run": world.run, "propose": world.propose, "rounds": 1, **options}
        options.setdefault("ledger", None if "repo_path" in options else MemoryLedger())
        options["asynchronous"] = schedule == "barrier_free"
        return await async_evolve(tasks, reward, **options)

    return attempt


@pytest.fixture
def refusal(evolve_with, world):
    """The text in which arguments are refused."""

    async def attempt(kind, **options):
        return await refused(kind, evolve_with(**options), world)

    return attempt


TINY = 1e-9
KNOBS = [
    ("n_workers", 0, 1),
    ("rounds", 0, 1),
    ("max_concurrency", 0, 1),
    ("refresh_interval", 0, 1),
    ("round_timeout", 0, TINY),
    ("round_timeout", -1.0, 3600),
    ("async_ratio", -1, 0),
    ("max_seconds", 0, TINY),
    ("max_seconds", -0.5, math.inf),
    ("max_seconds", math.nan, 1e-3),
    ("max_iters", 0, 1),
    ("max_rollouts", 0, 1),
    ("max_calls", 0, 3),
    ("patience", 0, 1),
    ("target_reward", -TINY, 0.0),
    ("target_reward", 1 + TINY, 1.0),
    ("target_reward", math.nan, 0.5),
    ("solved_threshold", 0.0, TINY),
    ("solved_threshold", 1 + TINY, 1.0),
    ("max_worker_errors", 0, 1),
    ("eval_concurrency", 0, 1),
    ("eval_repeats", 0, 1),
    ("confirm", -1, 0),
    ("oracle_budget", -1, 0),
    ("cheap_eval_tasks", 0, 1),
    ("blast_radius", -TINY, 0.0),
    ("blast_radius", 1 + TINY, 1.0),
    ("blast_radius", math.nan, 0.3),
    ("held_out_frac", 0.0, TINY),
    ("held_out_frac", 1.0, 1 - TINY),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("name", "outside"), [(name, outside) for name, outside, _ in KNOBS])
async def test_a_knob_just_outside_its_range_is_refused(refusal, name, outside):
    text = await refusal(ValueError, **{name: outside})

    assert text.startswith(f"{name} must be ")
    assert text.endswith(f", got {outside!r}; give a value in range")


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize(("name", "edge"), [(name, edge) for name, _, edge in KNOBS])
async def test_a_knob_at_the_edge_of_its_range_is_honoured(evolve_with, schedule, name, edge):
    result = await evolve_with(**{name: edge})

    without_work = {("max_seconds", TINY), ("max_seconds", 1e-3), ("max_calls", 3)}
    without_work |= {("target_reward", 0.0)}
    without_work |= {("round_timeout", TINY)} if schedule == "rounds" else set()
    assert (result.rollouts == 0) == ((name, edge) in without_work)
    assert result.error is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("n_workers", 2.5, "integer"),
        ("n_workers", None, "integer"),
        ("n_workers", "many", "integer"),
        ("max_seconds", "soon", "number"),
        ("shuffle", "perhaps", "boolean"),
        ("artifact_id", 7, "string"),
        ("evaluation_key", 7, "string"),
        ("seed", 0.5, "integer"),
    ],
)
async def test_a_knob_of_the_wrong_kind_is_refused(refusal, name, value, reason):
    text = await refusal(ValueError, **{name: value})

    assert text.startswith(f"{name}={value!r} cannot be used: ")
    assert reason in text


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("batch_trigger", 0),
        ("max_wait_rounds", 0),
        ("base_delta", 0.0),
        ("base_delta", 1.01),
        ("anneal_half_life", 0),
        ("alpha_head", -1),
        ("alpha_tail", -1),
        ("trust_region_ops", 0),
        ("trust_region_chars", 0),
        ("max_commit_ops", 0),
        ("promote_after_k", 0),
        ("cas_attempts", 0),
        ("cas_backoff", -0.1),
        ("eval_waves", 3),
        ("lag", "round"),
        ("multiplicity", "some"),
        ("no_such_knob", 1),
    ],
)
def test_an_aggregator_knob_is_refused_where_it_is_given(name, outside):
    with pytest.raises(ValueError, match=name):
        AggregatorConfig(**{name: outside})


def test_the_number_of_samples_is_accepted_and_ignored():
    with pytest.warns(DeprecationWarning, match=r"accept_samples=4000 is ignored.*exact"):
        config = AggregatorConfig(accept_samples=4000)

    assert config.base_delta == 0.5


@pytest.mark.asyncio
async def test_three_tasks_are_too_few(refusal, world):
    text = await refusal(ValueError, tasks=world.tasks[:3])

    assert text == (
        "tasks has 3 task(s); at least 4 are needed, to train on some and hold others out; "
        "add tasks"
    )


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_four_tasks_from_a_generator_are_enough(evolve_with, world):
    result = await evolve_with(tasks=(task for task in world.tasks[:4]))

    assert result.error is None
    assert result.rollouts > 0


@pytest.mark.asyncio
async def test_at_most_five_duplicate_ids_are_listed_in_order(refusal, world):
    twice = [Task(f"d{number}", "", {"rule": "rule0"}) for number in (6, 5, 4, 3, 2, 1)] * 2

    text = await refusal(ValueError, tasks=[*world.tasks, *twice])

    assert text == (
        "task ids must be unique; these occur more than once: ['d1', 'd2', 'd3', 'd4', 'd5']"
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("tasks", "tells"),
    [
        ([{"id": "1"}] * 4, ["Task objects", "dict {'id': '1'}", "tasks_from(rows)"]),
        ("four", ["Task objects", "str 'f'", "Task(id, prompt, meta)"]),
        ([Task(7, "7 pens")] * 4, ["id of a task must be text", "int 7", "convert it"]),
        ([Task("7", None)] * 4, ["prompt of a task", "NoneType None", "id '7'"]),
    ],
)
async def test_other_things_than_tasks_are_refused(refusal, tasks, tells):
    text = await refusal(TypeError, tasks=tasks)

    assert [word for word in tells if word not in text] == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "name", ["a/b", "../up", "..", ".", ".hidden", "-f", "", "with space", "line\n", "naïve"]
)
async def test_an_artifact_id_that_names_no_directory_is_refused(refusal, name):
    text = await refusal(ValueError, artifact_id=name)

    assert text.startswith(f"artifact_id={name!r} cannot name a directory of the ledger; use ")


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("name", ["a", "router.v2", "Mol_Router-7", "0", "a..b"])
async def test_any_other_artifact_id_is_honoured(evolve_with, name):
    result = await evolve_with(artifact_id=name)

    assert result.ledger_log[-2].endswith(f" register {name}")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "name", ["oracle", "audit_budget", "merge_permissions", "safety_constraints"]
)
async def test_a_frozen_name_is_reserved(refusal, name):
    text = await refusal(GovernanceError, artifact_id=name)

    assert text.startswith(f"artifact_id={name!r} is a reserved name: ")
    assert text.endswith(f"rename the artifact, for example to 'my_{name}'")


@pytest.mark.asyncio
async def test_two_different_rollout_budgets_are_refused(refusal):
    text = await refusal(ValueError, max_iters=3, max_rollouts=4)

    assert text == "max_iters=3 and max_rollouts=4 are one budget; give one of them"


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_one_rollout_budget_under_both_names_is_honoured(evolve_with):
    result = await evolve_with(max_iters=3, max_rollouts=3)

    assert result.rollouts == 3


@pytest.mark.asyncio
async def test_two_ledgers_are_refused(refusal, tmp_path):
    text = await refusal(ValueError, ledger=MemoryLedger(), repo_path=tmp_path / "ledger")

    assert text == "ledger= and repo_path= both say where the ledger is; give one of them"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.asyncio
async def test_calls_that_do_not_cover_the_held_out_tasks_are_refused(refusal):
    text = await refusal(ValueError, max_calls=2)

    assert text == (
        "max_calls=2 does not even cover scoring the 3 held-out tasks once, which takes 3; "
        "raise max_calls or lower held_out_frac"
    )


@pytest.mark.asyncio
async def test_repeats_count_in_what_max_calls_must_cover(refusal):
    text = await refusal(ValueError, max_calls=5, eval_repeats=2)

    assert "which takes 6" in text


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [["be brief"], "be brief"])
async def test_a_first_state_that_maps_nothing_is_refused(refusal, state):
    text = await refusal(TypeError, initial_state=state)

    assert f"got {type(state).__name__} {state!r}" in text
    assert "SingleSlot(initial_value=...)" in text


@pytest.mark.asyncio
@pytest.mark.parametrize("scorer", [exact_match(), contains(), last_number()])
async def test_a_scorer_without_an_expected_answer_is_refused_before_any_call(
    refusal, world, scorer
):
    tasks = [Task(f"g{n}", "", {"gold": "1"}) for n in range(5)] + [Task("bare", "", {"rule": 1})]

    text = await refusal(RewardContractError, tasks=tasks, reward=scorer)

    assert "'bare'" in text
    assert "'gold'" in text


@pytest.mark.asyncio
async def test_a_scorer_reads_the_key_it_was_given(refusal, world):
    text = await refusal(RewardContractError, reward=exact_match("answer"))

    assert f"{world.tasks[0].id!r}" in text
    assert "'answer'" in text


@pytest.mark.asyncio
async def test_a_script_call_inside_a_running_loop_says_what_to_await(world):
    with pytest.raises(RunningLoopError, match="running event loop") as caught:
        evolve(**world.parts)

    assert isinstance(caught.value, RuntimeError)
    assert "await async_evolve(...)" in str(caught.value)
    assert world.calls == []


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_script_is_refused_in_the_same_words(world, asynchronous):
    with pytest.raises(ValueError, match=r"^patience must be >= 1, got 0; give a value in range$"):
        evolve(
            **world.parts,
            patience=0,
            asynchronous=asynchronous,
        )

    assert world.calls == []


def test_an_unknown_argument_is_a_type_error(world):
    with pytest.raises(TypeError, match="max_round"):
        evolve(**world.parts, max_round=3)


def test_an_empty_repo_path_is_refused():
    world = HiddenRules()

    with pytest.raises(ValueError, match="repo_path='' names no directory"):
        evolve(**world.parts, repo_path="")
