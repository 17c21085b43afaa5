"""The command `hearth`: its path, and the stores that it has up."""

import errno
import json
import os
import shutil
import subprocess
import sysconfig


def command():
    """The path of the command: what HEARTH_BIN says, or beside the scripts of this Python, or on PATH."""
    named = os.environ.get("HEARTH_BIN")
    if named:
        return named
    beside = os.path.join(sysconfig.get_path("scripts"), "hearth")
    found = beside if os.access(beside, os.X_OK) else shutil.which("hearth")
    if not found:
        hint = "install it, or name it in HEARTH_BIN"
        raise FileNotFoundError(errno.ENOENT, f"cannot find the command `hearth`; {hint}")
    return found


def stores():
    """The stores for which this user has agents up on this machine, each once."""
    asked = subprocess.run(
        [command(), "status", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    lines = asked.stdout.decode(errors="surrogateescape").splitlines()
    return list(dict.fromkeys(json.loads(line)["store"] for line in lines))


def only_store():
    """The store of a session that names none."""
    named = os.environ.get("HEARTH_MOUNT") or os.environ.get("HEARTH_STORE")
    if named:
        return named
    found = stores()
    if len(found) == 1:
        return found[0]
    cause = "are up for " + ", ".join(f"`{store}`" for store in found) if found else "are not up"
    raise OSError(errno.ENOTCONN, f"cannot choose a store: agents {cause}; type hearth.Session(STORE)")


def store_of(path):
    """The store that a whole path lies in: one that is named in the environment, or one that is up."""
    named = os.environ.get("HEARTH_MOUNT") or os.environ.get("HEARTH_STORE")
    found = [os.path.realpath(named)] if named else stores()
    for name in (path, by_links(path)):
        holds = [store for store in found if is_below(name, store)]
        if holds:
            return max(holds, key=len)
    hint = "type `hearth up --store DIR`, or give the option store=DIR"
    raise FileNotFoundError(errno.ENOENT, f"no agents are up for a store that holds it; {hint}", path)


def by_links(path):
    """A whole path by which a link in front of the store may lead to a name in it. The name itself is not followed."""
    parent, name = os.path.split(path.rstrip("/") or "/")
    return os.path.join(os.path.realpath(parent), name)


def is_below(path, store):
    """Whether a whole path is a directory's, or of something in it."""
    return path == store or path.startswith(store.rstrip("/") + "/")
