"""Data sets of files for PyTorch, fetched ahead in the sampler's order.

    data = hearth.torch.Files("/scratch", paths, transform=decode)
    for batch in hearth.torch.loader(data, batch_size=32, shuffle=True): ...

Nothing of PyTorch is needed before `loader` is called.
"""

import collections
import concurrent.futures

from ._session import Session

PIECE_BYTES = 1 << 20


class Files:
    """A map-style data set: item `i` is what `transform` makes of the bytes of the path `i`.

    Workers that are forked share the session. Those that are started otherwise make one each.
    """

    def __init__(self, store, paths, transform=None):
        self.store, self.paths, self.transform = store, list(paths), transform
        self._session = None

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        data = self.session().read(self.paths[index])
        return self.transform(data) if self.transform else data

    def session(self):
        """The session of the data set, made when it is first asked for."""
        if self._session is None:
            self._session = Session(self.store)
        return self._session

    def fetch(self, index):
        """Has the agent read a file."""
        with self.session().open(self.paths[index]) as file:
            room, at = bytearray(PIECE_BYTES), 0
            while count := file.pread_into(room, at):
                at += count

    def __getstate__(self):
        return {**self.__dict__, "_session": None}


class Ahead:
    """A sampler that has files fetched before it yields their indices: at most `count` of them, by `threads` threads."""

    def __init__(self, sampler, data, count=64, threads=4):
        self.sampler, self.data = sampler, data
        self.count, self.threads = count, threads

    def __len__(self):
        return len(self.sampler)

    def __iter__(self):
        # In this thread: two that come first at once would make two sessions.
        self.data.session()
        window = collections.deque()
        pool = concurrent.futures.ThreadPoolExecutor(self.threads, "hearth-fetch")
        try:
            for index in self.sampler:
                window.append(index)
                # An error stays with the thread: it comes again to who asks for the item.
                pool.submit(self.data.fetch, index)
                if len(window) > self.count:
                    yield window.popleft()
            yield from window
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def loader(data, *, shuffle=False, sampler=None, ahead=64, threads=4, **options):
    """A torch.utils.data.DataLoader over `data` whose files are fetched `ahead` of their turn. Other options are its own."""
    from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

    if sampler is None:
        sampler = RandomSampler(data) if shuffle else SequentialSampler(data)
    elif shuffle:
        raise ValueError("cannot shuffle a sampler's order: leave out shuffle or sampler")
    return DataLoader(data, sampler=Ahead(sampler, data, ahead, threads), **options)
