#!/usr/bin/env python3
"""What small files cost the servers of GlusterFS: requests for each file, bare and through Hearth. Needs root.

usage: requests.py [--files N] [OPTION of hearth up]...

Two hosts have the store. Each row is counted by the servers themselves, so that load does not matter. RELEASE is not
counted: clients send it when they please. HEARTH names the binary (default: target/release/hearth).
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from hosts import HERE, RIG, Hosts, lacks

HEARTH = os.path.abspath(os.environ.get("HEARTH", os.path.join(HERE, "../target/release/hearth")))
COUNTED = re.compile(r"^\s*[\d.]+(?:\s+[\d.]+ \w+){3}\s+(\d+)\s+([A-Z]+)")
# Longer than clients keep what they were told.
PAUSE = 3

READ = """for i in range(N):
    fd = os.open(f"{D}/{i}", os.O_RDONLY); os.fstat(fd); os.read(fd, 8192); os.close(fd)"""
STAT = """for i in range(N): os.stat(f"{D}/{i}")"""
CREATE = """for i in range(N):
    fd = os.open(f"{D}/{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL); os.write(fd, b"x" * 4096); os.close(fd)"""
UNLINK = """for i in range(N): os.unlink(f"{D}/{i}")"""

# Each with the host that does it, and whether it waits before.
ROWS = [
    ("create, write 4 KiB, close", 0, CREATE, False),
    ("open, read, close: on another node, first", 1, READ, True),
    ("the same again", 1, READ, False),
    ("the same, 3 s later", 1, READ, True),
    ("stat, 3 s later", 1, STAT, True),
    ("unlink", 0, UNLINK, True),
]


class Counter:
    """The requests that the servers have taken."""

    def __init__(self, hosts):
        self.argv = [RIG, "exec", hosts.rig, "storage0", "gluster", "--mode=script", "volume", "profile", "hearth"]
        self.ask("start")

    def ask(self, *words):
        return subprocess.run([*self.argv, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def since(self):
        found = {}
        for line in self.ask("info", "incremental").splitlines():
            match = COUNTED.match(line)
            if match and not match[2].startswith(("RELEASE", "FORGET")):
                found[match[2]] = found.get(match[2], 0) + int(match[1])
        return found


def run(hosts, host, argv, env=None):
    running = hosts.start(host, argv, env)
    out, err = running.communicate(timeout=300)
    if running.returncode:
        raise RuntimeError(err.strip()[-600:])
    return out


def mounted(hosts, options):
    """Starts an agent on each host, and says where its mount is and how to end it."""
    top = tempfile.mkdtemp(dir=hosts.top)
    secret = os.path.join(top, "secret")
    with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(os.urandom(32).hex())
    listed = ",".join(f"{host['addr']}:7400" for host in hosts.compute)
    mounts, envs, starts = [], [], []
    for node, _ in enumerate(hosts.compute):
        mounts.append(f"{top}/m{node}")
        envs.append({"HEARTH_DIR": f"{top}/run{node}"})
        os.mkdir(mounts[-1])
        os.mkdir(envs[-1]["HEARTH_DIR"], 0o700)
        argv = [HEARTH, "up", "--node", str(node), "--hosts", listed, "--secret-file", secret, "--store",
                hosts.store(node), "--at", mounts[-1], *options]
        starts.append(hosts.start(node, argv, envs[-1]))
    for start in starts:
        _, err = start.communicate(timeout=90)
        if start.returncode:
            raise RuntimeError(err.strip()[-600:])
    return mounts, lambda: [run(hosts, node, [HEARTH, "down"], env) for node, env in enumerate(envs)]


def count(hosts, counter, dirs, files):
    """Requests for each file, row by row."""
    found = []
    for name, host, code, later in ROWS:
        if later:
            time.sleep(PAUSE)
        counter.since()
        begun = time.monotonic()
        run(hosts, host, [sys.executable, "-c", f"import os\nN, D = {files}, {dirs[host]!r}\n{code}"])
        took, seen = time.monotonic() - begun, counter.since()
        found.append((name, sum(seen.values()) / files, took, seen))
    return found


def main(args):
    # As an exception, so that rigs go down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    files = 200
    if args[:1] == ["--files"]:
        files, args = int(args[1]), args[2:]
    if lacks("gluster"):
        sys.exit(f"error: {lacks('gluster')}")
    with Hosts("gluster", 2) as hosts:
        counter = Counter(hosts)
        os.mkdir(os.path.join(hosts.store(0), "d"))
        found = {"bare": count(hosts, counter, [f"{hosts.store(i)}/d" for i in range(2)], files)}
        mounts, down = mounted(hosts, args)
        found["hearth"] = count(hosts, counter, [f"{mount}/d" for mount in mounts], files)
        down()
    print(f"{'requests for each file':44} {'bare':>8} {'hearth':>8}")
    for bare, hearth in zip(found["bare"], found["hearth"]):
        print(f"{bare[0]:44} {bare[1]:8.2f} {hearth[1]:8.2f}   {json.dumps(hearth[3])}")


if __name__ == "__main__":
    main(sys.argv[1:])
