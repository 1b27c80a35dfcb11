"""The reference aggregator: one stage of a merge a module."""
