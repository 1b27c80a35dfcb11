"""Tasks from files, from a hub or from a model, and how to split them."""

from agentdescent.data.dataset import Dataset, dataset_from_splits, split_dataset

__all__ = ["Dataset", "dataset_from_splits", "split_dataset"]
