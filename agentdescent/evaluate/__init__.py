"""Scoring artifacts: evaluator tasks, the memo they share, and the gate."""
