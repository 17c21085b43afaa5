"""Files that are whole under their name, or not there."""

import os
import secrets


class Checkpoint:
    """A file under a temporary name beside its own, which it gets once all of its bytes are in the store.

    Whatever goes wrong before that, a file that had the name before still has it. A process that is killed leaves the temporary
    name behind: it begins with a dot and ends with `.part`.
    """

    def __init__(self, session, path):
        path = os.fsdecode(os.fspath(path))
        self._session, self._path = session, path
        self._parent, name = os.path.split(path)
        self._part = os.path.join(self._parent, f".{name}.{secrets.token_hex(8)}.part")

    def __enter__(self):
        self._file = self._session.open(self._part, "xb")
        return self._file

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self._publish()
        except BaseException:
            self._discard()
            raise
        if kind is not None:
            self._discard()

    def _publish(self):
        # In the store before the name shows: a name of bytes that could still be lost would be a torn file.
        self._file.fsync()
        self._file.close()
        self._session.rename(self._part, self._path)
        self._session.sync_dir(self._parent or ".")

    def _discard(self):
        for step in (self._file.close, lambda: self._session.unlink(self._part)):
            try:
                step()
            except OSError:
                # The first error is the one to tell.
                pass
