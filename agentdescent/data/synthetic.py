"""A cold start: tasks that a model makes up from a description."""

import json
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator
from hashlib import sha256
from inspect import isawaitable
from typing import Any, cast

from agentdescent.core.task import Task
from agentdescent.errors import BackendError
from agentdescent.threads import in_thread, is_async

BATCH = 10
"""Tasks asked for at a time."""

ALIKE = 0.7
"""Prompts that share this part of their words are near-duplicates."""

_THOUGHT = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL)
_WORD = re.compile(r"\w+|[^\w\s.,;:!?'\"]")

_REQUESTS_PER_BATCH = 3
_SHOWN = 30

_REQUEST = """\
Write {n} tasks for the following purpose, and the correct answer to each.

{description}

Make them differ in subject, form and difficulty, as real ones would. Every task must be complete \
in itself and have one correct answer.
{known}
Reply with a JSON array of {n} objects and nothing else: \
[{{"prompt": "the task", "gold": "its answer, as short as possible"}}, ...]
"""

_KNOWN = """
There are these already; write others:
{prompts}
"""


class SyntheticTasks(list[Task]):
    """Tasks that a model made up.

    Attributes:
        n_replies: How often the model was asked.
        n_malformed: Replies, or parts of them, that could not be read as tasks.
        n_duplicates: Tasks left out because there was one in the same words.
    """

    def __init__(self, tasks: Iterable[Task] = ()) -> None:
        super().__init__(tasks)
        self.n_replies: int = 0
        self.n_malformed: int = 0
        self.n_duplicates: int = 0


async def asynthesize(
    completion: Callable[[str], str | Awaitable[str]],
    description: str,
    n: int,
    *,
    batch_size: int = BATCH,
) -> SyntheticTasks:
    """Have a model make up `n` tasks with answers, to begin with where there is no data yet.

    It is asked for a few at a time, and shown what there is. ``meta`` has the answer as "gold",
    "synthetic" as True, and as "group" a name that near-duplicates share: pass
    ``group_key=lambda task: task.meta["group"]`` to `split_dataset`, so that none of them is
    trained on while another is held out. Answers are the model's, right or wrong: look at them.

    Replies that cannot be read are asked for anew; after three requests per batch it stops, and
    warns (RuntimeWarning) of what is missing.

    Args:
        completion: Prompt in, text out, plain or `async`; a plain one runs in a thread.
        description: What the tasks are for, with an example if there is one.
        n: How many.
        batch_size: Tasks asked for at a time.

    Raises:
        ValueError: If a count is not positive.
        BackendError: If no reply had a task in it; the message shows the last one.
        Exception: What `completion` raises.
    """
    for name, count in (("n", n), ("batch_size", batch_size)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count!r}")
    made = SyntheticTasks()
    known: set[tuple[str, ...]] = set()
    reply = ""
    while len(made) < n and made.n_replies < _REQUESTS_PER_BATCH * -(-n // batch_size):
        request = _request(description, min(batch_size, n - len(made)), made)
        reply = await _ask(completion, request)
        made.n_replies += 1
        _harvest(reply, made, known)
    del made[n:]
    if not made:
        raise BackendError(
            f"there was no task in {made.n_replies} replies; the last one begins {reply[:80]!r}; "
            "a larger model, or a description with an example, may help"
        )
    _group(made)
    if len(made) < n:
        warnings.warn(
            f"{len(made)} of {n} tasks were made in {made.n_replies} replies: {made.n_malformed} "
            f"pieces could not be read, {made.n_duplicates} were duplicates; say in the "
            "description how tasks differ",
            RuntimeWarning,
            stacklevel=2,
        )
    return made


def _request(description: str, n: int, made: list[Task]) -> str:
    prompts = "\n".join(f"- {' '.join(task.prompt.split())[:200]}" for task in made[-_SHOWN:])
    known = _KNOWN.format(prompts=prompts) if made else ""
    return _REQUEST.format(n=n, description=description, known=known)


async def _ask(completion: Callable[[str], str | Awaitable[str]], prompt: str) -> str:
    reply = completion(prompt) if is_async(completion) else await in_thread(completion, prompt)
    text = await reply if isawaitable(reply) else reply
    return text if isinstance(text, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]


def _harvest(reply: str, made: SyntheticTasks, known: set[tuple[str, ...]]) -> None:
    """Add the new tasks in `reply` to `made`, and their words to `known`."""
    for found in _objects(_THOUGHT.sub("", reply)):
        prompt, gold = found.get("prompt"), found.get("gold")
        if not isinstance(prompt, str) or not prompt.strip() or gold in (None, "", [], {}):
            made.n_malformed += 1
        elif (words := _words(prompt)) in known:
            made.n_duplicates += 1
        else:
            known.add(words)
            name = f"synthetic-{sha256(prompt.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
            made.append(Task(name, prompt.strip(), {"gold": gold, "synthetic": True}))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in `text`, whatever is around them; an empty one for what is none.

    An object around a list of objects, such as ``{"tasks": [...]}``, stands for these.
    """
    decoder = json.JSONDecoder()
    place = text.find("{")
    if place < 0:
        yield {}
    while place >= 0:
        try:
            value, end = cast("tuple[dict[str, Any], int]", decoder.raw_decode(text, place))
        except ValueError:
            value, end = dict[str, Any](), place + 1
        except RecursionError:
            value, end = dict[str, Any](), len(text)
        yield from [value] if "prompt" in value else _listed(value)
        place = text.find("{", end)


def _listed(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects in the first list of `value`; `value` itself if it has no list."""
    for part in value.values():
        if isinstance(part, list):
            inner = cast("list[Any]", part)
            return [cast("dict[str, Any]", x) if isinstance(x, dict) else {} for x in inner]
    return [value]


def _words(prompt: str) -> tuple[str, ...]:
    """What a prompt says: its words, numbers and signs, without case and punctuation."""
    return tuple(_WORD.findall(prompt.casefold()))


def _group(tasks: SyntheticTasks) -> None:
    """Put into each task's meta the group that it shares with its near-duplicates."""
    words = [frozenset(_words(task.prompt)) for task in tasks]
    groups = list(range(len(tasks)))
    for place, mine in enumerate(words):
        for other, theirs in enumerate(words[:place]):
            if len(mine & theirs) >= ALIKE * len(mine | theirs):
                first, last = sorted((groups[place], groups[other]))
                groups = [first if group == last else group for group in groups]
    for place, task in enumerate(tasks):
        meta = {**task.meta, "group": tasks[groups[place]].id}
        tasks[place] = Task(task.id, task.prompt, meta)
