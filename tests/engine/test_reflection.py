"""What the engine tells those who reflect: true, bounded, and nothing that is held out."""

import anyio
import pytest

from agentdescent import (
    AppendRules,
    KeyedRules,
    Reflection,
    Scored,
    SingleSlot,
    Task,
    async_evolve,
    reflector,
)
from agentdescent.agents.completion import Reply
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.outcomes import MergeReport, Refusal
from agentdescent.core.protocols import WorkUnit
from agentdescent.core.reflection import Attempt
from agentdescent.engine.experience import KEPT, SHOWN, Experience
from agentdescent.engine.head import Head
from agentdescent.engine.messages import Report, Snapshot, Ticket
from agentdescent.ledger import MemoryLedger
from agentdescent.testing import FakeCompletion

TASKS = [Task(f"t{n}", f"prompt {n}", {"gold": f"gold {n}"}) for n in range(20)]
HELD_OUT = TASKS[12:]


class Teller:
    """An actor whose every task wants its own word in the artifact, and which notes reflections."""

    def __init__(self, answer=lambda told: f"for {told.task.id}"):
        self.answer = answer
        self.told = []

    async def solve(self, rendered, task):
        return rendered

    async def propose(self, rendered, task, output, reward):
        raise AssertionError("there is more to tell")

    async def reflect(self, reflection):
        self.told.append(reflection)
        return self.answer(reflection)


def remembers(task, output):
    return Scored(float(task.id in output.split()), f"{task.id} is missing")


def nothing_helps(task, output):
    return 0.0


def learnable(task, output):
    return float("good" in output)


class TestReflection:
    @pytest.mark.asyncio
    async def test_it_holds_the_rollout_and_the_true_state(self, evolve_under):
        teller = Teller(lambda told: "be good" if told.version == 1 else f"{told.task.id} now")

        def reward(task, output):
            return Scored(0.5 * ("good" in output), f"{task.id} is no good")

        await evolve_under(
            TASKS, reward, agent=teller, strategy=SingleSlot("start"), rounds=12, n_workers=2
        )

        first = next(told for told in teller.told if told.version == 1)
        assert (first.rendered, first.state) == ("start", {"value": "start"})
        assert (first.output, first.reward) == ("start", 0.0)
        assert first.feedback == f"{first.task.id} is no good"
        assert first.meta == first.task.meta
        assert first.instructions.startswith("Reply with the complete rewritten text")
        later = next(told for told in teller.told if told.version == 2)
        assert (later.rendered, later.state) == ("be good", {"value": "be good"})
        assert later.reward == 0.5

    @pytest.mark.asyncio
    async def test_a_plain_method_is_told_as_well(self, evolve_under):
        class Plain(Teller):
            def reflect(self, reflection):
                assert isinstance(reflection, Reflection)
                return "be good"

        result = await evolve_under(TASKS, learnable, agent=Plain(), rounds=3)

        assert result.final_reward == 1.0

    @pytest.mark.asyncio
    async def test_a_propose_object_is_told_as_well(self, evolve_under):
        class Object:
            def __call__(self, rendered, task, output, reward):
                raise AssertionError("there is more to tell")

            async def reflect(self, reflection):
                return "be good"

        result = await evolve_under(
            TASKS, learnable, run=Teller().solve, propose=Object(), rounds=3
        )

        assert result.final_reward == 1.0
        assert result.actor_calls > 0

    @pytest.mark.asyncio
    async def test_a_strategy_without_instructions_gives_none(self, evolve_under):
        class OneWord:
            def initial(self):
                return {}

            def render(self, state):
                return state.get("word", "")

            def to_diff(self, state, proposal, author, base_version, target):
                return Diff("d", target, {"word": proposal}, author=author)

        teller = Teller(lambda told: "good")

        result = await evolve_under(TASKS, learnable, agent=teller, strategy=OneWord(), rounds=3)

        assert {told.instructions for told in teller.told} == {""}
        assert result.state == {"word": "good"}

    @pytest.mark.asyncio
    async def test_a_reply_that_was_cut_says_so(self, evolve_under):
        teller = Teller(lambda told: None)

        async def run(rendered, task):
            return Reply("half an ans", cut=True)

        await evolve_under(TASKS, learnable, agent=teller, run=run, rounds=1)

        assert {told.feedback for told in teller.told} == {
            "The reply was cut off at its length limit, so it was not scored."
        }


class TestRejected:
    @pytest.mark.asyncio
    async def test_what_did_not_help_its_own_task(self, evolve_under):
        teller = Teller(lambda told: f"try {len(told.rejected)}")

        await evolve_under(TASKS, nothing_helps, agent=teller, n_workers=1, rounds=4)

        assert [[one.proposal for one in told.rejected] for told in teller.told] == [
            [],
            ["try 0"],
            ["try 1", "try 0"],
            ["try 2", "try 1", "try 0"],
        ]
        assert {(one.outcome, one.delta) for one in teller.told[-1].rejected} == {("no-gain", 0.0)}

    @pytest.mark.asyncio
    async def test_what_the_scorer_said_after_the_edit(self, evolve_under):
        def reward(task, output):
            return Scored(0.0, f"{len(output)} characters")

        teller = Teller(lambda told: "Be brief.")

        await evolve_under(TASKS, reward, agent=teller, n_workers=1, rounds=2)

        [one] = teller.told[-1].rejected
        assert one.reason == "22 characters"

    @pytest.mark.asyncio
    async def test_what_the_strategy_could_not_use(self, evolve_under):
        teller = Teller(lambda told: "Be brief.")
        strategy = KeyedRules(["fmt"], allow_new=False)

        await evolve_under(
            TASKS, nothing_helps, agent=teller, strategy=strategy, n_workers=1, rounds=3
        )

        [one] = teller.told[-1].rejected
        assert (one.outcome, one.delta) == ("unparsable", None)
        assert one.reason == "it names none of the categories fmt"

    @pytest.mark.asyncio
    async def test_what_a_merge_turned_down_with_its_gain(self, evolve_under):
        teller = Teller()

        await evolve_under(TASKS, remembers, agent=teller, n_workers=1, rounds=6)

        said = {one.proposal: one for told in teller.told for one in told.rejected}
        assert said["for t0"].outcome == "below-threshold"
        assert said["for t0"].delta == 0.0
        assert "held-out task(s)" in said["for t0"].reason
        assert not any(task.id in one.reason for one in said.values() for task in HELD_OUT)

    @pytest.mark.asyncio
    async def test_what_is_larger_than_a_merge_allows(self, evolve_under):
        teller = Teller(lambda told: f"{told.task.id} " + "x" * 33_000)

        await evolve_under(TASKS, remembers, agent=teller, n_workers=1, rounds=6)

        one = teller.told[-1].rejected[0]
        assert (one.outcome, one.delta) == ("oversized", None)
        assert "a value of more than 32000 characters" in one.reason

    @pytest.mark.asyncio
    async def test_no_proposal_is_nothing_to_remember(self, evolve_under):
        teller = Teller(lambda told: None)

        result = await evolve_under(TASKS, nothing_helps, agent=teller, rounds=3)

        assert not any(told.rejected for told in teller.told)
        assert result.outcomes() == {"no-proposal": 12}

    @pytest.mark.asyncio
    @pytest.mark.looptime(start=0)
    async def test_in_rounds_they_do_not_depend_on_timing(self):
        async def shown(max_concurrency, seconds):
            teller = Teller(lambda told: f"for {told.task.id} {len(told.rejected)}")

            async def run(rendered, task):
                await anyio.sleep(seconds * (1 + int(task.id[1:]) % 3))
                return rendered

            await async_evolve(
                TASKS,
                remembers,
                agent=teller,
                run=run,
                asynchronous=False,
                rounds=6,
                max_concurrency=max_concurrency,
                ledger=MemoryLedger(),
            )
            shown = [(told.task.id, told.version, told.rejected) for told in teller.told]
            return sorted(shown, key=repr)

        assert await shown(1, 0.1) == await shown(4, 5.0)

    @pytest.mark.asyncio
    async def test_an_aggregator_that_tells_nothing_is_no_hindrance(self, evolve_under):
        class Silent:
            def __init__(self, *_):
                pass

            def ingest(self, card):
                pass

            def step(self):
                return [MergeReport("artifact", category="below-threshold")]

        teller = Teller()

        await evolve_under(
            TASKS, remembers, agent=teller, aggregator_factory=Silent, n_workers=1, rounds=4
        )

        assert not any(told.rejected for told in teller.told)


class TestBatch:
    @pytest.mark.asyncio
    @pytest.mark.looptime(start=0)
    async def test_other_failures_of_the_version_are_shown_together(self, evolve_under):
        teller = Teller(lambda told: None)

        async def run(rendered, task):
            await anyio.sleep(1.0)
            return "t0"

        await evolve_under(
            TASKS, remembers, agent=teller, run=run, reflect_batch=3, n_workers=4, rounds=3
        )

        last = teller.told[-1]
        assert len(last.others) == 2
        assert last.task not in [other.task for other in last.others]
        assert {other.feedback for other in last.others} == {
            f"{other.task.id} is missing" for other in last.others
        }
        assert [solved.task.id for solved in last.successes] == ["t0"]

    @pytest.mark.asyncio
    async def test_one_shows_none(self, evolve_under):
        teller = Teller(lambda told: None)

        await evolve_under(TASKS, nothing_helps, agent=teller, rounds=3)

        assert not any(told.others or told.successes for told in teller.told)

    @pytest.mark.asyncio
    async def test_other_versions_are_not_shown(self, evolve_under):
        teller = Teller(lambda told: "good" if told.version == 1 else None)

        def reward(task, output):
            return 0.5 * ("good" in output)

        await evolve_under(TASKS, reward, agent=teller, reflect_batch=4, rounds=6)

        assert teller.told[-1].version == 2
        assert {told.version for told in teller.told} == {1, 2}
        for told in teller.told:
            expected = 0.5 * (told.version == 2)
            assert all(other.reward == expected for other in told.others)

    @pytest.mark.asyncio
    @pytest.mark.parametrize("size", [0, -1])
    async def test_less_than_one_is_refused(self, evolve_under, size):
        with pytest.raises(ValueError, match=f"reflect_batch must be >= 1, got {size}"):
            await evolve_under(TASKS, remembers, agent=Teller(), reflect_batch=size)

    @pytest.mark.asyncio
    async def test_a_function_that_takes_one_failure_is_refused_several(self, evolve_under):
        async def propose(rendered, task, output, reward):
            return None

        with pytest.raises(ValueError, match=r"reflect_batch=2 needs .*propose takes one.*reflect"):
            await evolve_under(
                TASKS, remembers, run=Teller().solve, propose=propose, reflect_batch=2
            )


@pytest.mark.asyncio
@pytest.mark.parametrize("strategy", [AppendRules(), SingleSlot("start"), KeyedRules(["fmt"])])
async def test_nothing_that_is_held_out_reaches_a_reflector(evolve_under, strategy):
    model = FakeCompletion(lambda prompt: f"fmt: {len(model.prompts)} {prompt.count('gold')}")
    secret = [
        Task(f"secret-{n}", f"asks-{n}", {"gold": f"meta-{n}", "id": f"row-{n}"}) for n in range(8)
    ]

    def reward(task, output):
        known = sum(map(int, output.split()[-1:])) if output[-1:].isdigit() else 0
        return Scored(((known + len(task.id)) % 7) / 10, f"seen {task.id} {task.prompt}")

    async def run(rendered, task):
        return rendered

    result = await evolve_under(
        TASKS[:12] + secret,
        reward,
        run=run,
        propose=reflector(model),
        strategy=strategy,
        reflect_batch=4,
        rounds=12,
    )

    assert result.error is None
    assert len(model.prompts) > 20
    for mark in ("secret-", "asks-", "meta-", "row-"):
        assert not any(mark in prompt for prompt in model.prompts)


def snapshot(version=1, **state):
    return Snapshot(version, state, str(state))


class Memory:
    """An experience, and reports for it."""

    def __init__(self, batch=1, in_rounds=False):
        self.head = Head(snapshot())
        self.experience = Experience(self.head, AppendRules(), batch, in_rounds=in_rounds)

    def ticket(self, task="a", serial=0):
        return Ticket(0, serial, self.head.snapshot, WorkUnit(0, [task]), Task(task, "?"))

    def drop(self, proposal, task="a", serial=0, **ops):
        report = Report(self.ticket(task, serial), proposal=proposal, dropped="no-gain", reward=0.0)
        report.card = EvidenceCard(Diff("d", "x", ops), {"x": 1}, verified=True)
        self.experience.note(report)

    def propose(self, proposal, **ops):
        report = Report(self.ticket(), proposal=proposal, reward=0.0)
        report.card = EvidenceCard(Diff("d", "x", ops), {"x": 1})
        self.experience.note(report)

    def reflect(self, task="a", reward=0.0, feedback=""):
        ticket = self.ticket(task)
        return self.experience.reflection(ticket, Attempt(ticket.task, "out", reward, feedback))

    def rejected(self, task="a"):
        return [one.proposal for one in self.reflect(task).rejected]


class TestMemory:
    def test_the_last_few_are_shown_the_newest_first(self):
        memory = Memory()
        for number in range(9):
            memory.drop(f"try {number}")

        assert memory.rejected() == [f"try {number}" for number in (8, 7, 6, 5, 4)]
        assert SHOWN == 5

    def test_the_same_words_are_remembered_once(self):
        memory = Memory()
        for proposal in ("Be brief.", "be  brief.\n", "Be kind.", "BE BRIEF."):
            memory.drop(proposal)

        assert memory.rejected() == ["BE BRIEF.", "Be kind."]

    def test_those_for_the_same_task_go_first(self):
        memory = Memory()
        memory.drop("for a", task="a")
        memory.drop("for b", task="b")

        assert memory.rejected("a") == ["for a", "for b"]
        assert memory.rejected("b") == ["for b", "for a"]

    def test_those_about_keys_that_have_changed_since_go_last(self):
        memory = Memory()
        memory.drop("about y", task="b", y="1")
        memory.drop("about x", task="c", x="1")
        memory.head.publish(snapshot(2, x="2"))

        assert memory.rejected() == ["about y", "about x"]

    def test_the_oldest_is_forgotten(self):
        memory = Memory()
        memory.drop("first", task="a")
        for number in range(KEPT - 1):
            memory.drop(f"try {number}", task="b")
        assert memory.rejected("a")[0] == "first"

        memory.drop("one more", task="b")

        assert "first" not in memory.rejected("a")

    def test_what_is_committed_later_is_no_longer_rejected(self):
        memory = Memory()
        memory.drop("Set x.", x="1")
        memory.drop("Hm.")
        accepted = Diff("d", "artifact", {"x": "1", "y": "2"})

        memory.experience.note_merges([MergeReport("artifact", accepted=accepted)])

        assert memory.rejected() == ["Hm."]

    def test_a_merge_is_believed_about_what_was_proposed_here(self):
        memory = Memory()
        memory.propose("Set x.", x="1")
        refused = [Refusal(Diff("d", "artifact", {key: "1"}), -0.5, "alone") for key in "xz"]

        memory.experience.note_merges([MergeReport("artifact", refused=refused)])

        [one] = memory.reflect().rejected
        assert (one.proposal, one.delta, one.reason) == ("Set x.", -0.5, "alone")

    def test_an_edit_that_was_moved_is_known_by_what_was_proposed(self):
        memory = Memory()
        memory.propose("Set x.", x="1")
        moved = Diff("d", "artifact", {"x": "1 and more"}, parts=(Diff("d", "x", {"x": "1"}),))

        memory.experience.note_merges([MergeReport("artifact", refused=[Refusal(moved)])])
        refused = memory.rejected()
        memory.experience.note_merges([MergeReport("artifact", accepted=moved)])

        assert (refused, memory.rejected()) == (["Set x."], [])

    def test_a_proposal_that_could_not_be_tried_is_not_rejected(self):
        memory = Memory()

        memory.experience.note(Report(memory.ticket(), proposal="Set x.", reward=0.0))

        assert memory.rejected() == []

    def test_in_rounds_they_are_known_once_settled_in_their_order(self):
        memory = Memory(in_rounds=True)
        memory.drop("second", serial=1)
        memory.drop("first", serial=0)
        assert memory.rejected() == []

        memory.experience.settle()

        assert memory.rejected() == ["second", "first"]

    def test_failures_with_feedback_go_first_then_the_worst(self):
        memory = Memory(batch=4)
        memory.reflect("a", 0.2)
        memory.reflect("b", 0.1)
        memory.reflect("c", 0.3, "so bad")
        memory.reflect("d", 0.9)

        others = memory.reflect("e").others

        assert [other.task.id for other in others] == ["c", "b", "a"]

    def test_of_a_task_the_last_failure_is_shown(self):
        memory = Memory(batch=3)
        memory.reflect("a", 0.2)
        memory.reflect("a", 0.4)

        assert [other.reward for other in memory.reflect("b").others] == [0.4]
