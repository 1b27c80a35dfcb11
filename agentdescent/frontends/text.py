"""`evolve_skill`: one text in front of every prompt."""

from collections.abc import Iterable, Mapping
from typing import Any

from agentdescent.agents.completion import Completion
from agentdescent.agents.llm import LLMAgent, reflector
from agentdescent.core.protocols import Reward
from agentdescent.dataloader import Dataset
from agentdescent.frontends.evolved import Evolved
from agentdescent.frontends.job import Job, blocking, completed, in_three, planned, scorer
from agentdescent.policy.strategies import SingleSlot


async def async_evolve_skill(  # noqa: PLR0913 - one line of a call each
    data: Iterable[Any] | Dataset[Any],
    model: Completion,
    *,
    prompt: str = "prompt",
    gold: str = "gold",
    score: str | Reward = "last_number",
    instruction: str = "You are a helpful assistant.",
    template: str = "{skill}\n\n{prompt}",
    reflect_with: Completion | None = None,
    split: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    **options: Any,
) -> Evolved:
    """Evolve the instruction of a model against examples, in one call.

    The examples are split in three: workers learn from the first part, merges are judged by the
    second, and the third is touched by nobody until the run is over. Then the first instruction and
    the last one are compared on it.

    Args:
        data: Rows (mappings of columns), tasks, or a `Dataset` with three parts of its own.
        model: A completion; it solves the tasks.
        prompt: The column with the prompt, or a template of several; for rows.
        gold: The column with the expected answer; for rows.
        score: "last_number", "exact", "contains", "numeric_close", or a reward of your own.
        instruction: The text to begin with.
        template: What the model is asked, with ``{skill}`` and ``{prompt}``.
        reflect_with: A completion that looks at failures; by default `model`.
        split: The shares of training, held-out and test tasks.
        seed: Of the split, and as of `async_evolve`.
        **options: Any other argument of `async_evolve`. By default it works in rounds, 8 at most,
            with up to 8 workers at once, and ends at a held-out reward of 0.98 or after 3 rounds
            without progress. Budgets hold for the run; the test takes two more calls a test task.

    Returns:
        The result of the run, with `test`. Always check `error` and `stop_reason`.

    Raises:
        ValueError: If there is no data, or an argument cannot be honoured.
        TypeError: If a callable has not the form it needs, or an argument is unknown.

    Cancelling it cancels the run, as in `async_evolve`.
    """
    return await (await planned(_plan, dict(locals()))).carry_out()


def _plan(  # noqa: PLR0913 - as above
    data: Iterable[Any] | Dataset[Any],
    model: Completion,
    *,
    prompt: str,
    gold: str,
    score: str | Reward,
    instruction: str,
    template: str,
    reflect_with: Completion | None,
    split: tuple[float, float, float],
    seed: int,
    options: Mapping[str, Any],
) -> Job:
    missing = [field for field in ("{skill}", "{prompt}") if field not in template]
    if missing:
        raise ValueError(f"template={template!r:.80} lacks the field {missing[0]}")
    reward = scorer(score)
    parts = in_three(data, prompt=prompt, gold=gold, split=split, seed=seed, reward=reward)
    agent = LLMAgent(model, template.replace("{skill}", "{artifact}"))
    given = {
        "run": agent.solve,
        "propose": reflector(reflect_with or model),
        "strategy": SingleSlot(instruction),
        **options,
    }
    ready = completed(given, seed=seed, rounds=8, most_workers=8, n_train=len(parts.train))
    return Job(parts, reward, ready)


evolve_skill = blocking(async_evolve_skill, _plan)
