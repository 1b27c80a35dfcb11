"""Few-shot: the artifact is a bank of worked examples.

Small models follow demonstrations where they ignore instructions, and which demonstrations they
are shown matters more than how many. So each example has to earn its place like any other edit.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeGuard, cast

from agentdescent.core.diff import Diff, Dropped, State, stable_hash
from agentdescent.core.task import Task
from agentdescent.policy.strategies_text import diff_of, short_digest, unparsable

_INDENT = "\n    "
_ROLES = ("user", "assistant")


class FewShot:
    """A bank of worked examples, each an input and the output that is right for it.

    A proposal is a JSON object ``{"input": ..., "output": ...}``; `worked_example` makes one of a
    failed training task and its gold answer. An example's key is made of its input, so that two
    outputs for one input contradict each other and the held-out tasks decide between them.

    A proposal to a full bank also deletes an example. Which one depends on a hash of both keys:
    the choice is reproducible, spread evenly over the bank, and differs between proposals, so that
    no example is safe by accident, a valuable one only costs the proposals that would displace
    it, and two workers rarely delete the same one. A merge of several proposals may still leave
    more than `max_examples`; the next proposal deletes the surplus.

    Args:
        max_examples: Size of a full bank, at least 1.
        render: "text" for a readable block; "chat" for a JSON list of turns that `chat_turns`
            reads, to be sent before the task itself.
        title: The first line of the text rendering.

    Raises:
        ValueError: If `max_examples` or `render` is neither of these.
    """

    content_addressed = True

    def __init__(
        self,
        max_examples: int = 8,
        render: Literal["text", "chat"] = "text",
        *,
        title: str = "# Worked examples",
    ) -> None:
        if max_examples < 1:
            raise ValueError(f"max_examples must be at least 1, got {max_examples!r}")
        if render not in ("text", "chat"):
            raise ValueError(f'render must be "text" or "chat", got {render!r}')
        self.max_examples = max_examples
        self.style = render
        self.title = title

    def __repr__(self) -> str:
        return f"FewShot({self.max_examples}, {self.style!r}, title={self.title!r})"

    def initial(self) -> State:
        """No examples."""
        return {}

    def render(self, state: State, /) -> str:
        """The examples in the order of their keys, as text or as a JSON list of chat turns."""
        examples = [_Example.from_value(state[key]) for key in sorted(state)]
        if self.style == "chat":
            turns = [turn for example in examples for turn in example.turns()]
            return json.dumps(turns, ensure_ascii=False)
        blocks = [example.block() for example in examples]
        return f"{self.title}\n" + ("\n\n".join(blocks) or "(empty)")

    def proposal_instructions(self, state: State, /) -> str:
        """Ask for one worked example as JSON."""
        news = " Choose one that teaches what the examples there are do not." if state else ""
        return (
            'Reply with one worked example, a JSON object {"input": "<a complete task>", "output": '
            f'"<exactly the right answer>"}}, and nothing else.{news}'
        )

    def to_diff(
        self, state: State, proposal: str, author: str, base_version: int, target: str, /
    ) -> Diff | Dropped | None:
        """Add the example in `proposal`; in a full bank, in the place of another."""
        try:
            example = _Example.from_proposal(proposal)
        except ValueError as flaw:
            return unparsable(str(flaw))
        key, value = example.key(), example.value()
        if state.get(key) == value:
            return None
        others = sorted(state.keys() - {key}, key=lambda other: stable_hash((key, other)))
        surplus = others[: max(0, len(others) + 1 - self.max_examples)]
        ops = {**dict.fromkeys(surplus), key: value}
        return diff_of(ops, key, author, base_version, target)


@dataclass(frozen=True)
class WorkedExample:
    """A `propose` function that answers a failed task with its own gold answer.

    Attributes:
        gold_key: Where in `Task.meta` the answer stands; of a list of answers the first is taken.
        is_pure: It computes and waits for nothing.
    """

    gold_key: str = "gold"
    is_pure: ClassVar[bool] = True

    def __call__(self, _rendered: str, task: Task, _output: Any, _reward: float, /) -> str | None:
        """The JSON object for `FewShot`; None if the task has no gold answer."""
        gold = task.meta.get(self.gold_key)
        if isinstance(gold, list | tuple):
            gold = next(iter(cast(Sequence[Any], gold)), None)
        if gold is None or not str(gold).strip() or not task.prompt.strip():
            return None
        return _Example(task.prompt, str(gold)).value()


def worked_example(gold_key: str = "gold") -> WorkedExample:
    """A `propose` function for `FewShot` that needs no model.

    It turns a failed task and ``task.meta[gold_key]`` into an example, and proposes nothing for a
    task without a gold answer.
    """
    return WorkedExample(gold_key)


def chat_turns(rendered: str) -> list[dict[str, str]]:
    """The turns of a chat rendering, ready to stand before the turn that asks the task.

    Each is ``{"role": "user" or "assistant", "content": text}``.

    Raises:
        ValueError: If `rendered` is no such list.
    """
    try:
        turns = json.loads(rendered)
    except ValueError:
        turns = None
    if not _are_turns(turns):
        raise ValueError(
            f"rendered is no list of chat turns but {rendered[:80]!r}; "
            'it is what FewShot(render="chat") renders'
        )
    return turns


def _are_turns(turns: object) -> TypeGuard[list[dict[str, str]]]:
    return isinstance(turns, list) and all(
        isinstance(turn, dict)
        and turn.keys() == {"role", "content"}
        and turn["role"] in _ROLES
        and isinstance(turn["content"], str)
        for turn in cast(list[Any], turns)
    )


@dataclass(frozen=True)
class _Example:
    input: str
    output: str

    @classmethod
    def from_value(cls, value: str) -> "_Example":
        """Read what `value()` wrote."""
        return cls(**json.loads(value))

    @classmethod
    def from_proposal(cls, proposal: str) -> "_Example":
        """Read the JSON object in a reply, whatever stands around it.

        Raises:
            ValueError: Saying what is wrong with it.
        """
        text = proposal[proposal.find("{") : proposal.rfind("}") + 1]
        try:
            fields = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            raise ValueError('it is no JSON object {"input": ..., "output": ...}') from None
        return cls(*(_as_text(fields, name) for name in ("input", "output")))

    def key(self) -> str:
        return "x" + short_digest(self.input)

    def value(self) -> str:
        fields = {"input": self.input, "output": self.output}
        return json.dumps(fields, ensure_ascii=False)

    def turns(self) -> list[dict[str, str]]:
        contents = zip(_ROLES, (self.input, self.output), strict=True)
        return [{"role": role, "content": content} for role, content in contents]

    def block(self) -> str:
        return f"Input:{_indented(self.input)}\nOutput:{_indented(self.output)}"


def _as_text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if value is None or not text.strip():
        raise ValueError(f"its {name!r} is missing or empty")
    return text


def _indented(text: str) -> str:
    """`text` after a label: on its line, or indented below it when it has several lines."""
    return _INDENT + text.replace("\n", _INDENT) if "\n" in text else f" {text}"
