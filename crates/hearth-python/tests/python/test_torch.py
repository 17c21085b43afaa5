"""The loader in PyTorch."""

import unittest

import hearth.torch
from support import Case

try:
    import torch.utils.data as data
except ImportError as error:
    raise unittest.SkipTest(f"no PyTorch: {error}") from error


def first(piece):
    return piece[0]


class Loader(Case):
    def setUp(self):
        super().setUp()
        self.names = [f"{i:02}" for i in range(40)]
        for i, name in enumerate(self.names):
            self.put(name, bytes([i]) * 100)
        self.up()
        self.files = hearth.torch.Files(self.store, self.names, transform=first)
        self.addCleanup(lambda: self.files.session().close())

    def batches(self, **options):
        return [batch.tolist() for batch in hearth.torch.loader(self.files, batch_size=10, **options)]

    def test_batches_come_in_the_samplers_order(self):
        self.assertEqual(sum(self.batches(), []), list(range(40)))
        backwards = list(range(39, -1, -1))
        self.assertEqual(sum(self.batches(sampler=backwards), []), backwards)

    def test_a_shuffle_has_each_file_once(self):
        self.assertEqual(sorted(sum(self.batches(shuffle=True), [])), list(range(40)))
        self.assertRaises(ValueError, self.batches, shuffle=True, sampler=[1])

    def test_workers_read_for_themselves(self):
        for context in ("fork", "spawn"):
            found = self.batches(num_workers=2, multiprocessing_context=context)
            self.assertEqual(sum(found, []), list(range(40)), context)

    def test_the_loader_is_pytorchs_own(self):
        self.assertIsInstance(hearth.torch.loader(self.files, batch_size=4, drop_last=True), data.DataLoader)
