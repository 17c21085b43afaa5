#!/usr/bin/env python3
"""Programs go on while their agents and others are killed, stopped, taken down and started again. Needs root or fuse3.

usage: unkillable.py [--minutes N] [--every S] [--policy P] [--agents N] [--strike KIND]... [-- OPTION OF hearth up...]

Agents share a directory. Programs run in the mounts of the first two: git, SQLite, fio,
appends with an fsync, a register that one writes and the other reads, files that get their names by a rename. Every few
seconds something happens to an agent. The last line counts operations, errors, bytes lost and stale reads, and has the
longest pause. Exit 0: no errors, nothing lost, nothing stale.

  kill   any agent is killed. Its warden starts another one, which takes the mount over
  stop   any agent stops for 3 s
  hang   any agent stops for 9 s: the others go on without it, and it comes back by itself
  leave  an agent whose mount nobody uses is taken down, and started again
  lose   such an agent is killed together with its warden, as with its host, and started again

A death costs what was not synced and only that agent had. A program is told so once, at its next fsync: these are losses told.

HEARTH names the binary (default: target/release/hearth). Programs that the machine lacks are left out with a word.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HEARTH = os.path.abspath(os.environ.get("HEARTH", os.path.join(HERE, "../target/release/hearth")))
# Agents whose mounts have programs.
USED = 2
START_MAX = 90
# The words of programs for EIO.
TOLD = ["Input/output error", "disk I/O error", "couldn't write"]


class Agents:
    """Agents of one list over one directory, each with a control directory of its own."""

    def __init__(self, count, options):
        self.top = tempfile.mkdtemp(prefix="hearth-unkillable-")
        self.store = os.path.join(self.top, "store")
        os.mkdir(self.store)
        secret = os.path.join(self.top, "secret")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(os.urandom(32).hex())
        listed = ",".join(f"127.0.0.1:{port}" for port in free_ports(count))
        self.args = ["--store", self.store, "--hosts", listed, "--secret-file", secret, *options]
        self.mounts, self.envs, self.pids, self.wardens = [], [], [None] * count, [None] * count
        for node in range(count):
            self.mounts.append(os.path.join(self.top, f"mount{node}"))
            os.mkdir(self.mounts[node])
            control = os.path.join(self.top, f"run{node}")
            os.mkdir(control, 0o700)
            self.envs.append(dict(os.environ, HEARTH_DIR=control))
        starts = [self.start(node) for node in range(count)]
        for node, start in enumerate(starts):
            self.started(node, start)

    def start(self, node):
        argv = [HEARTH, "up", "--node", str(node), "--at", self.mounts[node], *self.args]
        return subprocess.Popen(argv, env=self.envs[node], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def started(self, node, start):
        _, said = start.communicate(timeout=START_MAX)
        if start.returncode:
            raise SystemExit(f"agent {node} did not start: {said.strip()}")
        self.look(node)

    def look(self, node):
        """Finds the processes of an agent, once it answers."""
        end = time.monotonic() + START_MAX
        while time.monotonic() < end:
            rows = [json.loads(row) for row in self.command(node, "status", "--json").stdout.splitlines()]
            found = [row for row in rows if row.get("answers")]
            if found:
                self.pids[node], self.wardens[node] = found[0]["pid"], found[0]["warden"]
                return
            time.sleep(0.1)
        raise SystemExit(f"agent {node} does not come back")

    def command(self, node, *words):
        argv = [HEARTH, *words]
        return subprocess.run(argv, env=self.envs[node], capture_output=True, text=True, timeout=START_MAX)

    def end(self):
        downs = [subprocess.Popen([HEARTH, "down"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                 for env in self.envs]
        said = [down.communicate(timeout=START_MAX)[1].strip() for down in downs]
        return [words for down, words in zip(downs, said) if down.returncode > 1]

    def clear(self):
        for node, mount in enumerate(self.mounts):
            self.command(node, "down", "--discard", "--force")
            subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.top, ignore_errors=True)


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Tally:
    """What all programs did."""

    def __init__(self):
        self.lock = threading.Lock()
        self.operations, self.errors, self.pause, self.stale, self.lost = 0, [], 0.0, 0, 0
        self.told, self.deaths = 0, 0
        self.begun, self.strike = time.monotonic(), "no strike"

    def call(self, what, make):
        """Makes one operation; notes how long it took, and its error."""
        begun = time.monotonic()
        try:
            return make()
        except (OSError, sqlite3.Error, subprocess.CalledProcessError) as error:
            words = getattr(error, "stderr", None) or str(error)
            with self.lock:
                at = f"{time.monotonic() - self.begun:.1f} s, after {self.strike}"
                is_told = self.deaths > 0 and any(word in words for word in TOLD)
                self.told += is_told
                if not is_told:
                    self.errors.append(f"{at}: {what}: {' '.join(words.split())[-200:]}")
            return None
        finally:
            with self.lock:
                self.operations += 1
                self.pause = max(self.pause, time.monotonic() - begun)


def ran(argv, **more):
    subprocess.run(argv, check=True, capture_output=True, text=True, **more)
    return True


class Program:
    """Work that is repeated until all is over, then closed, and checked when the set is down."""

    def close(self, tally):
        pass

    def check(self, agents, tally):
        pass


class Log(Program):
    """Records that one host appends, each with an fsync."""

    def __init__(self, agents, node):
        self.name, self.node, self.kept = f"log{node}", node, []
        self.fd = os.open(os.path.join(agents.mounts[node], self.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def turn(self, tally):
        record = b"%d %d %s\n" % (self.node, len(self.kept), b"x" * random.randrange(2000))

        def make():
            os.write(self.fd, record)
            os.fsync(self.fd)
            return True

        if tally.call(self.name, make):
            self.kept.append(record)

    def close(self, tally):
        tally.call(f"close {self.name}", lambda: os.close(self.fd))

    def check(self, agents, tally):
        with open(os.path.join(agents.store, self.name), "rb") as file:
            there = file.read()
        at = 0
        for record in self.kept:
            # An append that a death tore may have left a part of itself, or zeros, before the next one.
            found = there.find(record, at)
            found = found if found >= 0 else there.find(record)
            if found < 0:
                print(f"{self.name}: {record[:20]!r} is missing", file=sys.stderr)
                tally.lost += len(record)
            at = max(at, found)


class Register(Program):
    """A number that one host overwrites and others read: what they read is not older than what was written before."""

    def __init__(self, agents, node):
        self.node, self.written, self.name = node, 0, f"register{node}"
        paths = [os.path.join(mount, self.name) for mount in agents.mounts[:USED]]
        self.fd = os.open(paths[node], os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(self.fd, b"%020d" % 0, 0)
        self.reader = os.open(paths[(node + 1) % USED], os.O_RDONLY)

    def turn(self, tally):
        def write():
            os.pwrite(self.fd, b"%020d" % (self.written + 1), 0)
            os.fsync(self.fd)
            return True

        if tally.call(self.name, write):
            self.written += 1
        read = tally.call(f"read {self.name}", lambda: os.pread(self.reader, 20, 0))
        if read is not None and int(read) < self.written:
            tally.stale += 1

    def close(self, tally):
        tally.call(f"close {self.name}", lambda: os.close(self.fd))
        tally.call(f"close {self.name}", lambda: os.close(self.reader))

    def check(self, agents, tally):
        with open(os.path.join(agents.store, self.name), "rb") as file:
            tally.lost += 20 if int(file.read()) < self.written else 0


class Names(Program):
    """Files that get their names by a rename: another host reads them as soon as they have them."""

    def __init__(self, agents, node):
        self.dirs = [os.path.join(mount, f"names{node}") for mount in agents.mounts[:USED]]
        os.mkdir(self.dirs[node])
        self.own, self.other, self.made = self.dirs[node], self.dirs[(node + 1) % USED], 0

    def turn(self, tally):
        self.made += 1
        name, bytes = f"f{self.made % 7}", b"%d\n" % self.made * random.randrange(1, 3000)

        def make():
            with open(os.path.join(self.own, "new"), "wb") as file:
                file.write(bytes)
            os.rename(os.path.join(self.own, "new"), os.path.join(self.own, name))
            return True

        def read():
            with open(os.path.join(self.other, name), "rb") as file:
                return file.read()

        if tally.call("rename", make):
            there = tally.call("read after rename", read)
            tally.stale += there is not None and there != bytes


class Database(Program):
    """One SQLite database of all hosts."""

    added = 0
    lock = threading.Lock()

    def __init__(self, agents, node):
        self.path = os.path.join(agents.mounts[node], "database")
        self.is_first = node == 0
        if self.is_first:
            db = self.open()
            db.execute("create table t (n integer)")
            db.execute("insert into t values (0)")
            db.close()

    def open(self):
        return sqlite3.connect(self.path, timeout=60, isolation_level=None)

    def turn(self, tally):
        def make():
            db = self.open()
            try:
                db.execute("begin immediate")
                db.execute("update t set n = n + 1")
                db.execute("commit")
                return True
            finally:
                db.close()

        if tally.call("sqlite", make):
            with Database.lock:
                Database.added += 1

    def check(self, agents, tally):
        if not self.is_first:
            return
        db = sqlite3.connect(os.path.join(agents.store, "database"))
        whole = db.execute("pragma integrity_check").fetchone()[0]
        if whole != "ok":
            tally.errors.append(f"sqlite: {whole}")
        # A commit whose answer was lost may have taken place.
        tally.lost += max(0, Database.added - db.execute("select n from t").fetchone()[0])
        db.close()


class Git(Program):
    """Commits of one host in a repository of its own."""

    def __init__(self, agents, node):
        self.name, self.commits = f"git{node}", 0
        self.dir = os.path.join(agents.mounts[node], self.name)
        self.env = dict(os.environ, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a",
                        GIT_COMMITTER_EMAIL="a@b", GIT_CONFIG_GLOBAL="/dev/null")
        ran(["git", "init", "-q", self.dir], env=self.env)

    def git(self, *words):
        return ran(["git", "-C", self.dir, "-c", "gc.auto=0", *words], env=self.env)

    def turn(self, tally):
        def make():
            with open(os.path.join(self.dir, f"f{self.commits % 20}"), "w") as file:
                file.write(f"{self.commits}\n" * 100)
            self.git("add", "-A")
            return self.git("commit", "-qm", str(self.commits))

        if tally.call(self.name, make):
            self.commits += 1

    def check(self, agents, tally):
        there = os.path.join(agents.store, self.name)
        tally.call("git fsck", lambda: ran(["git", "-C", there, "-c", "safe.directory=*", "fsck", "--strict"], env=self.env))
        argv = ["git", "-C", there, "-c", "safe.directory=*", "rev-list", "--count", "HEAD"]
        count = subprocess.run(argv, capture_output=True, text=True, env=self.env).stdout.strip()
        tally.lost += max(0, self.commits - int(count or 0))


class Fio(Program):
    """Random writes whose checksums are read back."""

    def __init__(self, agents, node):
        self.file = os.path.join(agents.mounts[node], f"fio{node}")

    def turn(self, tally):
        argv = ["fio", "--name=v", f"--filename={self.file}", "--size=4m", "--bs=16k", "--rw=randwrite", "--ioengine=psync",
                "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", "--end_fsync=1"]
        tally.call("fio", lambda: ran(argv))


def kill(agents, node):
    os.kill(agents.pids[node], signal.SIGKILL)
    agents.look(node)


def lose(agents, node):
    for pid in (agents.wardens[node], agents.pids[node]):
        os.kill(pid, signal.SIGKILL)
    time.sleep(random.choice([0, 1, 6]))
    # The dead mount is cleared, as an operator would.
    agents.command(node, "down")
    agents.started(node, agents.start(node))


def stop(agents, node, span=3):
    os.kill(agents.pids[node], signal.SIGSTOP)
    time.sleep(span)
    os.kill(agents.pids[node], signal.SIGCONT)


def hang(agents, node):
    stop(agents, node, 9)
    time.sleep(1)
    agents.look(node)


def leave(agents, node):
    agents.command(node, "down")
    agents.started(node, agents.start(node))


STRIKES = {"kill": kill, "lose": lose, "stop": stop, "hang": hang, "leave": leave}
# These take the mount away.
BESIDE = {"lose", "leave"}
# After these, bytes that were not synced may be lost. A program that keeps its file open hears of it late.
DEATHS = {"kill", "hang", "lose"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=5)
    parser.add_argument("--policy", default="home")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--strike", action="append", choices=STRIKES)
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    agents = Agents(args.agents, ["--policy", args.policy, *args.options])
    tally, over = Tally(), threading.Event()
    struck = {kind: 0 for kind in args.strike or STRIKES}
    try:
        kinds = [Log, Register, Names, Database]
        kinds += [kind for kind, need in ((Git, "git"), (Fio, "fio")) if shutil.which(need)]
        if len(kinds) < 6:
            print("git or fio is missing here, and left out", file=sys.stderr)
        programs = [kind(agents, node) for kind in kinds for node in range(USED)]

        def run(program):
            while not over.is_set():
                program.turn(tally)
                time.sleep(0.02)

        threads = [threading.Thread(target=run, args=[program]) for program in programs]
        for thread in threads:
            thread.start()
        end = time.monotonic() + args.minutes * 60
        try:
            while time.monotonic() < end:
                time.sleep(args.every)
                kind = random.choice(list(struck))
                node = random.randrange(USED if kind in BESIDE else 0, args.agents)
                tally.strike = f"{kind} of {node} at {time.monotonic() - tally.begun:.1f} s"
                tally.deaths += kind in DEATHS
                STRIKES[kind](agents, node)
                struck[kind] += 1
        finally:
            over.set()
            for thread in threads:
                thread.join()
        for program in programs:
            program.close(tally)
        for words in agents.end():
            tally.errors.append(f"down: {words[-200:]}")
        for program in programs:
            program.check(agents, tally)
    finally:
        agents.clear()
    for error in tally.errors[:20]:
        print(error, file=sys.stderr)
    print(json.dumps({"policy": args.policy, "strikes": struck, "operations": tally.operations, "errors": len(tally.errors), "losses_told": tally.told,
                      "bytes_lost": tally.lost, "stale_reads": tally.stale, "longest_pause_s": round(tally.pause, 1)}))
    return 0 if not (tally.errors or tally.lost or tally.stale) else 1


if __name__ == "__main__":
    sys.exit(main())
