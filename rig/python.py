#!/usr/bin/env python3
"""Warm reads by the Python module beside os.pread on tmpfs, in turns in one process.

usage: python.py [--turns N] [--json]

Each turn is the mean of many calls of one kind on one 64 MiB file, at random places; kinds take turns. Told are medians over
all turns with the least and the most, and ratios of medians. The module is that of this Python: install the wheel, or name
its directory in PYTHONPATH. HEARTH_BIN names the command.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

import hearth

FILE_BYTES = 64 << 20
PAGE_BYTES = 256 << 10
# What a turn reads: many calls, so that the clock costs nothing.
CALLS = {4 << 10: 20000, 1 << 20: 200}

# The goal for a ratio to os.pread on tmpfs.
GOALS = {"read 4 KiB": 1.2, "view 1 MiB": 0.1}


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=25, help="of each kind (default: 25)")
    parser.add_argument("--json", action="store_true", help="print one object")
    return parser.parse_args()


def kinds(file, rival):
    """What is measured: a name, a size, and a function of a place."""
    room = bytearray(1 << 20)
    return {
        "read 4 KiB": (4 << 10, lambda at: file.pread(4 << 10, at)),
        "os.pread 4 KiB": (4 << 10, lambda at: os.pread(rival, 4 << 10, at)),
        "read 1 MiB": (1 << 20, lambda at: file.pread(1 << 20, at)),
        "view 1 MiB": (1 << 20, lambda at: file.view(at, 1 << 20)),
        "into 1 MiB": (1 << 20, lambda at: file.pread_into(room, at)),
        "os.pread 1 MiB": (1 << 20, lambda at: os.pread(rival, 1 << 20, at)),
    }


def turn(size, call):
    """The mean of one call, in nanoseconds."""
    places = [random.randrange((FILE_BYTES - size) // 4096) * 4096 for _ in range(CALLS[size])]
    begun = time.perf_counter_ns()
    for place in places:
        call(place)
    return (time.perf_counter_ns() - begun) / len(places)


def measured(file, rival, turns):
    times = {name: [] for name in kinds(file, rival)}
    for _ in range(turns):
        for name, (size, call) in kinds(file, rival).items():
            times[name].append(turn(size, call))
    return times


def rows(times):
    for name, each in times.items():
        beside = times["os.pread " + name.split(" ", 1)[1]] if not name.startswith("os.") else each
        yield {
            "what": name,
            "median_ns": round(statistics.median(each)),
            "least_ns": round(min(each)),
            "most_ns": round(max(each)),
            "over_os_pread": round(statistics.median(each) / statistics.median(beside), 3),
            "goal": GOALS.get(name),
        }


def show(row):
    goal = row["goal"]
    verdict = "" if goal is None else f"at most {goal}: " + ("held" if row["over_os_pread"] <= goal else "missed")
    spread = f"{row['least_ns']} to {row['most_ns']}"
    print(f"{row['what']:<15} {row['median_ns']:>8} {spread:>18} {row['over_os_pread']:>7.2f}  {verdict}".rstrip())


def main():
    args = options()
    store = tempfile.mkdtemp(prefix="hearth-python-", dir="/dev/shm")
    try:
        path = os.path.join(store, "file")
        with open(path, "wb") as made:
            for _ in range(FILE_BYTES >> 20):
                made.write(os.urandom(1 << 20))
        rival = os.open(path, os.O_RDONLY)
        with hearth.Session(store) as session, session.open("file") as file:
            for at in range(0, FILE_BYTES, PAGE_BYTES):
                file.pread(PAGE_BYTES, at)
            found = list(rows(measured(file, rival, args.turns)))
    finally:
        shutil.rmtree(store)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{'':<15} {'ns':>8} {'least to most':>18} {'ratio':>7}")
    for row in found:
        show(row)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(1)
