"""Strategies for text: one value, a list of rules, one rule a category.

Besides `initial`, `render` and `to_diff`, each strategy offers `proposal_instructions(state)`: what
a reflector has to write so that `to_diff` can read it. A closed key space is declared by `keys()`.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from agentdescent.core.diff import Diff, Dropped, State, stable_hash
from agentdescent.core.outcomes import ProposalOutcome
from agentdescent.policy.line_merge import merge_lines

_EMPTY = "(empty)"
_QUOTES = "\"'`\u201c\u201d\u2018\u2019"
_DECORATION = f" \t*_[](){_QUOTES}"
_WRAPPERS = (
    ("**", "**"),
    ("__", "__"),
    *((mark, mark) for mark in "*_`\"'"),
    ("\u201c", "\u201d"),
    ("\u2018", "\u2019"),
)
_CLOSERS = str.maketrans("[(\u201c\u2018", "])\u201d\u2019")
_BULLET = re.compile(r"(?:[-*+\u2022]|\d+[.)])\s+")
_SEPARATOR = re.compile(r"[:\uff1a\n]|\s[-\u2013\u2014]\s")
_ROOM_FOR_DECORATION = 32

REMOVE = "REMOVE:"
"""How a proposal to `AppendRules(prune=True)` begins that removes a rule."""


def rule_id(text: str) -> str:
    """A key for `text`: "r" and ten hex digits, the same whatever its case and outer space."""
    return "r" + short_digest(text.strip().lower())


def short_digest(text: str) -> str:
    """The first ten hex digits of the SHA-1 of `text`."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:10]


def diff_of(ops: Mapping[str, Any], key: str, author: str, base_version: int, target: str) -> Diff:
    """The diff with `ops`, named after `key`, its author, its base and a hash of its content."""
    content = f"{stable_hash(sorted(ops.items())):016x}"[:8]
    return Diff(f"{author}:{key}:{base_version}:{content}", target, ops, author=author)


def unparsable(reason: str) -> Dropped:
    """What `to_diff` returns for a proposal that it cannot read."""
    return Dropped(ProposalOutcome.UNPARSABLE, reason)


def _constraint(reason: str) -> Dropped:
    return Dropped(ProposalOutcome.CONSTRAINT, reason)


@dataclass(frozen=True)
class SingleSlot:
    """One value, such as a system prompt; each accepted proposal replaces it.

    Attributes:
        initial_value: The value to start from; "" starts without one.
        key: The value's key in the state.
        empty_render: What `run` is given while there is no value.
        min_chars: Shorter proposals are dropped.
        join_lines: Two proposals that change different lines are joined instead of contradicting
            each other, and one made against an older text keeps what was changed since.
    """

    initial_value: str = ""
    key: str = "value"
    empty_render: str = "(no instruction yet)"
    min_chars: int = 1
    _: KW_ONLY
    join_lines: bool = False

    def keys(self) -> Sequence[str]:
        """The one key there is."""
        return (self.key,)

    def initial(self) -> State:
        """The initial value, if there is one."""
        return {self.key: self.initial_value} if self.initial_value else {}

    def render(self, state: State, /) -> str:
        """The value itself."""
        return str(state.get(self.key) or self.empty_render)

    def proposal_instructions(self, state: State, /) -> str:
        """Ask for the complete value, so that what works now is not lost."""
        if not state.get(self.key):
            return "There is no text yet. Reply with a complete one and nothing else."
        return (
            "Reply with the complete rewritten text and nothing else. It replaces the current text "
            "as a whole: keep every part that works and change only what the failure calls for."
        )

    def to_diff(
        self, state: State, proposal: str, author: str, base_version: int, target: str, /
    ) -> Diff | Dropped | None:
        """Replace the value by `proposal`, stripped."""
        text = proposal.strip()
        if len(text) < self.min_chars:
            return unparsable(f"{len(text)} characters are fewer than min_chars={self.min_chars}")
        if text == state.get(self.key):
            return None
        return diff_of({self.key: text}, self.key, author, base_version, target)

    def merge_values(self, key: str, base: str | None, /, *values: str) -> str | None:
        """The text with all changes to `base`, if that is wanted and they are of other lines."""
        del key
        return merge_lines(base, *values) if self.join_lines and base is not None else None


@dataclass(frozen=True)
class AppendRules:
    """A list of rules that only grows; each has a key made of its text.

    Proposals that differ in case, white space or a bullet in front alone are one rule.

    Attributes:
        title: The first line of the rendering.
        max_rules: A list of so many rules takes no further proposal; None for no bound. A merge of
            several proposals may still exceed it.
        max_chars: Longer proposals are dropped; None for no bound.
        near_duplicate: Drop a proposal that shares so much of its words with a rule, from above 0
            (one word) to 1 (all of them): words in both over words in either. None lets all in.
        prune: A proposal ``REMOVE: rule`` deletes that rule, and reflectors are told so. It is
            judged as every other edit, and so accepted only where the artifact is better without.
    """

    content_addressed = True

    title: str = "# Playbook"
    _: KW_ONLY
    max_rules: int | None = None
    max_chars: int | None = None
    near_duplicate: float | None = None
    prune: bool = False

    def __post_init__(self) -> None:
        for name in ("max_rules", "max_chars"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name} must be at least 1, got {limit}; None sets no bound")
        if self.near_duplicate is not None and not 0 < self.near_duplicate <= 1:
            raise ValueError(
                f"near_duplicate must be above 0 and at most 1, got {self.near_duplicate}; None "
                "lets near-duplicates in"
            )

    def initial(self) -> State:
        """No rules."""
        return {}

    def render(self, state: State, /) -> str:
        """The title and one `- rule` line each, in the order of their keys."""
        rules = [f"- {state[key]}" for key in sorted(state)]
        return "\n".join([self.title, *(rules or [_EMPTY])])

    def proposal_instructions(self, state: State, /) -> str:
        """Ask for one general rule, or for one to remove."""
        size = f" of at most {self.max_chars} characters" if self.max_chars else ""
        asked = (
            f"Reply with exactly one general rule, an imperative sentence on one line{size}, and "
            "nothing else."
        )
        if not state:
            return asked
        asked += " It is added to the rules there are: do not repeat one of them."
        if self.prune:
            asked += (
                f" Or, if one of them does harm, reply with `{REMOVE} ` and that rule, word for "
                "word."
            )
        return asked

    def to_diff(
        self, state: State, proposal: str, author: str, base_version: int, target: str, /
    ) -> Diff | Dropped | None:
        """Add `proposal` as one line, or remove the rule that it names."""
        text = _one_line(proposal)
        removes = self.prune and text.upper().startswith(REMOVE)
        if removes:
            text = _one_line(text[len(REMOVE) :])
        if not text:
            return unparsable("the proposal is empty")
        key = rule_id(" ".join(text.split()))
        if removes and key not in state:
            return unparsable("there is no such rule to remove")
        if not removes and key in state:
            return None
        refusal = None if removes else self._refusal(state, text)
        return refusal or diff_of(
            {key: None if removes else text}, key, author, base_version, target
        )

    def _refusal(self, state: State, text: str) -> Dropped | None:
        if self.max_chars is not None and len(text) > self.max_chars:
            return _constraint(f"{len(text)} characters are more than max_chars={self.max_chars}")
        if self.near_duplicate is not None:
            words = _words(text)
            for rule in map(str, state.values()):
                if _likeness(words, _words(rule)) >= self.near_duplicate:
                    return Dropped(ProposalOutcome.NO_OP, f"it says nearly the same as: {rule}")
        if self.max_rules is not None and len(state) >= self.max_rules:
            return _constraint(f"there are {len(state)} rules, and max_rules={self.max_rules}")
        return None


@dataclass(frozen=True)
class KeyedRules:
    """One rule a category; proposals for one category contradict each other.

    A proposal reads ``category: rule``. Case, bullets, emphasis, quotes and headings around the
    category do not matter, and a dash or the end of the line may stand for the colon.

    Attributes:
        categories: The categories, as their keys: stripped, lower case, each once.
        title: The first line of the rendering.
        allow_new: File a proposal that names no category under a key of its own. False drops it.
    """

    categories: Sequence[str]
    title: str = "# Config (by category)"
    _: KW_ONLY
    allow_new: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.categories, str):
            raise TypeError(
                f"categories must be a list of names, got the text {self.categories!r}; "
                f"write categories=[{self.categories!r}]"
            )
        folded = tuple(dict.fromkeys(map(_folded, self.categories)))
        if not folded or "" in folded:
            raise ValueError(
                f"categories must be names, and at least one, got {list(self.categories)!r}; "
                "for rules without categories use AppendRules()"
            )
        object.__setattr__(self, "categories", folded)

    def keys(self) -> Sequence[str]:
        """The categories."""
        return self.categories

    def initial(self) -> State:
        """No rules."""
        return {}

    def render(self, state: State, /) -> str:
        """The title, then `## category` and its rule, in the order of the keys."""
        rules = [f"## {key}\n{state[key]}" for key in sorted(state)]
        return "\n".join([self.title, *(rules or [_EMPTY])])

    def proposal_instructions(self, state: State, /) -> str:
        """Ask for one line that names its category."""
        without = [category for category in self.categories if category not in state]
        hint = f" There is no rule yet for: {', '.join(without)}." if without else ""
        return (
            "Reply with exactly one line of the form `<category>: <rule>` and nothing else. "
            f"The category is one of: {', '.join(self.categories)}.{hint} The rule replaces the "
            "one that its category has now: keep what works in it."
        )

    def to_diff(
        self, state: State, proposal: str, author: str, base_version: int, target: str, /
    ) -> Diff | Dropped | None:
        """Set the rule of the category that `proposal` names."""
        text = proposal.strip()
        found = self._find(text)
        if found is None and text and not self.allow_new:
            return unparsable(f"it names none of the categories {', '.join(self.categories)}")
        key, value = found or (rule_id(text), text)
        if not value:
            return unparsable(f"no rule follows category {key!r}" if found else "it is empty")
        if state.get(key) == value:
            return None
        return diff_of({key: value}, key, author, base_version, target)

    def _find(self, text: str) -> tuple[str, str] | None:
        """The category that `text` opens with, and what follows it."""
        bullet = _BULLET.match(text)
        text = _unwrapped(text[bullet.end() :] if bullet else text) + "\n"
        reach = max(map(len, self.categories)) + _ROOM_FOR_DECORATION
        for separator in _SEPARATOR.finditer(text, 0, reach):
            head, rest = text[: separator.start()], text[separator.end() :]
            for name in (_folded(head), _folded(head.lstrip("# ").strip(_DECORATION))):
                if name in self.categories:
                    return name, _unwrapped(rest.removeprefix(_left_open(head)).strip())
        return None


def _one_line(text: str) -> str:
    """`text` with its lines joined, without a bullet in front."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    bullet = _BULLET.match(line)
    return line[bullet.end() :] if bullet else line


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _likeness(words: frozenset[str], others: frozenset[str]) -> float:
    """The share of all words that both have."""
    return len(words & others) / max(1, len(words | others))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _unwrapped(text: str) -> str:
    """`text` without quotes or emphasis around the whole of it."""
    for opening, closing in _WRAPPERS:
        inner = text.removeprefix(opening).removesuffix(closing)
        if len(inner) == len(text) - len(opening + closing) and not (
            opening in inner or closing in inner
        ):
            return inner.strip()
    return text


def _left_open(head: str) -> str:
    """What closes the decoration that `head` opens and does not close: `**` for `**routing`."""
    bare = head.lstrip("# ")
    opened = bare[: len(bare) - len(bare.lstrip(_DECORATION))]
    closed = bare.rstrip(_DECORATION) != bare
    return "" if closed else opened[::-1].translate(_CLOSERS)
