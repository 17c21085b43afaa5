#!/usr/bin/env python3
"""What each kind of store does, as `hearth doctor --store` sees it from two hosts. Needs root.

usage: measure.py [--write PAGE] [STORE]...

Prints a table in Markdown; with --write it also takes the place of the one between the marks in PAGE.
HEARTH names the binary (default: target/release/hearth).
"""

import json
import os
import signal
import subprocess
import sys

from hosts import HERE, Hosts, lacks, stores

HEARTH = os.path.abspath(os.environ.get("HEARTH", os.path.join(HERE, "../target/release/hearth")))
BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"


def measure(store):
    """The lines of the doctor as a list of (name, words, value)."""
    with Hosts(store, 2) as hosts:
        argv = [HEARTH, "doctor", "--store", hosts.store(0), "--also", hosts.store(1), "--json"]
        running = hosts.start(0, argv)
        out, err = running.communicate(timeout=90)
        if running.returncode not in (0, 1):
            raise RuntimeError(err.strip())
    lines = [json.loads(line) for line in out.splitlines()]
    return [(line.get("property") or line["promise"], line.get("words", ""), line["value"]) for line in lines]


def table(found):
    """Markdown: a row for each property, a column for each store."""
    names = list(found)
    rows = []
    for name, words, _ in found[names[0]]:
        cells = [dict((n, v) for n, _, v in found[store])[name] for store in names]
        rows.append([words or name, *cells])
    head = ["", *names]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines) + "\n"


def write(page, text):
    """Puts the table between the marks of a page."""
    with open(page) as file:
        before, rest = file.read().split(BEGIN)
    _, after = rest.split(END)
    with open(page, "w") as file:
        file.write(f"{before}{BEGIN}\n{text}{END}{after}")


def main(args):
    # As an exception, so that rigs go down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    page = None
    if args[:1] == ["--write"]:
        page, args = args[1], args[2:]
    found = {}
    for store in args or stores():
        why = lacks(store)
        if why:
            print(f"skipped: {store}: {why}", file=sys.stderr)
            continue
        try:
            found[store] = measure(store)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"failed: {store}: {error}", file=sys.stderr)
    if not found:
        return 1
    text = table(found)
    sys.stdout.write(text)
    if page:
        write(page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
