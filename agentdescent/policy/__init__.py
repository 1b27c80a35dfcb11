"""Decisions: pure functions and small frozen classes. No event loop, no I/O."""
