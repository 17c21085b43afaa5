"""Files of a Hearth job, read out of the memory of this node.

    with hearth.Session("/scratch") as session, session.open("input/a.bin") as file:
        head = file.pread(4096, 0)
"""

from ._file import File
from ._session import Session

__all__ = ["File", "Session"]
