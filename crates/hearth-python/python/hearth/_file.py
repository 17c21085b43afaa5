"""An open file of a session."""

import errno
import io
import os

from ._errors import Telling, told
from ._native import Handle

MODES = {
    "r": os.O_RDONLY,
    "r+": os.O_RDWR,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "w+": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "x+": os.O_RDWR | os.O_CREAT | os.O_EXCL,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "a+": os.O_RDWR | os.O_CREAT | os.O_APPEND,
}


def flags_of(mode):
    """The flags of open(2) for a mode such as "rb" or "r+b"."""
    plain = mode.replace("b", "", 1)
    if "b" not in mode or plain not in MODES:
        hint = "the modes are rb, wb, xb, ab, and each with +; io.TextIOWrapper makes text of them"
        raise ValueError(f"cannot open a file in mode {mode!r}: {hint}")
    return MODES[plain]


class _Closed:
    """Stands for the handle of a closed file, so that no number of another file's is used."""

    def __getattr__(self, name):
        raise ValueError("I/O operation on a closed file")


class File(io.RawIOBase):
    """A file of the store, without a buffer of its own. Its position is its own too, not that of `fileno()`."""

    def __init__(self, fd, name, flags, pooled=None):
        self._fd, self.name, self._flags = fd, name, flags
        self._handle = Handle(fd, *pooled) if pooled and self.readable() else Handle(fd)
        self._position = 0
        self.mode = {os.O_RDONLY: "rb", os.O_WRONLY: "wb"}.get(flags & os.O_ACCMODE, "rb+")

    def readable(self):
        return self._flags & os.O_ACCMODE != os.O_WRONLY

    def writable(self):
        return self._flags & os.O_ACCMODE != os.O_RDONLY

    def seekable(self):
        return True

    def fileno(self):
        if self._fd < 0:
            raise ValueError("I/O operation on a closed file")
        return self._fd

    def pread(self, size, offset):
        """Up to `size` bytes from `offset` on, without moving the position."""
        try:
            return self._handle.pread(size, offset)
        except OSError as error:
            raise told(error, "read", self.name) from error

    def pread_into(self, buffer, offset):
        """Fills `buffer` from `offset` on, without moving the position; returns how many bytes."""
        try:
            return self._handle.pread_into(buffer, offset)
        except OSError as error:
            raise told(error, "read", self.name) from error

    def view(self, offset, size):
        """A read-only memoryview of up to `size` bytes. It is a copy of its own, so nobody changes it or takes it away."""
        return memoryview(self.pread(size, offset))

    def read(self, size=-1):
        if size is None or size < 0:
            return self.readall()
        data = self.pread(size, self._position)
        self._position += len(data)
        return data

    def readall(self):
        parts = []
        while True:
            # One byte more than there is meets the end, should the file not have grown.
            size = max(self.stat().st_size - self._position, 0) + 1
            data = self.read(size)
            parts.append(data)
            if len(data) < size:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer):
        count = self.pread_into(buffer, self._position)
        self._position += count
        return count

    def pwrite(self, data, offset):
        """Writes bytes at `offset`, without moving the position; returns how many. Not for a file that is open for appending."""
        with Telling("write", self.name):
            return os.pwrite(self.fileno(), data, offset)

    def write(self, data):
        if self._flags & os.O_APPEND:
            with Telling("write", self.name):
                count = os.write(self.fileno(), data)
            self._position = self.stat().st_size
        else:
            count = self.pwrite(data, self._position)
            self._position += count
        return count

    def seek(self, offset, whence=io.SEEK_SET):
        base = {io.SEEK_SET: lambda: 0, io.SEEK_CUR: self.tell, io.SEEK_END: lambda: self.stat().st_size}
        if whence not in base:
            raise ValueError(f"cannot seek: whence is 0, 1 or 2, not {whence}")
        reached = base[whence]() + offset
        if reached < 0:
            raise ValueError("cannot seek to before the first byte")
        self._position = reached
        return reached

    def tell(self):
        self.fileno()
        return self._position

    def truncate(self, size=None):
        size = self._position if size is None else size
        with Telling("cut", self.name):
            os.ftruncate(self.fileno(), size)
        return size

    def fsync(self):
        """When this returns, the bytes are in the store."""
        with Telling("sync", self.name):
            os.fsync(self.fileno())

    def stat(self):
        """As os.fstat has it."""
        with Telling("look at", self.name):
            return os.fstat(self.fileno())

    def close(self):
        """Bytes that were written are in the store when this returns, unless the job closes buffered."""
        if self.closed:
            return
        fd, self._fd, self._handle = self._fd, -1, _Closed()
        super().close()
        try:
            os.close(fd)
        except OSError as error:
            # An agent that is gone has nothing to bring to the store of a file that was only read.
            if self.writable() or error.errno != errno.ENOTCONN:
                raise told(error, "close", self.name) from error
