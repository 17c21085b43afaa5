//! The facts of a ledger, and their bytes.
//!
//! A record is a byte that says which fact, then its fields: numbers of eight bytes, and at most one run of bytes at the
//! end. Agents of one version read them.

use crate::init::Agreed;

/// Bytes of the longest fact beside its run of bytes.
const FIELDS_BYTES: usize = 1 + 9 * 8;

/// Bytes of a fact about one thing, with its length.
const SHORT_BYTES: usize = 15;

/// The bytes of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Its number as the operating system has it.
    pub(crate) number: u64,
    pub(crate) node: u64,
    /// The store's descriptor.
    pub(crate) fd: i32,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// The number of the request that opened it.
    pub(crate) request: u64,
}

/// Which of the two families of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Ranges,
    Flock,
}

/// The owner of locks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    pub(crate) node: u64,
    pub(crate) owner: u64,
    pub(crate) family: Family,
}

/// How far a change is that cannot be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// The store is about to be asked.
    Begun,
    /// It has done it.
    Done,
    /// It has refused.
    Refused,
}

/// One thing that the operating system knows, or is about to learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact<'a> {
    /// The mount has begun, with this agreement. It is at a directory, or somebody else's: then that is empty.
    Agreed(Agreed, &'a [u8]),
    /// A node with so many lookups, and without a name. It replaces one of the same number.
    Node {
        id: u64,
        generation: u64,
        key: (u64, u64),
        mode: u32,
        born: Option<i64>,
        lookups: u64,
    },
    /// A node was looked up once more.
    Found(u64),
    /// The operating system forgot so many lookups.
    Forgotten(u64, u64),
    /// A node has a name in a directory.
    Named(u64, u64, &'a [u8]),
    /// A node has lost its last name.
    Gone(u64),
    /// A file is open.
    Opened(Opened),
    /// A handle of a file is open no more.
    Closed(u64),
    /// Bytes of programs were taken through a handle that the store may lack.
    Written(u64),
    /// The store has all bytes that were written through a handle.
    Synced(u64),
    /// A directory is open, by this descriptor, since this request.
    DirectoryOpened(u64, i32, u64),
    /// A handle of a directory is open no more.
    DirectoryClosed(u64),
    /// An owner has locks by this descriptor, which goes with a handle.
    Locked(Lock, i32, u64),
    /// It has none any more.
    Unlocked(Lock),
    /// A request changes the store.
    Tried(u64, Tried),
    /// Handles had numbers up to this one.
    Numbered(u64),
}

impl Fact<'_> {
    /// Bytes of a log, roughly, that say nothing any more once this is in it.
    pub(crate) fn makes_worthless(&self) -> usize {
        match self {
            Fact::Agreed(..) | Fact::Node { .. } | Fact::Named(..) => 0,
            Fact::Opened(_) | Fact::DirectoryOpened(..) | Fact::Locked(..) => 0,
            Fact::Found(_) | Fact::Gone(_) | Fact::Numbered(_) => SHORT_BYTES,
            Fact::Written(_) | Fact::Synced(_) | Fact::Tried(..) => SHORT_BYTES,
            // With the record of the handle or lock.
            Fact::Closed(_) | Fact::DirectoryClosed(_) | Fact::Unlocked(_) => 4 * SHORT_BYTES,
            // With those of the node and its name.
            Fact::Forgotten(..) => 8 * SHORT_BYTES,
        }
    }

    /// Hands its bytes to `take`.
    pub(crate) fn encoded<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Fact::Agreed(agreed, point) => long(1, &agreed_fields(agreed), point, take),
            Fact::Node {
                id,
                generation,
                key,
                mode,
                born,
                lookups,
            } => {
                let (is_born, born) =
                    (u64::from(born.is_some()), born.unwrap_or(0).cast_unsigned());
                let mode = u64::from(*mode);
                short(
                    2,
                    &[
                        *id,
                        *generation,
                        key.0,
                        key.1,
                        mode,
                        is_born,
                        born,
                        *lookups,
                    ],
                    take,
                )
            }
            Fact::Found(id) => short(3, &[*id], take),
            Fact::Forgotten(id, count) => short(4, &[*id, *count], take),
            Fact::Named(id, parent, name) => long(5, &[*id, *parent], name, take),
            Fact::Gone(id) => short(6, &[*id], take),
            Fact::Opened(opened) => short(7, &opened.fields(), take),
            Fact::Closed(number) => short(8, &[*number], take),
            Fact::Written(number) => short(9, &[*number], take),
            Fact::Synced(number) => short(10, &[*number], take),
            Fact::DirectoryOpened(number, fd, request) => {
                short(11, &[*number, word(*fd), *request], take)
            }
            Fact::DirectoryClosed(number) => short(12, &[*number], take),
            Fact::Locked(lock, fd, through) => {
                let [node, owner, family] = lock.fields();
                short(13, &[node, owner, family, word(*fd), *through], take)
            }
            Fact::Unlocked(lock) => short(14, &lock.fields(), take),
            Fact::Tried(request, tried) => short(15, &[*request, *tried as u64], take),
            Fact::Numbered(number) => short(16, &[*number], take),
        }
    }

    /// The fact of these bytes; `None` if they are of no fact.
    pub(crate) fn decoded(record: &[u8]) -> Option<Fact<'_>> {
        let (&tag, bytes) = record.split_first()?;
        let mut rest = Fields(bytes);
        let mut next = || rest.next();
        Some(match tag {
            1 => {
                let fields = [next()?, next()?, next()?, next()?, next()?, next()?];
                Fact::Agreed(agreed_of(fields)?, rest.0)
            }
            2 => Fact::Node {
                id: next()?,
                generation: next()?,
                key: (next()?, next()?),
                mode: u32::try_from(next()?).ok()?,
                born: {
                    let (is_born, born) = (next()?, next()?);
                    (is_born != 0).then_some(born.cast_signed())
                },
                lookups: next()?,
            },
            3 => Fact::Found(next()?),
            4 => Fact::Forgotten(next()?, next()?),
            5 => {
                let (id, parent) = (next()?, next()?);
                Fact::Named(id, parent, rest.0)
            }
            6 => Fact::Gone(next()?),
            7 => Fact::Opened(Opened::from_fields([
                next()?,
                next()?,
                next()?,
                next()?,
                next()?,
            ])?),
            8 => Fact::Closed(next()?),
            9 => Fact::Written(next()?),
            10 => Fact::Synced(next()?),
            11 => Fact::DirectoryOpened(next()?, number(next()?)?, next()?),
            12 => Fact::DirectoryClosed(next()?),
            13 => {
                let lock = Lock::from_fields([next()?, next()?, next()?])?;
                Fact::Locked(lock, number(next()?)?, next()?)
            }
            14 => Fact::Unlocked(Lock::from_fields([next()?, next()?, next()?])?),
            15 => Fact::Tried(next()?, Tried::from_field(next()?)?),
            16 => Fact::Numbered(next()?),
            _ => return None,
        })
    }
}

fn agreed_fields(agreed: &Agreed) -> [u64; 6] {
    let (major, minor) = agreed.version;
    [
        u64::from(major),
        u64::from(minor),
        agreed.offered,
        u64::from(agreed.readahead),
        agreed.features,
        u64::from(agreed.write_bytes),
    ]
}

fn agreed_of([major, minor, offered, readahead, features, written]: [u64; 6]) -> Option<Agreed> {
    Some(Agreed {
        version: (u32::try_from(major).ok()?, u32::try_from(minor).ok()?),
        offered,
        readahead: u32::try_from(readahead).ok()?,
        features,
        write_bytes: u32::try_from(written).ok()?,
    })
}

impl Opened {
    fn fields(&self) -> [u64; 5] {
        let access = u64::from(self.reads) | u64::from(self.writes) << 1;
        [self.number, self.node, word(self.fd), access, self.request]
    }

    fn from_fields([opened, node, fd, access, request]: [u64; 5]) -> Option<Opened> {
        Some(Opened {
            number: opened,
            node,
            fd: number(fd)?,
            reads: access & 1 != 0,
            writes: access & 2 != 0,
            request,
        })
    }
}

impl Family {
    pub(crate) const ALL: [Family; 2] = [Family::Ranges, Family::Flock];

    /// The locks of this family that an owner has.
    pub(crate) fn of(self, node: u64, owner: u64) -> Lock {
        Lock {
            node,
            owner,
            family: self,
        }
    }
}

impl Lock {
    fn fields(&self) -> [u64; 3] {
        [self.node, self.owner, self.family as u64]
    }

    fn from_fields([node, owner, family]: [u64; 3]) -> Option<Lock> {
        let mut families = Family::ALL.into_iter();
        let family = families.find(|one| *one as u64 == family)?;
        Some(family.of(node, owner))
    }
}

impl Tried {
    fn from_field(field: u64) -> Option<Tried> {
        let all = [Tried::Begun, Tried::Done, Tried::Refused];
        all.into_iter().find(|one| *one as u64 == field)
    }
}

fn word(number: i32) -> u64 {
    u64::from(number.cast_unsigned())
}

fn number(word: u64) -> Option<i32> {
    i32::try_from(word).ok()
}

/// The numbers at the front of some bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next(&mut self) -> Option<u64> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*field))
    }
}

fn short<T>(tag: u8, fields: &[u64], take: impl FnOnce(&[u8]) -> T) -> T {
    let mut record = [0; FIELDS_BYTES];
    let len = put(&mut record, tag, fields);
    take(&record[..len])
}

fn long<T>(tag: u8, fields: &[u64], bytes: &[u8], take: impl FnOnce(&[u8]) -> T) -> T {
    let mut front = [0; FIELDS_BYTES];
    let len = put(&mut front, tag, fields);
    take(&[&front[..len], bytes].concat())
}

fn put(record: &mut [u8; FIELDS_BYTES], tag: u8, fields: &[u64]) -> usize {
    let (first, rest) = record.split_first_mut().expect("a record is longer");
    *first = tag;
    for (place, field) in rest.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    1 + 8 * fields.len()
}
