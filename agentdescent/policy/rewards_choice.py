"""How the multiple-choice scorer reads a letter."""

import re

from agentdescent.policy.rewards_text import normalised, without_emphasis


def read_choice(text: str, choices: str) -> str | None:
    r"""The one of `choices`, capital letters, that `text` settles on; None if it does not.

    That is the whole text if it is one letter of either case, else the last letter declared by
    ``\boxed{B}``, ``Answer: B`` or ``the answer is (B)``, else the only one written like ``(B)`` or
    ``B)``, else the only one standing alone.
    """
    whole = normalised(text).upper()
    if len(whole) == 1 and whole in choices:
        return whole
    text = without_emphasis(text)
    letter = f"([{re.escape(choices)}])"
    marks = r"[(\[\"']*"
    before = r"\\boxed\s*\{(?:\\text\{)?|(?i:\banswer(?:\s+is)?)[\s:]*"
    if declared := re.findall(rf"(?:{before}){marks}{letter}(?![\w'])", text):
        return declared[-1]
    for form in (rf"(?<![\w']){letter}\)", rf"(?<![\w']){letter}(?![\w'])"):
        if found := set(re.findall(form, text)):
            return found.pop() if len(found) == 1 else None
    return None
