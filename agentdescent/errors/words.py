"""How an error is put into words."""

from pathlib import Path


def describe(error: BaseException) -> str:
    """The form in which results report an error: `<Type>: <message>`.

    A failed evaluation is described by what the caller's code raised.
    """
    cause = error.__cause__ if getattr(error, "speaks_for_its_cause", False) else None
    return describe(cause) if cause is not None else f"{type(error).__name__}: {error}"


def kind_of(description: str) -> str:
    """The type in what `describe` gave, without the message, which may quote anything."""
    kind = description.partition(":")[0]
    return kind if kind.isidentifier() or not description else "Error"


def raised_at(error: BaseException) -> str:
    """The place that raised `error`: "(file.py:12)", or "" if it was never raised."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
