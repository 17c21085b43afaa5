"""Each example of docs/python.md runs, with a store in the place of /scratch."""

import importlib.util
import os
import pathlib
import re

import fsspec

from hearth import fs
from support import Case

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs/python.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


class Page(Case):
    def setUp(self):
        super().setUp()
        fsspec.register_implementation("hearth", fs.HearthFileSystem, clobber=True)
        for name in ("input", "images"):
            os.mkdir(os.path.join(self.store, name))
        self.put("input/a.bin", bytes(1 << 20))
        for i in range(100):
            self.put(f"images/{i}", bytes(i))
        self.up()
        self.addCleanup(self.forget)

    def forget(self):
        while fs.SESSIONS:
            fs.SESSIONS.popitem()[1].close()

    def test_there_are_as_many_examples_as_below(self):
        self.assertEqual(len(EXAMPLES), 6)

    def run_example(self, number, *needs):
        for need in needs:
            if importlib.util.find_spec(need) is None:
                self.skipTest(f"no {need}")
        exec(EXAMPLES[number].replace("/scratch", self.store), {})

    def test_the_first_read(self):
        self.run_example(0)

    def test_sessions(self):
        self.run_example(1)

    def test_memory_of_ones_own(self):
        self.run_example(2, "numpy")

    def test_urls(self):
        self.run_example(3, "pandas", "pyarrow")

    def test_training(self):
        self.run_example(4, "torch")

    def test_checkpoints(self):
        self.run_example(5)
        self.assertEqual(self.stored("model.pt"), b"weights")
