"""A session: the files of one store through the agent of this node."""

import contextlib
import errno
import os
import stat
import weakref

from ._checkpoint import Checkpoint
from ._command import by_links, is_below, only_store
from ._entrance import Entrance
from ._errors import Telling
from ._file import File, flags_of
from ._native import open_beneath


class Session:
    """Files of a store. Uses the agents that are up for it, or starts one and ends it with the session, as `hearth run` does.

    Paths are whole ones below the store, or relative to the store's root.
    """

    def __init__(self, store=None):
        self._entrance = None
        self._entrance = Entrance(only_store() if store is None else os.fspath(store))
        self._files = weakref.WeakSet()
        self.store = self._entrance.store

    def open(self, path, mode="rb"):
        """Opens a file in a binary mode: rb, wb, xb, ab, and each with a plus."""
        flags = flags_of(mode)
        fd = self._open(path, flags, "open")
        file = File(fd, self._whole(path), flags, self._pooled(fd, path))
        # A file that is in use keeps its session, which would close it.
        file.session = self
        self._files.add(file)
        return file

    def _pooled(self, fd, path):
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            os.close(fd)
            raise IsADirectoryError(errno.EISDIR, "cannot open: it is a directory", self._whole(path))
        within = self._entrance
        regular = stat.S_ISREG(found.st_mode) and found.st_dev == within.device
        return (within.pool, found.st_ino) if within.pool and regular else None

    def read(self, path):
        """All bytes of a file."""
        with self.open(path) as file:
            return file.readall()

    def checkpoint(self, path):
        """A file that gets its name when the `with` block ends well, with all of its bytes in the store, and else never."""
        return Checkpoint(self, path)

    def stat(self, path):
        """As os.stat has it. A symbolic link is followed if it stays within the store."""
        with self._place(path, os.O_PATH, "look at") as fd:
            return os.fstat(fd)

    def listdir(self, path="."):
        """The names in a directory, in no order."""
        with self._place(path, os.O_RDONLY | os.O_DIRECTORY, "list") as fd, Telling("list", self._whole(path)):
            return os.listdir(fd)

    def scandir(self, path="."):
        """Pairs of a name in a directory and its attributes, links not followed, in no order."""
        with self._place(path, os.O_RDONLY | os.O_DIRECTORY, "list") as fd, Telling("list", self._whole(path)):
            with os.scandir(fd) as entries:
                return [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]

    def mkdir(self, path, mode=0o777):
        """Makes a directory."""
        with self._parent(path, "make a directory") as (within, name):
            os.mkdir(name, mode, dir_fd=within)

    def rmdir(self, path):
        """Removes an empty directory."""
        with self._parent(path, "remove a directory") as (within, name):
            os.rmdir(name, dir_fd=within)

    def unlink(self, path):
        """Removes a name that is not a directory's."""
        with self._parent(path, "remove") as (within, name):
            os.unlink(name, dir_fd=within)

    def rename(self, old, new):
        """Gives a file or directory another name; a file of that name is replaced."""
        with self._parent(old, "rename") as (from_dir, from_name), self._parent(new, "rename to") as (to_dir, to_name):
            os.replace(from_name, to_name, src_dir_fd=from_dir, dst_dir_fd=to_dir)

    def sync_dir(self, path="."):
        """When this returns, the names in a directory are in the store."""
        with self._place(path, os.O_RDONLY | os.O_DIRECTORY, "sync") as fd, Telling("sync", self._whole(path)):
            os.fsync(fd)

    def is_up(self):
        """Whether the session is open, and its agent answers."""
        try:
            return self._entrance is not None and bool(os.statvfs(self._entrance.root))
        except OSError:
            return False

    def close(self):
        """Closes all files of the session, then ends it. Errors of a file's close show here, the first one."""
        entrance, self._entrance = self._entrance, None
        if entrance is None:
            return
        with contextlib.ExitStack() as rest:
            rest.callback(entrance.leave)
            for file in list(self._files):
                rest.callback(file.close)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def __del__(self):
        # At the end of the interpreter modules may be gone; the helper ends with the socket in any case.
        with contextlib.suppress(Exception):
            self.close()

    def __reduce__(self):
        return Session, (self.store,)

    def __repr__(self):
        return f"hearth.Session({self.store!r})"

    def _whole(self, path):
        return os.path.join(self.store, os.fsdecode(os.fspath(path)))

    def _below(self, path):
        """The path from the store's root on. Whole paths elsewhere are refused: the mount does not have them."""
        path = os.fsdecode(os.fspath(path))
        if not os.path.isabs(path):
            return os.fsencode(path) or b"."
        found = path if is_below(path, self.store) else by_links(path)
        if not is_below(found, self.store):
            raise OSError(errno.EXDEV, f"the path is not below the store `{self.store}`", path)
        return os.fsencode(found[len(self.store) :].lstrip("/") or ".")

    def _open(self, path, flags, action):
        if self._entrance is None:
            raise ValueError("the session is closed")
        with Telling(action, self._whole(path)):
            mode = 0o666 if flags & os.O_CREAT else 0
            return open_beneath(self._entrance.root, self._below(path), flags, mode)

    @contextlib.contextmanager
    def _place(self, path, flags, action):
        fd = self._open(path, flags, action)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _parent(self, path, action):
        """The open directory that a name is in, and the name."""
        parent, name = os.path.split(os.fsdecode(os.fspath(path)).rstrip("/"))
        with self._place(parent or ".", os.O_PATH | os.O_DIRECTORY, action) as fd:
            with Telling(action, self._whole(path)):
                yield fd, name
