"""A rig of compute hosts over one store, and commands on them. Needs root."""

import json
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RIG = os.path.join(HERE, "rig.sh")


def stores():
    """The kinds of stores that a rig can have."""
    return subprocess.run([RIG, "stores"], capture_output=True, text=True, check=True).stdout.split()


def lacks(store):
    """What this machine lacks for a rig of that kind; nothing if it can be built."""
    done = subprocess.run([RIG, "check", store], capture_output=True, text=True)
    return " ".join(done.stderr.split()) if done.returncode else ""


class Hosts:
    """Compute hosts that mount one store. To be closed, also after a failure: a context manager."""

    def __init__(self, store, compute):
        self.top = tempfile.mkdtemp(prefix="hearth-rig-")
        self.rig = os.path.join(self.top, "rig")
        os.chmod(self.top, 0o755)
        argv = [RIG, "up", self.rig, "--store", store, "--compute", str(compute)]
        up = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        if up.returncode:
            shutil.rmtree(self.top, ignore_errors=True)
            raise RuntimeError(up.stderr.strip()[-600:])
        with open(os.path.join(self.rig, "rig.json")) as file:
            self.compute = json.load(file)["compute"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([RIG, "down", self.rig], capture_output=True, timeout=200)
        # What `down` could not end stays to be looked at, and may be a mount.
        if not os.path.exists(self.rig):
            shutil.rmtree(self.top, ignore_errors=True)

    def store(self, host):
        """The directory where a host mounts the store."""
        return self.compute[host]["mount"]

    def start(self, host, argv, env=None):
        """Begins a command on a host, in a process group of its own."""
        return subprocess.Popen([RIG, "exec", self.rig, f"compute{host}", *argv], env={**os.environ, **(env or {})},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)
