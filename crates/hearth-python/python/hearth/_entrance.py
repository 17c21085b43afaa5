"""How this process gets into the mount of an agent: by its root, as an open directory.

`hearth run` lets one command see the store through an agent. Here the command is a helper that opens the root of the mount and
hands the descriptor over. So this process has the mount without having it in its tree, and without a namespace of its own.
"""

import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
import warnings

from ._command import command
from ._errors import Telling
from ._native import Pool

HELPER = os.path.join(os.path.dirname(__file__), "_helper.py")

WORDS_MAX = 4096


class Entrance:
    """The root of a mount as a descriptor, and the pool of its agent if that is lent."""

    def __init__(self, store):
        store = os.fsdecode(store)
        with Telling("use a store", store):
            os.stat(store)
        self.store = os.path.realpath(store)
        self._run = self._socket = None
        lender = os.environ.get("HEARTH_LENDER")
        if lender and os.stat(self.store).st_dev == device_of(lender):
            self.root = os.open(self.store, os.O_PATH | os.O_DIRECTORY)
        else:
            lender = self._enter()
        self.device, self.pool = device_of(lender), pool_of(lender)

    def _enter(self):
        run = [command(), "run", "--store", self.store, "--"]
        self._owner, self._words = os.getpid(), tempfile.TemporaryFile()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._run = self._started(run, theirs.fileno())
        told, fds, _, _ = socket.recv_fds(self._socket, WORDS_MAX, 1, socket.MSG_CMSG_CLOEXEC)
        if not fds:
            self._run.wait()
            why = self._said()
            self._socket.close()
            self._words.close()
            raise OSError(errno.ENOTCONN, f"cannot start a session: {why}", self.store)
        self.root = fds[0]
        for line in self._said().splitlines():
            if line.startswith("warning:"):
                warnings.warn(line, RuntimeWarning, stacklevel=5)
        return json.loads(told)["lender"]

    def _started(self, run, number):
        """A process of `hearth run` with the helper under it, which has the socket of this number."""
        helper = [sys.executable or "python3", "-I", "-S", HELPER, self.store, str(number)]
        return subprocess.Popen(
            [*run, *helper],
            stdin=subprocess.DEVNULL,
            stdout=self._words,
            stderr=self._words,
            pass_fds=[number],
            # A group of its own: Ctrl-C in a terminal is for the program, which may go on after it.
            start_new_session=True,
        )

    def _said(self):
        self._words.seek(0)
        return self._words.read().decode(errors="replace").strip()

    def leave(self):
        """Ends the session. Agents that it started bring their bytes to the store and end; an error says if they could not."""
        os.close(self.root)
        if self._run is None:
            return
        if os.getpid() != self._owner:
            # A child of a fork: the process is its parent's, which has not ended the session.
            self._run.returncode = 0
            self._socket.close()
            self._words.close()
            return
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._words:
            if self._run.wait() != 0:
                raise OSError(errno.EIO, f"cannot end a session: {self._said()}", self.store)


def device_of(lender):
    """The device of the mount's files, by what `hearth run` tells its command."""
    return int(lender.partition(":")[0]) if lender else None


def pool_of(lender):
    """The pool that the agent lends. Without one, all reads are the mount's."""
    path = lender.partition(":")[2] if lender else None
    try:
        return Pool(os.fsencode(path)) if path else None
    except OSError:
        return None
