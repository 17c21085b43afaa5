"""Errors in words: the action, its object, the cause, and what to type."""

import errno
import os

HINTS = {
    errno.ENOTCONN: "the agent is gone; open a new session",
    errno.EHOSTDOWN: "an agent of the job is gone; `hearth status` names it",
    errno.EXDEV: "the path leads out of the store, or through a link to a whole path",
    errno.ENOSYS: "Linux 5.6 or newer is needed",
}


def told(error, action, path):
    """An OSError of the same number that says what could not be done."""
    number = error.errno or errno.EIO
    words = f"cannot {action}: {os.strerror(number)}"
    if number in HINTS:
        words += f"; {HINTS[number]}"
    return OSError(number, words, path)


class Telling:
    """Has the errors of a block say what was being done. Cheaper than a generator, as every call on a name uses it."""

    def __init__(self, action, path):
        self.action, self.path = action, path

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, OSError):
            raise told(error, self.action, self.path) from error
        return False
