import copy
import pickle
from dataclasses import asdict

from agentdescent.usage import Usage


def test_a_new_account_is_empty_and_knows_of_no_provider():
    assert Usage() == Usage(0, 0, 0, 0.0, 0, None)


def test_each_record_is_one_call():
    usage = Usage()
    usage.record(prompt_tokens=1000, completion_tokens=200, seconds=1.5)
    usage.record(seconds=0.5, failed=True)

    assert usage == Usage(2, 1000, 200, 2.0, 1)
    assert usage.total_tokens == 1200


def test_cost_is_by_the_million_of_each_kind():
    usage = Usage(prompt_tokens=2_000_000, completion_tokens=500_000)

    assert usage.estimated_cost(per_1m_prompt=3.0, per_1m_completion=15.0) == 13.5


def test_the_summary_is_one_line():
    usage = Usage(calls=1, prompt_tokens=12_345, completion_tokens=678, seconds=9.87)

    assert usage.summary() == "1 calls, 12,345 prompt + 678 completion tokens, 9.9s in the model"


def test_the_summary_mentions_failures_if_there_are_any():
    assert Usage(calls=1500, failures=3).summary() == (
        "1,500 calls, 0 prompt + 0 completion tokens, 0.0s in the model, 3 failed"
    )


def test_an_account_can_be_copied_and_stored():
    usage = Usage(calls=2, provider_calls=3)

    assert pickle.loads(pickle.dumps(usage)) == copy.deepcopy(usage) == usage
    assert asdict(usage)["provider_calls"] == 3
