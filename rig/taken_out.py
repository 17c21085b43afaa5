#!/usr/bin/env python3
"""Takes guards out of real agents, one at a time: histories of programs must show each. Needs root for cut networks.

usage: taken_out.py [GUARD]...

HEARTH names a binary that was built with `cargo build --release --target-dir target/canary -p hearth --features canary`, LAB
is hearth-lab. A guard is a rule of the kernel without
which a promise breaks; `hearth-lab sim canaries` names them all. Those here are the ones that programs can notice. Each
gets rounds of `hearth-lab torture` until one has a finding. Exit 0: every guard was missed; else the last line names those
that were not.
"""

import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = os.path.join(HERE, "../target")
HEARTH = os.path.abspath(os.environ.get("HEARTH", os.path.join(BUILT, "canary/release/hearth")))
LAB = os.path.abspath(os.environ.get("LAB", os.path.join(BUILT, "release/hearth-lab")))
ROUNDS = 8

# A guard, and the choice of rounds that show most of it.
GUARDS = {
    "revoked-before-ack": "--policy home --kind registers --nemesis none",
    "acks-before-apply": "--policy home --kind registers --nemesis none",
    "reader-recorded": "--policy home --kind registers --nemesis none",
    "own-copy-dropped": "--policy home --kind registers --nemesis none",
    "changes-announced": "--policy home --kind names --nemesis none",
    "cut-calls-back": "--policy home --kind cuts --nemesis none",
    "old-generation-refused": "--policy home --kind cuts --nemesis none",
    "appends-in-order": "--policy home --kind logs --nemesis none",
    "name-gone-first": "--policy home --kind versions --nemesis none",
    "delegate-called-back": "--policy home:plus --kind registers --nemesis none",
    "ward-saved": "--policy local --kind registers --nemesis kill -- --replicas sync:1",
}


def missed(guard, choice):
    """Whether a round without the guard has a finding."""
    before, _, extra = choice.partition(" -- ")
    argv = [LAB, "torture", "--hearth", HEARTH, "--level", "posix", "--rounds", str(ROUNDS), *before.split()]
    argv += ["--", *extra.split()] if extra else []
    run = subprocess.run(argv, env=dict(os.environ, HEARTH_WITHOUT=guard), capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f"{' '.join(argv)} failed:\n{run.stderr}")
    return run.returncode == 1


def main():
    wanted = sys.argv[1:] or list(GUARDS)
    unknown = [guard for guard in wanted if guard not in GUARDS]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: no such guard here; there are {', '.join(GUARDS)}")
    unseen = []
    for guard in wanted:
        begun = time.monotonic()
        found = missed(guard, GUARDS[guard])
        print(f"{guard:24} {'found' if found else 'NOT FOUND':10} after {time.monotonic() - begun:.0f} s", flush=True)
        unseen += [] if found else [guard]
    print(f"not found: {', '.join(unseen)}" if unseen else f"all {len(wanted)} guards were missed")
    sys.exit(bool(unseen))


if __name__ == "__main__":
    main()
