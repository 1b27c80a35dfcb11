"""The retry policy, in virtual time."""

import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import anyio
import pytest

from agentdescent.core.spend import Exhausted, StopReason
from agentdescent.errors import BackendError, RewardContractError
from agentdescent.retry import Backoff, is_worth_another_try, retry_after_s, retrying


class Flaky:
    """Raises its errors in turn, then returns."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.times = []

    async def __call__(self):
        self.times.append(anyio.current_time())
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_success_is_returned_at_once(looptime):
    flaky = Flaky()
    assert await retrying(flaky, Random(0)) == "done"
    assert flaky.times == [0]
    assert looptime == 0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_third_attempt_comes_after_both_waits():
    flaky, rng = Flaky(OSError(), OSError()), Random(7)
    assert await retrying(flaky, Random(7)) == "done"
    first = 0.2 * rng.uniform(0.9, 1.1)
    assert flaky.times == pytest.approx([0, first, first + 0.4 * rng.uniform(0.9, 1.1)], abs=1e-5)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("seed", range(5))
async def test_dead_backend_is_known_in_three_quarters_of_a_second(seed):
    last = OSError("third")
    flaky = Flaky(OSError("first"), OSError("second"), last)
    with pytest.raises(OSError, match="third") as caught:
        await retrying(flaky, Random(seed))
    assert caught.value is last
    assert len(flaky.times) == 3
    assert anyio.current_time() < 0.75


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("before", [0, 1])
async def test_what_is_no_matter_of_luck_is_raised_at_once(before):
    retried = BackendError("throttled")
    retried.attempts_made = 5
    for error in (RewardContractError("2.0"), retried, Exhausted(StopReason.MAX_CALLS)):
        flaky = Flaky(*[OSError()] * before, error)
        with pytest.raises(type(error)) as caught:
            await retrying(flaky, Random(0))
        assert caught.value is error
        assert len(flaky.times) == before + 1


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_cancellation_ends_the_wait(looptime):
    flaky = Flaky(OSError(), OSError())
    with anyio.move_on_after(0.1) as scope:
        await retrying(flaky, Random(0))
    assert scope.cancelled_caught
    assert flaky.times == [0]
    assert looptime == 0.1


def throttled(seconds):
    error = BackendError("throttled")
    error.retry_after_s = seconds
    return error


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_wait_is_as_long_as_the_service_asks_for():
    flaky = Flaky(throttled(7), throttled(0.001))

    assert await retrying(flaky, Random(7)) == "done"

    assert flaky.times[1] == pytest.approx(7, abs=1e-5)
    assert flaky.times[2] - flaky.times[1] == pytest.approx(0.4, rel=0.11)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("before", [0, 1])
async def test_a_wait_that_is_too_long_is_not_begun(before):
    flaky = Flaky(*[OSError()] * before, throttled(61))

    with pytest.raises(BackendError, match="throttled"):
        await retrying(flaky, Random(0))

    assert len(flaky.times) == before + 1


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_attempts_and_waits_can_be_others():
    flaky = Flaky(*[OSError()] * 9)

    with pytest.raises(OSError):
        await retrying(flaky, Random(0), Backoff(attempts=5, first_wait_s=1, longest_wait_s=3))

    gaps = [after - before for before, after in pairwise(flaky.times)]
    assert gaps == [
        pytest.approx(1, rel=0.11),
        pytest.approx(2, rel=0.11),
        pytest.approx(3, abs=1e-5),
        pytest.approx(3, abs=1e-5),
    ]


@pytest.mark.asyncio
async def test_one_attempt_is_one():
    flaky = Flaky(OSError())

    with pytest.raises(OSError):
        await retrying(flaky, Random(0), Backoff(attempts=1))

    assert len(flaky.times) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attempts": 0}, "attempts must be at least 1, got 0"),
        ({"first_wait_s": -1}, "waits must not be negative"),
    ],
)
def test_impossible_patience_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Backoff(**options)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("0.25", 0.25),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:28:30 -0000", 30.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("-3", None),
    ],
)
def test_retry_after_may_be_seconds_or_a_date(header, seconds):
    now = datetime(2015, 10, 21, 7, 28, tzinfo=UTC)

    assert retry_after_s(header, now) == seconds


def test_backend_error_that_nobody_retried_is_worth_another_try():
    assert is_worth_another_try(BackendError("busy"))
    assert not is_worth_another_try(KeyboardInterrupt())


def test_tenacity_is_loaded_by_the_first_failure_only():
    script = (
        "import sys, anyio; from random import Random; from agentdescent.retry import retrying\n"
        "async def fine(): return 1\n"
        "assert anyio.run(retrying, fine, Random(0)) == 1\n"
        "assert 'tenacity' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
