//! One client of a store: a process of its own that does what it is told.
//!
//! It is a process, so that locks of processes meet. A store that hangs takes only this process with it, and it can run
//! on another host. Its input is one operation a line, its output one answer.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{
    CWD, FileType, FlockOperation, Mode as Bits, OFlags, RenameFlags, SeekFrom, XattrFlags,
    fcntl_lock, flock, getxattr, mknodat, renameat_with, seek, setxattr, statfs, statvfs,
};
use rustix::io::Errno;

use super::op::{Answer, Facts, How, Kind, Mode, Op};
use super::sys;

/// Longest extended attribute that a probe sets.
const ATTRIBUTE_MAX: usize = 256;

/// Unit of direct reads.
const SECTOR: usize = 4096;

/// Answers operations below a directory until the input ends.
pub(crate) fn serve(dir: &Path) -> io::Result<()> {
    let mut hand = Hand {
        dir: dir.to_owned(),
        open: HashMap::new(),
    };
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let op: Op = serde_json::from_str(&line?)?;
        let answer = match hand.carry_out(op) {
            Ok(answer) => answer,
            Err(error) => Answer::Failed(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())),
        };
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

struct Hand {
    dir: PathBuf,
    open: HashMap<u32, File>,
}

impl Hand {
    fn carry_out(&mut self, op: Op) -> io::Result<Answer> {
        match op {
            Op::Open(slot, path, mode) => {
                let file = open(&self.path(&path), mode)?;
                self.open.insert(slot, file);
                Ok(Answer::Done)
            }
            Op::Close(slot) => {
                let file = self.open.remove(&slot).ok_or(Errno::BADF)?;
                crate::os::close(file).map(|()| Answer::Done)
            }
            Op::Read(slot, at, len) => self.read(slot, at, len),
            Op::Write(slot, at, text) => done(self.file(slot)?.write_all_at(text.as_bytes(), at)),
            Op::Append(slot, text) => done(self.file(slot)?.write_all(text.as_bytes())),
            Op::Fsync(slot) => done(self.file(slot)?.sync_all()),
            Op::SetSize(slot, size) => done(self.file(slot)?.set_len(size)),
            Op::FactsOf(slot) => Ok(Answer::Facts(facts(&self.file(slot)?.metadata()?))),
            Op::Lock(slot, kind, take) => done(lock(self.file(slot)?, kind, take)),
            Op::Map(slot, len, store) => {
                let store = store.as_deref().map(str::as_bytes);
                let shown = sys::through_mapping(self.file(slot)?, len, store)?;
                Ok(text(&shown))
            }
            Op::Hole(slot) => Ok(Answer::Number(seek(self.file(slot)?, SeekFrom::Hole(0))?)),
            named => self.carry_out_named(named),
        }
    }

    fn carry_out_named(&self, op: Op) -> io::Result<Answer> {
        match op {
            Op::MakeDir(path) => done(fs::create_dir(self.path(&path))),
            Op::Clear(path) => done(fs::remove_dir_all(self.path(&path))),
            Op::Facts(path) => Ok(Answer::Facts(facts(&fs::symlink_metadata(
                self.path(&path),
            )?))),
            Op::Lists(path, name) => {
                let mut listed = false;
                for entry in fs::read_dir(self.path(&path))? {
                    listed |= entry?.file_name().to_str() == Some(&name);
                }
                Ok(Answer::Number(listed.into()))
            }
            Op::Rename(from, to, how) => self.rename(&from, &to, how),
            Op::Unlink(path) => done(fs::remove_file(self.path(&path))),
            Op::Link(from, to) => done(fs::hard_link(self.path(&from), self.path(&to))),
            Op::Symlink(target, path) => done(std::os::unix::fs::symlink(target, self.path(&path))),
            Op::ReadLink(path) => {
                let target = fs::read_link(self.path(&path))?;
                Ok(Answer::Text(target.to_string_lossy().into_owned()))
            }
            Op::MakeFifo(path) => {
                let bits = Bits::RUSR | Bits::WUSR;
                mknodat(CWD, self.path(&path), FileType::Fifo, bits, 0)?;
                Ok(Answer::Done)
            }
            Op::Chmod(path, bits) => done(fs::set_permissions(
                self.path(&path),
                fs::Permissions::from_mode(bits),
            )),
            Op::Touch(path, at) => {
                let file = OpenOptions::new().write(true).open(self.path(&path))?;
                done(file.set_modified(UNIX_EPOCH + Duration::from_nanos(at)))
            }
            Op::SetAttribute(path, name, value) => {
                setxattr(self.path(&path), name, &value, XattrFlags::empty())?;
                Ok(Answer::Done)
            }
            Op::Attribute(path, name) => {
                let mut value = vec![0; ATTRIBUTE_MAX];
                let len = getxattr(self.path(&path), name, &mut value[..])?;
                value.truncate(len);
                Ok(Answer::Bytes(value))
            }
            Op::Handle(path) => {
                let root = File::open(&self.dir)?;
                sys::open_by_handle(&root, &self.path(&path)).map(|_| Answer::Done)
            }
            Op::Space(path) => {
                let space = statvfs(self.path(&path))?;
                Ok(Answer::Number(space.f_bavail * space.f_frsize))
            }
            Op::Magic(path) => Ok(Answer::Number(statfs(self.path(&path))?.f_type as u64)),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    fn file(&mut self, slot: u32) -> io::Result<&mut File> {
        Ok(self.open.get_mut(&slot).ok_or(Errno::BADF)?)
    }

    fn read(&mut self, slot: u32, at: u64, len: usize) -> io::Result<Answer> {
        // Aligned, as direct reads want it.
        let mut buffer = vec![0; len + SECTOR];
        let start = buffer.as_ptr().align_offset(SECTOR);
        let buffer = &mut buffer[start..start + len];
        let count = self.file(slot)?.read_at(buffer, at)?;
        Ok(text(&buffer[..count]))
    }

    fn rename(&self, from: &str, to: &str, how: How) -> io::Result<Answer> {
        let (from, to) = (self.path(from), self.path(to));
        let flags = match how {
            How::Over => return done(fs::rename(from, to)),
            How::Exchange => RenameFlags::EXCHANGE,
            How::Noreplace => RenameFlags::NOREPLACE,
        };
        renameat_with(CWD, from, CWD, to, flags)?;
        Ok(Answer::Done)
    }
}

fn done(result: io::Result<()>) -> io::Result<Answer> {
    result.map(|()| Answer::Done)
}

fn text(bytes: &[u8]) -> Answer {
    Answer::Text(String::from_utf8_lossy(bytes).into_owned())
}

fn open(path: &Path, mode: Mode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    match mode {
        Mode::Read => &mut options,
        Mode::Update => options.write(true),
        Mode::Create => options.write(true).create_new(true),
        Mode::Append => options.append(true).create(true),
        Mode::Direct => options.custom_flags(OFlags::DIRECT.bits().cast_signed()),
        Mode::Nameless => options
            .write(true)
            .custom_flags(OFlags::TMPFILE.bits().cast_signed()),
    }
    .open(path)
}

fn facts(found: &fs::Metadata) -> Facts {
    let nanos = |seconds: i64, nanos: i64| {
        (seconds.max(0).cast_unsigned() * 1_000_000_000).saturating_add(nanos.cast_unsigned())
    };
    Facts {
        ino: found.ino(),
        size: found.size(),
        mode: found.mode() & 0o7777,
        links: found.nlink(),
        blocks: found.blocks(),
        mtime: nanos(found.mtime(), found.mtime_nsec()),
        ctime: nanos(found.ctime(), found.ctime_nsec()),
    }
}

fn lock(file: &File, kind: Kind, take: bool) -> io::Result<()> {
    let operation = match take {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingUnlock,
    };
    match kind {
        Kind::Process => Ok(fcntl_lock(file, operation)?),
        Kind::Flock => Ok(flock(file, operation)?),
        Kind::Description => sys::lock_description(file, take),
    }
}
