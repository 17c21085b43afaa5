//! Messages by kind.

use hearth_proto::msg::Body;

/// A kind of message that operations cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page is asked for.
    Read,
    /// It comes.
    Grant,
    /// Bytes go to their home.
    Write,
    /// They are in place.
    WriteOk,
    /// Copies are called back.
    Inval,
    /// They are gone.
    InvalOk,
    /// Any other.
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Read,
        Kind::Grant,
        Kind::Write,
        Kind::WriteOk,
        Kind::Inval,
        Kind::InvalOk,
        Kind::Other,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Grant => "grant",
            Kind::Write => "write",
            Kind::WriteOk => "write-ok",
            Kind::Inval => "inval",
            Kind::InvalOk => "inval-ok",
            Kind::Other => "other",
        }
    }

    pub(super) fn of(body: &Body) -> Kind {
        match body {
            Body::Read { .. } => Kind::Read,
            Body::Grant { .. } => Kind::Grant,
            Body::Write { .. } | Body::Scatter { .. } => Kind::Write,
            Body::WriteOk => Kind::WriteOk,
            Body::Inval { .. } => Kind::Inval,
            Body::InvalOk => Kind::InvalOk,
            _ => Kind::Other,
        }
    }
}

/// How many messages of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; 7]);

impl Counts {
    pub(super) fn add(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// Messages of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// All messages.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
