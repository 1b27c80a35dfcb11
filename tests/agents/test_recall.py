"""Answers that are remembered."""

import pytest

from agentdescent.agents.recall import Recall


@pytest.mark.asyncio
async def test_the_answer_asked_for_longest_ago_goes_first():
    made = []

    async def ask(key):
        async def make():
            made.append(key)
            return key.upper()

        assert await recall.get(key, make) == key.upper()

    recall = Recall(2)
    for key in "abacba":
        await ask(key)

    assert made == ["a", "b", "c", "b", "a"]
