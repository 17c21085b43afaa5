"""A store and control files of a test's own."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

HEARTH = os.environ["HEARTH_BIN"]


class Case(unittest.TestCase):
    """A test with a store; agents that it leaves up are ended."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hearth-test-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.store, control = os.path.join(self.dir, "store"), os.path.join(self.dir, "control")
        os.mkdir(self.store)
        os.mkdir(control, 0o700)
        os.environ["HEARTH_DIR"] = control
        os.environ["XDG_CONFIG_HOME"] = os.path.join(self.dir, "config")
        for name in ("HEARTH_STORE", "HEARTH_MOUNT", "HEARTH_LENDER"):
            os.environ.pop(name, None)

    def up(self, *options):
        self.addCleanup(subprocess.run, [HEARTH, "down", "--discard"], capture_output=True, timeout=60)
        self.hearth("up", "--store", self.store, *options)

    def hearth(self, *words):
        done = subprocess.run([HEARTH, *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def status(self):
        """The agents that are up, as `hearth status` tells them."""
        done = subprocess.run([HEARTH, "status", "--json"], capture_output=True, text=True, timeout=60)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def put(self, name, data):
        """A file of the store, made without Hearth."""
        path = os.path.join(self.store, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def stored(self, name):
        with open(os.path.join(self.store, name), "rb") as file:
            return file.read()
