"""Errors: their homes, their words, and how they leave task groups."""

import anyio
import pytest

from agentdescent import BackendError, ContractError, LedgerError, PluginError
from agentdescent.errors import (
    EvaluationFailed,
    EvolutionInterrupted,
    FailureKind,
    GitError,
    classify,
    describe,
    is_plugin_bug,
    ungrouped,
    unwrap,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PluginError("p"), FailureKind.CONTRACT),
        (GitError("g"), FailureKind.LEDGER),
        (BackendError("b"), FailureKind.BACKEND),
        (OSError("o"), FailureKind.BACKEND),
    ],
)
def test_every_error_has_one_home(error, kind):
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    ("error", "bug"),
    [
        (KeyError("k"), True),
        (ZeroDivisionError(), True),
        (ConnectionError(), False),
        (TimeoutError(), False),
        (RuntimeError("503"), False),
        (EvaluationFailed("7", ValueError("v")), False),
    ],
)
def test_a_bug_is_told_from_bad_luck(error, bug):
    assert is_plugin_bug(error) is bug


def test_a_failed_evaluation_is_described_by_its_cause():
    assert describe(EvaluationFailed("7", TimeoutError("slow"))) == "TimeoutError: slow"
    assert describe(ValueError("v")) == "ValueError: v"


def test_a_ledger_error_says_what_failed_where_and_what_to_do():
    error = GitError("no space", operation="commit", repo_path="/r", hint="free some")

    assert str(error) == "commit failed in git repository /r: no space; free some"
    assert str(LedgerError("gone", operation="read")) == "read failed in the git ledger: gone"
    assert str(LedgerError("gone")) == "gone"


def test_the_gravest_of_several_errors_is_the_one_to_see():
    group = BaseExceptionGroup(
        "g", [OSError("o"), ExceptionGroup("h", [ContractError("c"), GitError("g")])]
    )

    assert str(unwrap(group)) == "c"
    assert isinstance(
        unwrap(BaseExceptionGroup("g", [OSError(), KeyboardInterrupt()])), KeyboardInterrupt
    )


@pytest.mark.asyncio
async def test_one_error_leaves_nested_task_groups_as_itself():
    async def fail():
        raise ContractError("mine")

    with pytest.raises(ContractError, match="mine"), ungrouped():
        async with anyio.create_task_group() as outer:
            with ungrouped():
                async with anyio.create_task_group() as inner:
                    inner.start_soon(fail)
            outer.cancel_scope.cancel()


def test_an_interrupt_carries_the_partial_result():
    assert EvolutionInterrupted("partial").result == "partial"
