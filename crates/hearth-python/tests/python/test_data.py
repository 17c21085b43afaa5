"""Data sets of files, and what is fetched ahead of their turn. Nothing of PyTorch is needed."""

import sys
import threading

import hearth.torch
from support import Case


class Data(Case):
    def setUp(self):
        super().setUp()
        self.names = [f"{i}" for i in range(20)]
        for name in self.names:
            self.put(name, name.encode() * 1000)
        self.up()
        self.data = hearth.torch.Files(self.store, self.names, transform=lambda data: int(data[:2].rstrip(b"0") or 0))
        self.addCleanup(lambda: self.data.session().close())

    def test_an_item_is_what_the_transform_makes_of_a_file(self):
        plain = hearth.torch.Files(self.store, self.names)
        self.assertEqual(len(plain), 20)
        self.assertEqual(plain[7], b"7" * 1000)
        plain.session().close()

    def test_nothing_of_pytorch_is_loaded(self):
        self.assertNotIn("torch", sys.modules)

    def test_order_is_the_samplers_and_files_are_fetched_before_their_turn(self):
        fetched = {name: threading.Event() for name in range(20)}
        fetch = self.data.fetch

        def noted(index):
            fetch(index)
            fetched[index].set()

        self.data.fetch = noted
        order = list(range(19, -1, -1))
        seen = []
        for index in hearth.torch.Ahead(order, self.data, count=5):
            for near in order[len(seen) : len(seen) + 6]:
                self.assertTrue(fetched[near].wait(60), near)
            seen.append(index)
        self.assertEqual(seen, order)

    def test_no_more_are_fetched_than_was_asked_for(self):
        asked = []
        self.data.fetch = asked.append
        ahead = iter(hearth.torch.Ahead(range(20), self.data, count=5))
        next(ahead)
        self.assertLessEqual(len(asked), 6)
        ahead.close()

    def test_a_fetched_file_is_read_without_the_store(self):
        self.data.fetch(3)
        before = self.status()[0]["node"]["counters"]["store_read_requests"]
        self.assertEqual(self.data.session().read("3"), b"3" * 1000)
        self.assertEqual(self.status()[0]["node"]["counters"]["store_read_requests"], before)

    def test_a_file_that_cannot_be_fetched_is_an_error_of_its_item_alone(self):
        self.data.paths[4] = "none"
        self.assertEqual(list(hearth.torch.Ahead(range(20), self.data)), list(range(20)))
        with self.assertRaises(FileNotFoundError):
            self.data[4]
