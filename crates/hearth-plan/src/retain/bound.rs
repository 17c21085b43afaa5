//! How many bytes no plan can pass.
//!
//! Two bounds, and the smaller one stands. The first lets files be cut: then dropping the bytes that
//! are read again last is best, as Belady's method does with pages of one size. The second looks at
//! room and time: what stays takes its size for as long as it stays, and at each moment files that
//! cannot be cut fill no more than the best sum of their sizes.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::Queue;
use crate::units::Bytes;

/// Files up to which the best sum of sizes is found; above, the whole memory counts.
const SUMS_FILES_MAX: usize = 24;

/// No plan has more bytes from memory.
pub fn bound(queue: &Queue, capacity: Bytes) -> Bytes {
    bound_fractional(queue, capacity).min(by_volume(queue, capacity))
}

/// No plan has more bytes from memory, even if parts of files may stay: the relaxation of the exact
/// problem to a flow of bytes.
pub fn bound_fractional(queue: &Queue, capacity: Bytes) -> Bytes {
    let mut staying: BTreeMap<usize, Bytes> = BTreeMap::new();
    let (mut used, mut memory) = (Bytes::ZERO, Bytes::ZERO);
    for at in 0..queue.len() {
        let stayed = staying.remove(&at).unwrap_or_default();
        memory += stayed;
        used -= stayed;
        if let Some(end) = queue.next(at) {
            staying.insert(end, queue.size_at(at));
            used += queue.size_at(at);
        }
        while used > capacity {
            let mut last = staying
                .last_entry()
                .expect("bytes that are used belong to a file");
            let gone = (used - capacity).min(*last.get());
            used -= gone;
            *last.get_mut() -= gone;
            if *last.get() == Bytes::ZERO {
                last.remove();
            }
        }
    }
    memory
}

/// No cache has more hits, each counting one, however large: stays are bought with room times time,
/// cheap ones first.
pub fn bound_hits(queue: &Queue, capacity: Bytes) -> usize {
    let mut volume = u128::from(capacity.0) * queue.len() as u128;
    let stays = (0..queue.len()).filter_map(|at| {
        let length = queue.next(at)? - at;
        let size = queue.size_at(at);
        (size <= capacity).then_some(u128::from(size.0) * length as u128)
    });
    let mut stays: Vec<u128> = stays.collect();
    stays.sort_unstable();
    let bought = stays.into_iter().take_while(|price| {
        let is_affordable = *price <= volume;
        volume = volume.saturating_sub(*price);
        is_affordable
    });
    bought.count()
}

/// Stays are bought with room times time, short ones first.
fn by_volume(queue: &Queue, capacity: Bytes) -> Bytes {
    let mut volume = room(queue, capacity);
    let stays = (0..queue.len()).filter_map(|at| {
        let length = queue.next(at)? - at;
        Some((length as u128, queue.size_at(at)))
    });
    let mut stays: Vec<_> = stays.collect();
    stays.sort_unstable_by_key(|(length, _)| *length);
    let mut memory = Bytes::ZERO;
    for (length, size) in stays {
        let affordable = (volume / length).min(u128::from(size.0));
        memory += Bytes(affordable as u64);
        volume -= affordable * length;
    }
    memory
}

/// The most that can stay, summed over all moments.
fn room(queue: &Queue, capacity: Bytes) -> u128 {
    let mut sums: BTreeMap<Vec<u32>, Bytes> = BTreeMap::new();
    let mut between = Vec::new();
    let mut volume = 0;
    for at in 0..queue.len() {
        let file = queue.file(at);
        between.retain(|other| *other != file.0);
        if queue.next(at).is_some() {
            let place = between.partition_point(|other| *other < file.0);
            between.insert(place, file.0);
        }
        let sizes = || {
            between
                .iter()
                .map(|file| queue.size(crate::FileIndex(*file)))
        };
        let most = if between.len() > SUMS_FILES_MAX {
            sizes().sum::<Bytes>().min(capacity)
        } else if let Some(most) = sums.get(&between) {
            *most
        } else {
            let most = best_sum(&sizes().collect::<Vec<_>>(), capacity);
            sums.insert(between.clone(), most);
            most
        };
        volume += u128::from(most.0);
    }
    volume
}

/// The largest sum of some of `sizes` that is at most `capacity`: the sums of each half, matched.
fn best_sum(sizes: &[Bytes], capacity: Bytes) -> Bytes {
    let (left, right) = sizes.split_at(sizes.len() / 2);
    let (left, right) = (all_sums(left), all_sums(right));
    let mut most = Bytes::ZERO;
    let mut candidates = right.iter().rev().peekable();
    for sum in left {
        while candidates
            .peek()
            .is_some_and(|other| sum + **other > capacity)
        {
            candidates.next();
        }
        if let Some(other) = candidates.peek() {
            most = most.max(sum + **other);
        }
    }
    most
}

/// Sums of every subset, in order.
fn all_sums(sizes: &[Bytes]) -> Vec<Bytes> {
    let mut sums = vec![Bytes::ZERO];
    for size in sizes {
        let more: Vec<Bytes> = sums.iter().map(|sum| *sum + *size).collect();
        sums.extend(more);
    }
    sums.sort_unstable();
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_sum_is_found() {
        let sizes = [Bytes(60), Bytes(50), Bytes(45), Bytes(7)];
        assert_eq!(best_sum(&sizes, Bytes(100)), Bytes(95));
        assert_eq!(best_sum(&sizes, Bytes(162)), Bytes(162));
        assert_eq!(best_sum(&sizes, Bytes(6)), Bytes(0));
        assert_eq!(best_sum(&[], Bytes(6)), Bytes(0));
    }
}
