import pytest

from agentdescent.agents.retries import with_retries
from agentdescent.errors import ContractError, RateLimited
from agentdescent.retry import is_worth_another_try


class Flaky:
    """Fails as its script says, then replies."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked = 0

    def now(self, prompt):
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return f"re: {prompt}"

    async def later(self, prompt):
        return self.now(prompt)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_waits_grow(looptime):
    flaky = Flaky(OSError(), OSError())

    assert await with_retries(flaky.later, backoff=10)("x") == "re: x"
    assert 27 <= looptime <= 33


@pytest.mark.asyncio
async def test_synchronous_completions_work_too():
    flaky = Flaky(OSError(), OSError())

    assert await with_retries(flaky.now, backoff=0)("x") == "re: x"


@pytest.mark.asyncio
async def test_last_failure_is_raised_and_tried_again_by_nobody():
    flaky = Flaky(*(OSError(number) for number in range(9)))

    with pytest.raises(OSError, match="3") as error:
        await with_retries(flaky.later, attempts=4, backoff=0)("x")

    assert flaky.asked == error.value.attempts_made == 4
    assert not is_worth_another_try(error.value)


@pytest.mark.parametrize(
    "error", [TypeError(), ContractError(), RateLimited("no", attempts=3), NameError()], ids=repr
)
@pytest.mark.asyncio
async def test_what_is_no_matter_of_luck_is_raised_at_once(error):
    flaky = Flaky(error)

    with pytest.raises(type(error)) as raised:
        await with_retries(flaky.later, backoff=0)("x")

    assert flaky.asked == 1
    assert raised.value.attempts_made == getattr(error, "attempts", 1)


@pytest.mark.asyncio
async def test_errors_that_take_no_note_are_raised_all_the_same():
    class Closed(Exception):
        attempts_made = property()

    with pytest.raises(Closed):
        await with_retries(Flaky(*[Closed()] * 3).later, backoff=0)("x")


@pytest.mark.parametrize("options", [{"attempts": 0}, {"backoff": -1}])
def test_impossible_patience_is_refused(options):
    with pytest.raises(ValueError, match="must"):
        with_retries(Flaky().later, **options)


def test_what_is_no_completion_is_refused():
    with pytest.raises(TypeError):
        with_retries(lambda: "x")
