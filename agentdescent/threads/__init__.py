"""The one door to OS threads: synchronous user code, and override points that are plain `def`."""

from agentdescent.threads.daemon import (
    DaemonThreads,
    Lock,
    awaited,
    called,
    follow,
    in_thread,
    is_async,
    loop_is_running,
    now,
    seated,
)
from agentdescent.threads.hooks import either, invoke, noting_abandoned_hooks, on_loop

__all__ = [
    "DaemonThreads",
    "Lock",
    "awaited",
    "called",
    "either",
    "follow",
    "in_thread",
    "invoke",
    "is_async",
    "loop_is_running",
    "noting_abandoned_hooks",
    "now",
    "on_loop",
    "seated",
]
