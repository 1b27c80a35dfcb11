"""A plug-in or callable that breaks its promise ends the run; the error says which and how."""

import pytest

from agentdescent import (
    Aggregator,
    AggregatorContractError,
    AppendRules,
    DataParallel,
    Diff,
    Dropped,
    GovernanceError,
    PluginError,
    RoundRobin,
    WorkUnit,
    async_evolve,
)
from agentdescent.ledger import MemoryLedger
from support.refusals import broken, refused
from support.toy import HiddenRules

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def world():
    return HiddenRules(rules=2, per_rule=4)


@pytest.fixture
def evolve_world(evolve_under, world):
    """A run of the world, with some arguments of one's own."""

    async def attempt(**options):
        tasks = options.pop("tasks", world.tasks)
        reward = options.pop("reward", world.reward)
        options = {"run": world.run, "propose": world.propose, "rounds": 3, **options}
        return await evolve_under(tasks, reward, **options)

    return attempt


@pytest.fixture
def in_rounds(world):
    """The same in rounds alone, for what only they have."""

    async def attempt(**options):
        options = {"run": world.run, "propose": world.propose, "rounds": 3, **options}
        ledger = MemoryLedger()
        return await async_evolve(
            world.tasks, world.reward, asynchronous=False, ledger=ledger, **options
        )

    return attempt


def held_out_ids(world):
    return {task.id for task in world.tasks[5:]}


def sloppy(**methods):
    """A strategy with some methods of its own."""
    own = {name: staticmethod(method) for name, method in methods.items()}
    return type("Sloppy", (AppendRules,), own)()


class Without:
    """A plug-in that has some of the methods of another."""

    def __init__(self, plugin, missing):
        self._plugin, self._missing = plugin, missing

    def __getattr__(self, name):
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._plugin, name)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("role", "plugin", "missing", "needs"),
    [
        ("strategy", AppendRules(), "initial", "initial, render, to_diff"),
        ("strategy", AppendRules(), "render", "initial, render, to_diff"),
        ("strategy", AppendRules(), "to_diff", "initial, render, to_diff"),
        ("parallel", DataParallel(), "plan", "plan"),
        ("task_sampler", RoundRobin(), "pick", "pick, record"),
        ("task_sampler", RoundRobin(), "record", "pick, record"),
    ],
)
async def test_a_plugin_without_a_method_is_refused_before_any_call(
    evolve_world, world, role, plugin, missing, needs
):
    text = await refused(TypeError, evolve_world(**{role: Without(plugin, missing)}), world)

    assert text == f"{role} must have the methods {needs}; Without has no {missing}()"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("options", "tells"),
    [
        ({"staleness_policy": "guarded"}, ["staleness_policy", "decide", "str"]),
        ({"agg_config": {"base_delta": 0.5}}, ["agg_config", "dict", "AggregatorConfig(...)"]),
        ({"usage": 7}, ["usage", "record", "int"]),
        ({"ledger": "runs/one"}, ["ledger", "open", "str"]),
        ({"aggregator_factory": 7}, ["aggregator_factory(ledger, verifier, audit", "int 7"]),
        ({"aggregator_factory": lambda ledger: None}, ["aggregator_factory(ledger)", "too many"]),
        ({"aggregator_factory": lambda *_: None}, ["ingest, step", "NoneType has no ingest()"]),
        (
            {"aggregator_factory": lambda *a: Without(Aggregator(*a), "step")},
            ["ingest, step", "Without has no step()"],
        ),
    ],
)
async def test_other_plugins_of_the_wrong_form_are_refused_before_any_call(
    evolve_world, world, options, tells
):
    text = await refused(TypeError, evolve_world(**options), world)

    assert [word for word in tells if word not in text] == []


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["PP", "pipeline"])
async def test_a_pipeline_is_refused_by_class_or_name(evolve_world, world, name):
    class PipelineParallel(DataParallel):
        pass

    class Renamed(DataParallel):
        pass

    PipelineParallel.name = "pipeline"
    Renamed.name = name
    parallel = Renamed() if name == "PP" else PipelineParallel()

    text = await refused(ValueError, evolve_world(parallel=parallel), world)

    assert text.startswith(f"parallel={type(parallel).__name__} is a pipeline")
    assert "PipelineChain" in text


class Empty:
    """A sampler that is false, as an empty collection is, and a sampler all the same."""

    def __init__(self):
        self.picked = []

    def __len__(self):
        return 0

    def pick(self, keys, round_index):
        self.picked.append(keys[0])
        return keys[0]

    def record(self, task_id, score):
        pass


@pytest.mark.asyncio
async def test_an_empty_plugin_is_still_the_one_that_was_given(evolve_world):
    sampler = Empty()

    await evolve_world(task_sampler=sampler)

    assert sampler.picked


async def fails(*_):
    raise LookupError("no such rule")


def fails_at_once(*_):
    raise LookupError("no such rule")


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["initial", "render", "to_diff"])
async def test_a_strategy_that_raises_is_broken(evolve_world, world, method):
    error = await broken(PluginError, evolve_world(strategy=sloppy(**{method: fails_at_once})))

    assert str(error) == (
        "strategy failed in fails_at_once: LookupError: no such rule; "
        "mend the plug-in, a retry would not help"
    )
    assert isinstance(error.__cause__, LookupError)
    assert (world.count("propose") > 0) == (method == "to_diff")


@pytest.mark.asyncio
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_contract_error_of_a_plugin_is_raised_as_it_is(evolve_world, is_async):
    def forbid(*_):
        raise GovernanceError("this rule is frozen")

    async def forbid_later(*_):
        forbid()

    strategy = sloppy(to_diff=forbid_later if is_async else forbid)

    error = await broken(GovernanceError, evolve_world(strategy=strategy))

    assert str(error) == "this rule is frozen"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("method", "value", "must"),
    [
        ("initial", None, "a mapping"),
        ("initial", ["rule"], "a mapping"),
        ("render", None, "text"),
        ("render", 7, "text"),
        ("to_diff", {"rule": "x"}, "a Diff, a Dropped or None"),
        ("to_diff", "no-op", "a Diff, a Dropped or None"),
    ],
)
async def test_a_strategy_that_returns_something_else_is_broken(evolve_world, method, value, must):
    strategy = sloppy(**{method: lambda *_: value})

    error = await broken(PluginError, evolve_world(strategy=strategy))

    assert f"strategy.{method} must return {must}, got {type(value).__name__} " in str(error)


@pytest.mark.asyncio
async def test_a_strategy_may_wait_for_its_diff(evolve_world):
    async def to_diff(state, proposal, author, base_version, target):
        return AppendRules().to_diff(state, proposal, author, base_version, target)

    result = await evolve_world(strategy=sloppy(to_diff=to_diff))

    assert result.final_reward == 1.0


@pytest.mark.asyncio
@pytest.mark.parametrize("category", ["unparsable", "constraint", "no-op"])
async def test_a_strategy_may_refuse_a_proposal_in_its_own_words(evolve_world, category):
    result = await evolve_world(strategy=sloppy(to_diff=lambda *_: Dropped(category)))

    assert result.error is None
    assert result.outcomes() == {category: 12}


@pytest.mark.asyncio
@pytest.mark.parametrize("failing", [fails, fails_at_once])
@pytest.mark.parametrize("method", ["pick", "record"])
async def test_a_sampler_that_raises_is_broken(evolve_world, world, method, failing):
    sampler = Without(RoundRobin(), "")
    setattr(sampler, method, failing)

    error = await broken(PluginError, evolve_world(task_sampler=sampler))

    assert str(error).startswith(
        f"task_sampler failed in {failing.__name__}: LookupError: no such rule; "
    )
    assert isinstance(error.__cause__, LookupError)
    assert error.partial_result is None


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["nowhere", None, 0, ["t0-0"], "t3-1"])
async def test_a_sampler_must_pick_one_of_the_ids_it_is_given(evolve_world, world, name):
    sampler = Without(RoundRobin(), "")
    sampler.pick = lambda keys, round_index: name

    error = await broken(PluginError, evolve_world(task_sampler=sampler))

    assert f"task_sampler.pick returned {name!r}, which is none of the " in str(error)
    assert "return one of its keys argument" in str(error)
    assert {call.removeprefix("run ") for call in world.calls} == held_out_ids(world)


class Plan:
    """A plan that returns or raises what it is told."""

    name = "own"

    def __init__(self, units):
        self._units = units

    def plan(self, n_workers, round_index, keys):
        return self._units() if callable(self._units) else self._units


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("units", "tells"),
    [
        ([WorkUnit(0, ["nowhere"])], ["worker 0", "'nowhere'", "keys argument"]),
        ([WorkUnit(0, ["t3-1"])], ["worker 0", "'t3-1'", "no training task"]),
        ([WorkUnit(4, ["t0-0"])], ["worker 4", "from 0 to 3"]),
        ([WorkUnit(-1, ["t0-0"])], ["worker -1", "from 0 to 3"]),
        ([("t0-0",)], ["WorkUnit", "tuple"]),
        (None, ["list of WorkUnit", "NoneType"]),
        (7, ["list of WorkUnit", "int 7"]),
    ],
)
async def test_a_plan_that_cannot_be_carried_out_is_broken(in_rounds, world, units, tells):
    error = await broken(PluginError, in_rounds(parallel=Plan(units)))

    assert [word for word in tells if word not in str(error)] == []
    assert {call.removeprefix("run ") for call in world.calls} == held_out_ids(world)


@pytest.mark.asyncio
@pytest.mark.parametrize("failing", [fails, fails_at_once])
@pytest.mark.parametrize("method", ["plan", "observe"])
async def test_a_plan_that_raises_is_broken(in_rounds, method, failing):
    parallel = Without(DataParallel(), "")
    setattr(parallel, method, failing)

    error = await broken(PluginError, in_rounds(parallel=parallel))

    assert str(error).startswith(f"parallel failed in {failing.__name__}: LookupError: ")
    assert isinstance(error.__cause__, LookupError)


@pytest.mark.asyncio
async def test_what_was_committed_before_a_plugin_broke_is_handed_over(evolve_world):
    class Tires(AppendRules):
        def to_diff(self, state, proposal, author, base_version, target):
            if state:
                raise LookupError("no such rule")
            return super().to_diff(state, proposal, author, base_version, target)

    error = await broken(
        PluginError, evolve_world(strategy=Tires(), n_workers=1, rounds=9, async_ratio=0)
    )

    saved = error.partial_result
    assert set(saved.state.values()) <= {"rule0", "rule1"}
    assert saved.final_reward > saved.initial_reward == 0.0
    assert saved.stop_reason == "error"
    assert saved.error.startswith("PluginError: strategy failed in ")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "value", [None, 7, {"artifact": "merged"}, [1, 2], ["committed"], object()]
)
async def test_a_step_that_reports_nothing_readable_is_broken(evolve_world, value):
    class Odd(Aggregator):
        async def step(self):
            return value

    error = await broken(AggregatorContractError, evolve_world(aggregator_factory=Odd))

    text = str(error)
    assert text.startswith(f"step must return a list of MergeReport, got {type(value).__name__} ")
    assert text.endswith("return [] when there was nothing to merge")
    assert isinstance(error, TypeError)


@pytest.mark.asyncio
@pytest.mark.parametrize("value", [[], (), iter(())])
async def test_a_step_with_nothing_to_merge_is_no_mistake(evolve_world, value):
    class Idle(Aggregator):
        async def step(self):
            return value

        flush = step

    result = await evolve_world(aggregator_factory=Idle)

    assert result.error is None
    assert result.version == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["ingest", "step"])
async def test_an_aggregator_with_a_bug_is_broken(evolve_world, method):
    factory = type("Buggy", (Aggregator,), {method: fails})

    error = await broken(PluginError, evolve_world(aggregator_factory=factory))

    assert str(error).startswith("aggregator failed in Buggy: LookupError: no such rule; ")
    assert isinstance(error.__cause__, LookupError)


@pytest.mark.asyncio
async def test_a_factory_that_raises_is_broken_before_any_call(evolve_world, world):
    def factory(ledger, verifier, audit, config, staleness_policy):
        raise LookupError("no such rule")

    text = await refused(PluginError, evolve_world(aggregator_factory=factory), world)

    assert text.startswith("aggregator_factory failed in ")


@pytest.mark.asyncio
async def test_a_diff_for_another_artifact_is_counted_and_never_committed(evolve_world):
    def to_diff(state, proposal, author, base_version, target):
        return Diff(f"{author}:{base_version}", "elsewhere", {"rule": proposal})

    result = await evolve_world(strategy=sloppy(to_diff=to_diff), self_verify=False)

    assert set(result.outcomes()) == {"unknown-artifact"}
    assert result.version == 1
