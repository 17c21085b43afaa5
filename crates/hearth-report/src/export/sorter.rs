//! Puts any number of items in order with a bounded amount of memory.
//!
//! Items gather in memory up to a limit; then they are sorted and written to a temporary file as a
//! run. [`Sorter::sorted`] merges the runs. The file has no name, so nothing is left behind.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of items in memory before they become a run.
const MEMORY_BYTES: usize = 64 << 20;

/// Bytes of each run that are read at a time while merging.
const READ_BYTES: usize = 256 << 10;

/// Something of a fixed size in a file.
pub trait SortItem: Ord + Copy {
    /// Its size in a file.
    const SIZE: usize;

    /// Appends exactly [`Self::SIZE`] bytes.
    fn put(&self, to: &mut Vec<u8>);

    /// Reads back the bytes that [`put`](Self::put) wrote.
    fn take(from: &[u8]) -> Self;
}

/// Gathers items, and gives them back in order.
pub struct Sorter<T> {
    held: Vec<T>,
    held_max: usize,
    file: File,
    /// Begin and end of each run in the file.
    runs: Vec<(u64, u64)>,
}

impl<T: SortItem> Sorter<T> {
    /// A sorter whose temporary file is in `dir`.
    pub fn new(dir: &Path) -> io::Result<Sorter<T>> {
        Sorter::with_memory(dir, MEMORY_BYTES)
    }

    fn with_memory(dir: &Path, bytes: usize) -> io::Result<Sorter<T>> {
        Ok(Sorter {
            held: Vec::new(),
            held_max: (bytes / size_of::<T>()).max(1),
            file: tempfile::tempfile_in(dir)?,
            runs: Vec::new(),
        })
    }

    /// Takes one more item.
    pub fn push(&mut self, item: T) -> io::Result<()> {
        self.held.push(item);
        if self.held.len() >= self.held_max {
            self.spill()?;
        }
        Ok(())
    }

    /// Hands out all items in order.
    pub fn sorted(mut self, mut take: impl FnMut(T) -> io::Result<()>) -> io::Result<()> {
        if self.runs.is_empty() {
            self.held.sort_unstable();
            return self.held.into_iter().try_for_each(take);
        }
        self.spill()?;
        self.held = Vec::new();
        let mut runs: Vec<Run<'_, T>> = (self.runs.iter())
            .map(|&(at, end)| Run::new(&self.file, at, end))
            .collect();
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|item| Reverse((item, number))));
        }
        while let Some(Reverse((item, number))) = heads.pop() {
            take(item)?;
            heads.extend(runs[number].next()?.map(|item| Reverse((item, number))));
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.held.sort_unstable();
        let begin = self.runs.last().map_or(0, |&(_, end)| end);
        let mut bytes = Vec::with_capacity(READ_BYTES + T::SIZE);
        let mut file = &self.file;
        for item in self.held.drain(..) {
            item.put(&mut bytes);
            if bytes.len() >= READ_BYTES {
                file.write_all(&bytes)?;
                bytes.clear();
            }
        }
        file.write_all(&bytes)?;
        let end = io::Seek::stream_position(&mut file)?;
        self.runs.push((begin, end));
        Ok(())
    }
}

/// The rest of one run.
struct Run<'a, T> {
    file: &'a File,
    at: u64,
    end: u64,
    bytes: Vec<u8>,
    used: usize,
    of: std::marker::PhantomData<T>,
}

impl<'a, T: SortItem> Run<'a, T> {
    fn new(file: &'a File, at: u64, end: u64) -> Run<'a, T> {
        Run {
            file,
            at,
            end,
            bytes: Vec::new(),
            used: 0,
            of: std::marker::PhantomData,
        }
    }

    fn next(&mut self) -> io::Result<Option<T>> {
        if self.used == self.bytes.len() {
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let count = left.min(READ_BYTES / T::SIZE * T::SIZE);
            self.bytes.resize(count, 0);
            self.file.read_exact_at(&mut self.bytes, self.at)?;
            self.at += count as u64;
            self.used = 0;
        }
        let rest = &self.bytes[self.used..];
        if rest.is_empty() {
            return Ok(None);
        }
        self.used += T::SIZE;
        Ok(Some(T::take(&rest[..T::SIZE])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SortItem for u64 {
        const SIZE: usize = 8;

        fn put(&self, to: &mut Vec<u8>) {
            to.extend(self.to_le_bytes());
        }

        fn take(from: &[u8]) -> u64 {
            u64::from_le_bytes(from.try_into().expect("eight bytes"))
        }
    }

    #[test]
    fn items_come_back_in_order_however_little_memory_there_is() {
        let dir = tempfile::tempdir().unwrap();
        for memory in [8, 80, 800_000] {
            let mut sorter = Sorter::with_memory(dir.path(), memory).unwrap();
            let count = 5_000_u64;
            for number in 0..count {
                sorter.push(number * 2_654_435_761 % count).unwrap();
            }
            let mut sorted = Vec::new();
            sorter
                .sorted(|item: u64| {
                    sorted.push(item);
                    Ok(())
                })
                .unwrap();
            assert!(sorted.is_sorted());
            assert_eq!(sorted.len() as u64, count);
            assert_eq!(sorted.iter().sum::<u64>(), count * (count - 1) / 2);
        }
    }
}
