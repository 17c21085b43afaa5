#!/usr/bin/env python3
"""Ordinary programs on several hosts over real stores, bare and through Hearth. Needs root.

usage: programs.py [--stores A,B] [--hosts 1,2,4] [--programs A,B] [--quick] [--policy P]... [--json FILE]
                   [-- OPTION OF hearth up...]

Each program of programs/ runs on the first hosts of a rig: on the store alone, then in mounts of Hearth. What it
exits with, prints and leaves must be the same; what it leaves is looked at through Hearth, and in the store after the
set is down. One JSON object a case, then a table. Exit 0: what works on the store works through Hearth.

HEARTH names the binary (default: target/release/hearth). Programs that the machine lacks are skipped with a word.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from hosts import HERE, Hosts, lacks, stores

HEARTH = os.path.abspath(os.environ.get("HEARTH", os.path.join(HERE, "../target/release/hearth")))
PROGRAMS = os.path.join(HERE, "programs")
PHASE = os.path.join(PROGRAMS, "phase.sh")
# No phase takes so long on a store that answers, even where other work has the machine.
PHASE_MAX = 240
PORT = 7000


class Program:
    """A file of programs/ and what its head says."""

    def __init__(self, name):
        self.name = name
        with open(os.path.join(PROGRAMS, name + ".sh")) as file:
            head = file.read(2000)
        self.is_quick = re.search(r"^# quick$", head, re.M) is not None
        needs = re.search(r"^# needs: (.*)$", head, re.M)
        self.missing = [need for need in (needs.group(1).split() if needs else []) if not has(need)]


def has(need):
    """Whether the machine has a command, or `python3.MODULE`."""
    if need.startswith("python3."):
        argv = ["/usr/bin/python3", "-c", f"import {need.partition('.')[2]}"]
        return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode == 0
    path = "/usr/sbin:/usr/bin:/sbin:/bin:" + os.environ.get("PATH", "")
    return shutil.which(need, path=path) or any(need in names for _, _, names in os.walk("/usr/lib/postgresql"))


def programs():
    names = sorted(name[:-3] for name in os.listdir(PROGRAMS) if name.endswith(".sh") and name != "phase.sh")
    return [Program(name) for name in names]


def finish(running, end):
    """Exit code and words of commands that run; 124 for one that had to be ended."""
    results = []
    for process in running:
        try:
            out, err = process.communicate(timeout=max(1, end - time.monotonic()))
            results.append((process.returncode, out, err.strip()[-300:]))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            results.append((124, "", "timed out"))
    return results


class Run:
    """One program on some hosts below one directory."""

    def __init__(self, hosts, count, roots):
        self.hosts, self.count, self.roots = hosts, count, roots

    def phase(self, program, phase, host, directory):
        path = os.path.join(self.roots(host), directory)
        return self.hosts.start(host, ["bash", PHASE, program, phase, path, str(host), str(self.count)])

    def work(self, program, directory):
        """`prepare` and `work`; the first failure, or nothing."""
        os.mkdir(os.path.join(self.roots(0), directory))
        end = time.monotonic() + PHASE_MAX
        for phase, used in (("prepare", [0]), ("work", range(self.count))):
            wait_for_names(self.roots, used, directory)
            running = [self.phase(program, phase, host, directory) for host in used]
            for host, (code, _, err) in zip(used, finish(running, end)):
                if code:
                    return f"{phase} on host {host}: exit {code}: {' '.join(err.split())[-200:]}"
        return ""

    def check(self, program, directory):
        """What each host prints, and the first failure, or that hosts differ."""
        said = []
        for host in range(self.count):
            [(code, out, err)] = finish([self.phase(program, "check", host, directory)], time.monotonic() + PHASE_MAX)
            if code:
                return out, f"check on host {host}: exit {code}: {' '.join(err.split())[-200:]}"
            said.append(out)
        for host, out in enumerate(said):
            if out != said[0]:
                return out, f"host {host} sees something else than host 0: {first_difference(said[0], out)}"
        return said[0], ""


def wait_for_names(roots, used, directory):
    """A store may show a new name later to some hosts; programs are not begun before."""
    end = time.monotonic() + 10
    for host in used:
        while not os.path.isdir(os.path.join(roots(host), directory)) and time.monotonic() < end:
            time.sleep(0.05)


def first_difference(one, other):
    for a, b in zip(one.splitlines() + [""], other.splitlines() + [""]):
        if a != b:
            return f"`{a[:60]}` and `{b[:60]}`"
    return "one is longer"


class Set:
    """Agents of Hearth on the first hosts, with a mount each."""

    def __init__(self, hosts, count, policy, options):
        self.hosts, self.count = hosts, count
        self.top = os.path.join(hosts.top, f"set-{count}-{policy.replace(':', '-')}-{time.monotonic_ns()}")
        os.mkdir(self.top)
        secret = os.path.join(self.top, "secret")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(os.urandom(32).hex())
        listed = ",".join(f"{host['addr']}:{PORT}" for host in hosts.compute[:count])
        begun = []
        for host in range(count):
            os.mkdir(self.directory(host), 0o700)
            os.mkdir(self.mount(host))
            argv = [HEARTH, "up", "--store", hosts.store(host), "--at", self.mount(host), "--hosts", listed,
                    "--node", str(host), "--secret-file", secret, "--policy", policy, *options]
            begun.append(hosts.start(host, argv, self.env(host)))
        results = finish(begun, time.monotonic() + 120)
        self.failure = next((err for code, _, err in results if code), "")

    def directory(self, host):
        return os.path.join(self.top, f"dir{host}")

    def mount(self, host):
        return os.path.join(self.top, f"m{host}")

    def env(self, host):
        return {"HEARTH_DIR": self.directory(host)}

    def down(self):
        """Ends it; the first word of what went wrong, or nothing."""
        begun = [self.hosts.start(host, [HEARTH, "down"], self.env(host)) for host in range(self.count)]
        results = finish(begun, time.monotonic() + 120)
        for host, (code, _, err) in enumerate(results):
            if code:
                forced = [self.hosts.start(host, [HEARTH, "down", "--discard", "--force"], self.env(host))]
                finish(forced, time.monotonic() + 60)
                subprocess.run(["umount", "-l", self.mount(host)], stderr=subprocess.DEVNULL)
        return next((f"down: exit {code}: {' '.join(err.split())}" for code, _, err in results if code), "")


def verdict(bare, hearth):
    """One word, and how they differ. Each is (failure, text)."""
    if hearth[0]:
        return ("fails on both" if bare[0] else "differs"), hearth[0]
    if bare[0]:
        return "better", f"bare: {bare[0]}"
    if bare[1] != hearth[1]:
        return "differs", "not the same is left: " + first_difference(bare[1], hearth[1])
    return "same", ""


def tried(run, program, directory):
    begun = time.monotonic()
    failure = run.work(program.name, directory)
    text = ""
    if not failure:
        text, failure = run.check(program.name, directory)
    seconds = time.monotonic() - begun
    print(f"{directory}: {failure or 'ok'} ({seconds:.1f} s)", file=sys.stderr, flush=True)
    return (failure, text), seconds


def left_in_store(alone, program, directory, text):
    """As `Run.check`. Clients of a store may believe for a moment in what they saw before the set went down."""
    end = time.monotonic() + 5
    while True:
        left, failure = alone.check(program.name, directory)
        if not failure and left == text or time.monotonic() > end:
            return left, failure
        time.sleep(0.2)


def cases(hosts, store, count, chosen, args):
    """All programs on some hosts of a rig: one result each."""
    alone = Run(hosts, count, hosts.store)
    bare = {program.name: tried(alone, program, f"bare-{count}-{program.name}") for program in chosen}
    for policy in args.policy:
        set_ = Set(hosts, count, policy, args.options)
        if set_.failure:
            set_.down()
            raise RuntimeError(f"hearth up: {set_.failure}")
        mounted = Run(hosts, count, set_.mount)
        tag = f"{policy.replace(':', '-')}-{count}"
        through = {}
        for program in chosen:
            through[program.name] = tried(mounted, program, f"{tag}-{program.name}")
        ended = set_.down()
        for program in chosen:
            (failure, text), seconds = through[program.name]
            if not failure:
                left, failure = left_in_store(alone, program, f"{tag}-{program.name}", text)
                failure = failure and "in the store, after down: " + failure
                if not failure and left != text:
                    failure = "the store has something else after down: " + first_difference(text, left)
            word, how = verdict(bare[program.name][0], (failure, text))
            yield {"store": store, "policy": policy, "program": program.name, "hosts": count, "verdict": word, "how": how,
                   "bare_s": round(bare[program.name][1], 1), "hearth_s": round(seconds, 1)}
        if ended:
            yield {"store": store, "policy": policy, "program": "down", "hosts": count, "verdict": "differs", "how": ended,
                   "bare_s": 0, "hearth_s": 0}


def table(results):
    """Rows: programs; columns: store, policy and hosts."""
    columns = list(dict.fromkeys((r["store"], r["policy"], r["hosts"]) for r in results))
    names = list(dict.fromkeys(r["program"] for r in results))
    found = {(r["program"], r["store"], r["policy"], r["hosts"]): r["verdict"] for r in results}
    head = ["", *(f"{store} {policy} {hosts}" for store, policy, hosts in columns)]
    lines = [head, ["---"] * len(head)]
    lines += [[name, *(found.get((name, *column), "") for column in columns)] for name in names]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: text.split(",")
    parser.add_argument("--stores", type=listed, default=None)
    parser.add_argument("--hosts", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--programs", type=listed, default=None)
    parser.add_argument("--quick", action="store_true", help="only the programs that take a second or two")
    parser.add_argument("--policy", action="append", default=None)
    parser.add_argument("--json", default=None, help="also append the cases to this file")
    parser.add_argument("options", nargs="*", help="options of hearth up")
    args = parser.parse_args()
    args.policy = args.policy or ["home"]
    return args


def choose(args):
    known = {program.name: program for program in programs()}
    names = args.programs or [name for name, program in known.items() if program.is_quick or not args.quick]
    chosen = []
    for name in names:
        if name not in known:
            sys.exit(f"error: no program `{name}`; there are {' '.join(known)}")
        if known[name].missing:
            print(f"skipped: {name}: lacks {' '.join(known[name].missing)}", file=sys.stderr)
        else:
            chosen.append(known[name])
    return chosen


def main():
    # As an exception, so that rigs go down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = parse()
    chosen = choose(args)
    results, broken = [], 0
    for store in args.stores or stores():
        why = lacks(store)
        if why:
            print(f"skipped: {store}: {why}", file=sys.stderr)
            continue
        try:
            with Hosts(store, max(args.hosts)) as hosts:
                for count in args.hosts:
                    for result in cases(hosts, store, count, chosen, args):
                        results.append(result)
                        line = json.dumps(result)
                        print(line, flush=True)
                        if args.json:
                            with open(args.json, "a") as file:
                                file.write(line + "\n")
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            broken += 1
            print(f"failed: {store}: {error}", file=sys.stderr, flush=True)
    print()
    sys.stdout.write(table(results))
    differs = [result for result in results if result["verdict"] == "differs"]
    print(f"\n{len(results)} cases, {len(differs)} differ, {broken} stores failed")
    return 1 if differs or broken or not results else 0


if __name__ == "__main__":
    sys.exit(main())
