//! Matrix multiplication (Coopc-PVFS, section 5.1): C = A x B on files.
//!
//! Every process reads its part of A and, row by row with no caching of its own, all of B, and
//! writes its part of C row by row. `workloads/matmul.c` is the same program on MPI.

use crate::trial::IoTimes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Element of A at row `i`, column `j`: small enough that every sum is exact in a float.
fn a(i: usize, j: usize) -> f32 {
    ((i * 3 + j * 5) % 7) as f32
}

/// Element of B.
fn b(i: usize, j: usize) -> f32 {
    ((i * 2 + j * 11) % 5) as f32
}

/// Rows of the whole that a process works on.
fn part(n: usize, rank: usize, of: usize) -> std::ops::Range<usize> {
    n * rank / of..n * (rank + 1) / of
}

/// Writes the inputs.
pub fn init(dir: &Path, n: usize) -> io::Result<()> {
    write_matrix(&dir.join("A"), n, a)?;
    write_matrix(&dir.join("B"), n, b)
}

/// Size of the inputs in bytes.
pub fn input_bytes(n: usize) -> u64 {
    2 * (n * n * size_of::<f32>()) as u64
}

fn write_matrix(path: &Path, n: usize, element: fn(usize, usize) -> f32) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(n * n * size_of::<f32>());
    for i in 0..n {
        for j in 0..n {
            bytes.extend_from_slice(&element(i, j).to_le_bytes());
        }
    }
    std::fs::write(path, bytes)
}

/// One process of the multiplication.
pub fn run(dir: &Path, n: usize, rank: usize, of: usize) -> io::Result<IoTimes> {
    let mut times = IoTimes::default();
    let rows = part(n, rank, of);
    let own = read_rows(&dir.join("A"), n, rows.clone(), &mut times)?;
    let product = multiply(&dir.join("B"), n, &own, &mut times)?;
    write_rows(&dir.join("C"), n, rows.start, &product, &mut times)?;
    Ok(times)
}

fn open(path: &Path, times: &mut IoTimes) -> io::Result<File> {
    let start = Instant::now();
    let file = File::open(path)?;
    times.add_read(start.elapsed(), 0);
    Ok(file)
}

fn read_row(file: &File, n: usize, row: usize, times: &mut IoTimes) -> io::Result<Vec<f32>> {
    let mut bytes = vec![0; n * size_of::<f32>()];
    let start = Instant::now();
    file.read_exact_at(&mut bytes, (row * n * size_of::<f32>()) as u64)?;
    times.add_read(start.elapsed(), bytes.len() as u64);
    let float = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    Ok(bytes.chunks_exact(4).map(float).collect())
}

fn read_rows(
    path: &Path,
    n: usize,
    rows: std::ops::Range<usize>,
    times: &mut IoTimes,
) -> io::Result<Vec<Vec<f32>>> {
    let file = open(path, times)?;
    rows.map(|row| read_row(&file, n, row, times)).collect()
}

/// Rows of the product: for each row of B, adds its share to every own row.
fn multiply(
    path: &Path,
    n: usize,
    own: &[Vec<f32>],
    times: &mut IoTimes,
) -> io::Result<Vec<Vec<f32>>> {
    let file = open(path, times)?;
    let mut product = vec![vec![0f32; n]; own.len()];
    for k in 0..n {
        let row = read_row(&file, n, k, times)?;
        for (sums, factors) in product.iter_mut().zip(own) {
            let factor = factors[k];
            sums.iter_mut()
                .zip(&row)
                .for_each(|(sum, element)| *sum += factor * element);
        }
    }
    Ok(product)
}

fn write_rows(
    path: &Path,
    n: usize,
    first: usize,
    rows: &[Vec<f32>],
    times: &mut IoTimes,
) -> io::Result<()> {
    let start = Instant::now();
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    times.add_write(start.elapsed(), 0);
    for (row, values) in (first..).zip(rows) {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let start = Instant::now();
        file.write_all_at(&bytes, (row * n * size_of::<f32>()) as u64)?;
        times.add_write(start.elapsed(), bytes.len() as u64);
    }
    let start = Instant::now();
    drop(file);
    times.add_write(start.elapsed(), 0);
    Ok(())
}

/// True if C is the product, computed anew from the definition of the inputs.
pub fn verify(dir: &Path, n: usize) -> io::Result<bool> {
    let file = File::open(dir.join("C"))?;
    if file.metadata()?.len() != (n * n * size_of::<f32>()) as u64 {
        return Ok(false);
    }
    let mut ignored = IoTimes::default();
    for i in 0..n {
        let row = read_row(&file, n, i, &mut ignored)?;
        for (j, &value) in row.iter().enumerate() {
            if value != product_at(n, i, j) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Element of the product by the period of its terms: both inputs repeat after 35 steps of `k`.
fn product_at(n: usize, i: usize, j: usize) -> f32 {
    let term = |k: usize| a(i, k) * b(k, j);
    let period: f32 = (0..35).map(term).sum();
    let rest: f32 = (n - n % 35..n).map(term).sum();
    period * (n / 35) as f32 + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_together_make_the_product_and_a_wrong_one_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let n = 96;
        init(dir.path(), n).expect("inputs");
        for rank in 0..4 {
            run(dir.path(), n, rank, 4).expect("runs");
        }
        assert!(verify(dir.path(), n).expect("reads"));
        let c = File::options()
            .write(true)
            .open(dir.path().join("C"))
            .expect("opens");
        c.write_all_at(&0.5f32.to_le_bytes(), 4 * 1234)
            .expect("spoils");
        assert!(!verify(dir.path(), n).expect("reads"));
    }

    #[test]
    fn the_short_way_to_an_element_is_the_long_way() {
        for (i, j) in [(0, 0), (3, 9), (100, 77)] {
            let long: f32 = (0..128).map(|k| a(i, k) * b(k, j)).sum();
            assert_eq!(product_at(128, i, j), long);
        }
    }
}
