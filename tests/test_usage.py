import copy
import json
import pickle
import random
import threading
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.calls import ModelCall, Role
from agentdescent.core.outcomes import StopReason
from agentdescent.core.reply import Tokens
from agentdescent.core.spend import Exhausted
from agentdescent.usage import Counted, Usage


def a_call(**values):
    """A request that went well and of whose price nothing is known."""
    given = {"role": Role.SOLVE, "tokens": Tokens(10, 5), "seconds": 1.0, **values}
    return ModelCall(provider="acme", model="m1", endpoint="", **given)


def test_a_new_account_is_empty_and_knows_of_no_provider():
    assert Usage() == Usage(0, 0, 0, 0.0, 0, None)


def test_each_record_is_one_call():
    usage = Usage()
    usage.record(prompt_tokens=1000, completion_tokens=200, seconds=1.5)
    usage.record(seconds=0.5, failed=True)

    assert usage == Usage(2, 1000, 200, 2.0, 1)
    assert usage.total_tokens == 1200


def test_cost_is_by_the_million_of_each_kind():
    usage = Usage(prompt_tokens=2_000_000, completion_tokens=500_000)

    assert usage.estimated_cost(per_1m_prompt=3.0, per_1m_completion=15.0) == 13.5


def test_the_summary_is_one_line():
    usage = Usage(calls=1, prompt_tokens=12_345, completion_tokens=678, seconds=9.87)

    assert usage.summary() == "1 calls, 12,345 prompt + 678 completion tokens, 9.9s in the model"


def test_the_summary_mentions_failures_if_there_are_any():
    assert Usage(calls=1500, failures=3).summary() == (
        "1,500 calls, tokens unknown, 0.0s in the model, 3 failed"
    )


def test_an_account_can_be_copied_and_stored():
    usage = Usage(calls=2, provider_calls=3)

    assert pickle.loads(pickle.dumps(usage)) == copy.deepcopy(usage) == usage
    assert asdict(usage)["provider_calls"] == 3


class TestRequests:
    def test_a_request_is_entered_in_the_whole_and_in_its_role(self):
        usage = Usage()
        usage.note(a_call(role=Role.SOLVE, tokens=Tokens(100, 20, 40, 10, 5), seconds=2.0))
        usage.note(a_call(role=Role.REFLECT, tokens=Tokens(50, 30), seconds=4.0, attempt=2))

        assert (usage.calls, usage.provider_calls, usage.retries) == (2, 2, 1)
        assert usage.tokens == Tokens(150, 50, 40, 10, 5)
        assert usage.seconds == 6.0
        assert usage.roles[Role.SOLVE].tokens == Tokens(100, 20, 40, 10, 5)
        assert usage.roles[Role.REFLECT].retries == 1
        assert usage.cache_hit_ratio == 40 / 150

    def test_without_prompts_nothing_can_be_a_hit(self):
        assert Usage().cache_hit_ratio is None

    def test_without_a_price_the_cost_is_unknown(self):
        usage = Usage()
        usage.note(a_call())

        assert (usage.usd, usage.unpriced_calls) == (None, 1)

    def test_a_known_part_of_the_cost_says_how_much_it_leaves_out(self):
        usage = Usage()
        usage.note(a_call(usd=0.5))
        usage.note(a_call(usd=0.25))
        usage.note(a_call())

        assert (usage.usd, usage.unpriced_calls) == (0.75, 1)

    def test_failures_have_no_price_and_no_latency(self):
        usage = Usage()
        usage.note(a_call(error="RateLimited: slow down", tokens=None, seconds=0.01))

        assert (usage.failures, usage.unpriced_calls, usage.latency.p50) == (1, 0, None)

    def test_what_a_cancelled_request_cost_is_not_known(self):
        usage = Usage()
        usage.note(a_call(cancelled=True, tokens=None, seconds=0.01))

        assert (usage.failures, usage.unpriced_calls, usage.latency.p50) == (0, 1, None)

    def test_latency_is_split(self):
        usage = Usage()
        for second in range(1, 11):
            usage.note(a_call(queued=second, seconds=second * 10.0, first_token=second / 10))

        assert (usage.queued.p50, usage.latency.p50, usage.first_token.p50) == (5, 50, 0.5)
        assert (usage.queued.p90, usage.latency.p90, usage.first_token.p90) == (9, 90, 0.9)

    def test_threads_lose_nothing(self):
        usage = Usage()

        def work():
            for _ in range(500):
                usage.note(a_call(usd=0.5))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert (usage.calls, usage.usd, usage.latency.count) == (2000, 1000.0, 2000)
        assert usage.roles[Role.SOLVE].calls == 2000


class TestCounting:
    def test_a_block_without_a_call_is_one(self):
        usage = Usage()
        with Counted(usage, Role.SOLVE):
            pass

        assert (usage.calls, usage.provider_calls) == (1, None)
        assert usage.roles[Role.SOLVE].calls == 1

    def test_requests_inside_are_counted_instead(self):
        usage = Usage()
        with Counted(usage, Role.SOLVE):
            usage.note(a_call())
            usage.note(a_call(attempt=2))

        assert (usage.calls, usage.provider_calls) == (2, 2)

    def test_a_block_that_a_spent_budget_ends_made_no_call(self):
        usage = Usage()
        with pytest.raises(Exhausted), Counted(usage):
            raise Exhausted(StopReason.MAX_ATTEMPTS)

        assert usage.calls == 0

    def test_what_an_adapter_records_inside_is_counted_instead(self):
        usage = Usage()
        with Counted(usage, Role.SOLVE):
            usage.record(prompt_tokens=10)

        assert (usage.calls, usage.prompt_tokens) == (1, 10)

    def test_a_block_of_another_account_in_between_hides_none(self):
        usage, own = Usage(), Usage()
        with Counted(usage), Counted(own):
            usage.note(a_call())

        assert (usage.calls, own.calls) == (1, 1)

    def test_blocks_of_one_account_are_one_call_whatever_is_in_between(self):
        usage = Usage()
        with Counted(usage), Counted(Usage()), Counted(usage):
            pass

        assert usage.calls == 1


class TestTable:
    def test_it_has_a_line_for_each_role_and_one_for_all(self):
        usage = Usage()
        usage.note(a_call(role=Role.JUDGE, tokens=Tokens(10, 2), seconds=1.0))
        usage.note(a_call(tokens=Tokens(1000, 200, 400), usd=0.0125, seconds=2.0))
        usage.note(a_call(error="down", tokens=None))

        assert usage.table().splitlines() == [
            "role   calls  failed  tokens in  cached  tokens out                 USD    p50    p90",
            "solve      2       1      1,000     400         200              0.0125  2.00s  2.00s",
            "judge      1       0         10       0           2             unknown  1.00s  1.00s",
            "all        3       1      1,010     400         202  0.0125 + 1 unknown  1.00s  2.00s",
        ]

    def test_what_is_not_known_says_so(self):
        usage = Usage()
        usage.record(role=Role.SOLVE)

        assert usage.table().splitlines()[1].split() == [
            "solve", "1", "0", "unknown", "unknown", "unknown", "unknown", "unknown", "unknown"
        ]  # fmt: skip

    def test_without_roles_there_is_none(self):
        usage = Usage()
        usage.record(seconds=1.0)

        assert usage.table() == ""


class TestJson:
    def test_sums_roles_and_percentiles_survive(self):
        usage = Usage()
        rng = random.Random(1)
        for _ in range(3000):
            usage.note(a_call(seconds=rng.expovariate(1), tokens=Tokens(rng.randrange(99), 5)))

        loaded = Usage.from_json(json.loads(json.dumps(usage.as_json())))

        assert loaded == usage
        for name in ("latency", "queued", "first_token", "call_tokens"):
            assert getattr(loaded, name) == getattr(usage, name)
        assert (loaded.latency.p50, loaded.latency.p90) == (usage.latency.p50, usage.latency.p90)
        assert loaded.roles[Role.SOLVE].table() == usage.roles[Role.SOLVE].table()
        assert loaded.table() == usage.table()

    def test_it_stays_small(self):
        usage = Usage()
        for second in range(10_000):
            usage.note(a_call(seconds=second / 7))

        assert len(json.dumps(usage.as_json())) < 20_000

    def test_what_is_missing_or_unknown_does_no_harm(self):
        record = {"calls": 3, "colour": "red", "roles": {"poet": {}, "solve": {"calls": 2}}}

        loaded = Usage.from_json(record)

        assert (loaded.calls, set(loaded.roles)) == (3, {"solve"})
        assert loaded.roles[Role.SOLVE].calls == 2


calls = st.lists(
    st.builds(
        ModelCall,
        provider=st.just("acme"),
        model=st.just("m1"),
        endpoint=st.just(""),
        role=st.sampled_from(Role),
        attempt=st.integers(1, 3),
        seconds=st.integers(0, 9).map(float),
        tokens=st.none() | st.builds(Tokens, st.integers(0, 99), st.integers(0, 99)),
        usd=st.none() | st.integers(0, 9).map(float),
        error=st.sampled_from(["", "down"]),
    )
)


@given(calls)
def test_roles_sum_up_to_the_whole(noted):
    usage = Usage()
    for call in noted:
        usage.note(call)

    accounts = usage.roles.values()
    for name in ("calls", "failures", "retries", "unpriced_calls", "seconds"):
        assert getattr(usage, name) == sum(getattr(account, name) for account in accounts)
    assert sum((account.tokens for account in accounts), Tokens()) == usage.tokens
    prices = [account.usd for account in accounts if account.usd is not None]
    assert usage.usd == (sum(prices) if prices else None)
    assert Usage.from_json(json.loads(json.dumps(usage.as_json()))).as_json() == usage.as_json()
