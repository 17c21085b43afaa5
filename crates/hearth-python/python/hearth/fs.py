"""The file system of URLs that begin with `hearth://`, for fsspec: pandas, PyArrow, Zarr and Dask use it.

    pandas.read_csv("hearth:///scratch/table.csv")

A path is a whole one. Its store is the option `store`, or else the one among those that are up which holds the path.
"""

import errno
import io
import os
import stat
import threading

from fsspec import AbstractFileSystem

from ._command import is_below, store_of
from ._session import Session

BUFFER_BYTES = 256 << 10

KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


# Sessions of this process by their stores; each lasts until its agent or the process is gone.
SESSIONS = {}
LOCK = threading.Lock()


def session_of(store):
    """The session for a store; a new one if there is none, or its agent is gone."""
    with LOCK:
        session = SESSIONS.get(store)
        if session is None or not session.is_up():
            session = SESSIONS[store] = Session(store)
        return session


def session_for(path):
    """The session whose store holds a whole path. Agents are looked for if there is none yet."""
    known = [store for store in list(SESSIONS) if is_below(path, store)]
    return session_of(max(known, key=len) if known else store_of(path))


class HearthFileSystem(AbstractFileSystem):
    """Files of Hearth's stores by whole paths."""

    protocol = "hearth"
    root_marker = "/"
    async_impl = False

    def __init__(self, store=None, **options):
        super().__init__(**options)
        self.store = store and os.path.realpath(store)

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        path = path[len("hearth://") :] if path.startswith("hearth://") else path
        return "/" + path.strip("/")

    def _at(self, path):
        """The session that has a path, and the path."""
        path = self._strip_protocol(path)
        return session_of(self.store) if self.store else session_for(path), path

    def _file(self, path, mode):
        """A file of a session. Directories of one that is made are made too, as libraries that know only objects expect."""
        session, path = self._at(path)
        try:
            return session.open(path, mode)
        except FileNotFoundError:
            if "r" in mode:
                raise
            self.makedirs(self._parent(path), exist_ok=True)
            return session.open(path, mode)

    def _open(self, path, mode="rb", **options):
        file = self._file(path, mode)
        if "+" in mode:
            return io.BufferedRandom(file, BUFFER_BYTES)
        buffered = io.BufferedReader if "r" in mode else io.BufferedWriter
        return buffered(file, BUFFER_BYTES)

    def info(self, path, **options):
        session, path = self._at(path)
        return described(path, session.stat(path))

    def ls(self, path, detail=True, **options):
        session, path = self._at(path)
        found = session.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            entries = [described(path, found)]
        else:
            entries = [described(os.path.join(path, name), one) for name, one in session.scandir(path)]
        return entries if detail else [entry["name"] for entry in entries]

    def cat_file(self, path, start=None, end=None, **options):
        with self._file(path, "rb") as file:
            size = file.stat().st_size
            start, end, _ = slice(start, end).indices(size)
            return file.pread(max(end - start, 0), start)

    def pipe_file(self, path, value, mode="overwrite", **options):
        with self._file(path, "xb" if mode == "create" else "wb") as file:
            rest = memoryview(value).cast("B")
            while rest:
                rest = rest[file.write(rest) :]

    def mkdir(self, path, create_parents=True, **options):
        session, path = self._at(path)
        if path == session.store:
            raise FileExistsError(errno.EEXIST, "cannot make a directory: it is the store", path)
        try:
            session.mkdir(path)
        except FileNotFoundError:
            if not create_parents:
                raise
            self.makedirs(self._parent(path), exist_ok=True)
            session.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        try:
            self.mkdir(path)
        except FileExistsError:
            if not exist_ok:
                raise

    def rmdir(self, path):
        session, path = self._at(path)
        session.rmdir(path)

    def rm_file(self, path):
        session, path = self._at(path)
        try:
            session.unlink(path)
        except IsADirectoryError:
            # `rm` of a tree comes here with its directories too, the innermost first.
            session.rmdir(path)

    def mv(self, path1, path2, **options):
        session, path = self._at(path1)
        session.rename(path, self._strip_protocol(path2))

    def cp_file(self, path1, path2, **options):
        if self.isdir(path1):
            return self.makedirs(path2, exist_ok=True)
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while piece := source.read(BUFFER_BYTES):
                target.write(piece)

    def modified(self, path):
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)


def described(name, found):
    """Attributes as fsspec tells them."""
    return {
        "name": name,
        "size": found.st_size,
        "type": KINDS.get(stat.S_IFMT(found.st_mode), "other"),
        "mtime": found.st_mtime,
        "mode": found.st_mode,
        "ino": found.st_ino,
        "nlink": found.st_nlink,
        "uid": found.st_uid,
        "gid": found.st_gid,
    }
