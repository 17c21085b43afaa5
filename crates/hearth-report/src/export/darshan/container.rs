//! The file around the modules: a header with a map, then regions, each compressed by itself.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const VERSION: &[u8; 8] = b"3.41\0\0\0\0";
const MAGIC: i64 = 6_567_223;
/// Regions are compressed with zlib.
const ZLIB: u64 = 0;
const MODULES: usize = 64;
const HEADER_BYTES: usize = 1328;
/// The name map, then the modules' maps.
const MAPS_AT: usize = 32;
const VERSIONS_AT: usize = MAPS_AT + 16 * (1 + MODULES);

/// A kind of records in the file, and the version of their layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Module {
    Posix = 1,
    Stdio = 9,
    DxtPosix = 10,
}

impl Module {
    fn version(self) -> u32 {
        match self {
            Module::Posix => 4,
            Module::Stdio => 2,
            Module::DxtPosix => 1,
        }
    }
}

/// Bytes on their way into a region: compressed into a temporary file.
pub(super) struct Region {
    encoder: ZlibEncoder<io::BufWriter<File>>,
}

impl Region {
    pub(super) fn new(dir: &Path) -> io::Result<Region> {
        let file = io::BufWriter::new(tempfile::tempfile_in(dir)?);
        Ok(Region {
            encoder: ZlibEncoder::new(file, Compression::default()),
        })
    }

    fn compressed(self) -> io::Result<File> {
        let mut file = self.encoder.finish()?.into_inner()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

impl Write for Region {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.encoder.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }
}

/// The whole file.
pub(super) struct Container {
    pub(super) job: Region,
    pub(super) names: Region,
    pub(super) modules: Vec<(Module, Region)>,
    /// Nothing is complete that this trace tells.
    pub(super) partial: bool,
}

impl Container {
    pub(super) fn write(self, out: &mut impl Write) -> io::Result<()> {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(VERSION);
        put(&mut header, 8, &MAGIC.to_le_bytes());
        put(&mut header, 16, &ZLIB.to_le_bytes());
        let mut regions = vec![self.job.compressed()?];
        let mut at = HEADER_BYTES as u64 + regions[0].metadata()?.len();
        let mut map = |header: &mut [u8], slot: usize, region: Region| -> io::Result<()> {
            let file = region.compressed()?;
            let length = file.metadata()?.len();
            put(header, MAPS_AT + 16 * slot, &at.to_le_bytes());
            put(header, MAPS_AT + 16 * slot + 8, &length.to_le_bytes());
            at += length;
            regions.push(file);
            Ok(())
        };
        map(&mut header, 0, self.names)?;
        let mut partial = 0_u64;
        for (module, region) in self.modules {
            let id = module as usize;
            map(&mut header, 1 + id, region)?;
            put(
                &mut header,
                VERSIONS_AT + 4 * id,
                &module.version().to_le_bytes(),
            );
            partial |= u64::from(self.partial) << id;
        }
        put(&mut header, 24, &partial.to_le_bytes());
        out.write_all(&header)?;
        for mut region in regions {
            copy(&mut region, out)?;
        }
        Ok(())
    }
}

fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    io::copy(from, to).map(drop)
}
