"""Faults that strike a ledger at a step of one's choice."""

import errno
import os
import signal


class Seen:
    """Writes down every step."""

    def __init__(self):
        self.steps = []

    def reach(self, step):
        self.steps.append(step)


class Failing:
    """A disk that is full when a step is reached for the nth time, or from then on."""

    def __init__(self, step, nth=1, *, for_good=False):
        self._step, self._nth, self._for_good = step, nth, for_good
        self.struck = False

    def reach(self, step):
        if self._for_good and self.struck:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if step == self._step:
            self._nth -= 1
            if not self._nth:
                self.struck = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Killing:
    """Kills the process when a step is reached for the nth time."""

    def __init__(self, step, nth=1):
        self._step, self._nth = step, nth

    def reach(self, step):
        if step == self._step:
            self._nth -= 1
            if not self._nth:
                os.kill(os.getpid(), signal.SIGKILL)
