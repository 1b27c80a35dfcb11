"""Tasks from files, from the web or from a model, and how to split them.

What waits has a twin whose name begins with "a" for asynchronous code: ``await ahf_rows(...)`` is
``hf_rows(...)``.
"""

from agentdescent.core.task import tasks_from
from agentdescent.data.dataset import Dataset, dataset_from_splits, split_dataset
from agentdescent.data.files import afetch_bytes, afetch_text
from agentdescent.data.hard import aselect_hard
from agentdescent.data.hub import ahf_feature_names, ahf_rows, aload_gated_hf
from agentdescent.data.plain import (
    fetch_bytes,
    fetch_text,
    hf_feature_names,
    hf_rows,
    load_gated_hf,
    select_hard,
    synthesize,
)
from agentdescent.data.readers import read_csv, read_jsonl
from agentdescent.data.synthetic import SyntheticTasks, asynthesize
from agentdescent.retry import Backoff

__all__ = [
    "Backoff",
    "Dataset",
    "SyntheticTasks",
    "afetch_bytes",
    "afetch_text",
    "ahf_feature_names",
    "ahf_rows",
    "aload_gated_hf",
    "aselect_hard",
    "asynthesize",
    "dataset_from_splits",
    "fetch_bytes",
    "fetch_text",
    "hf_feature_names",
    "hf_rows",
    "load_gated_hf",
    "read_csv",
    "read_jsonl",
    "select_hard",
    "split_dataset",
    "synthesize",
    "tasks_from",
]
