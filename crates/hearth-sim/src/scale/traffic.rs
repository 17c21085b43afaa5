//! Messages by kind.

use hearth_proto::msg::Body;

/// A kind of message that operations cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
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

impl MessageKind {
    /// All of them.
    pub const ALL: [MessageKind; 7] = [
        MessageKind::Read,
        MessageKind::Grant,
        MessageKind::Write,
        MessageKind::WriteOk,
        MessageKind::Inval,
        MessageKind::InvalOk,
        MessageKind::Other,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::Read => "read",
            MessageKind::Grant => "grant",
            MessageKind::Write => "write",
            MessageKind::WriteOk => "write-ok",
            MessageKind::Inval => "inval",
            MessageKind::InvalOk => "inval-ok",
            MessageKind::Other => "other",
        }
    }

    pub(super) fn of(body: &Body) -> MessageKind {
        match body {
            Body::Read { .. } => MessageKind::Read,
            Body::Grant { .. } => MessageKind::Grant,
            Body::Write { .. } | Body::Scatter { .. } => MessageKind::Write,
            Body::WriteOk => MessageKind::WriteOk,
            Body::Inval { .. } => MessageKind::Inval,
            Body::InvalOk => MessageKind::InvalOk,
            _ => MessageKind::Other,
        }
    }
}

/// How many messages of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts([u64; 7]);

impl MessageCounts {
    pub(super) fn add(&mut self, kind: MessageKind) {
        self.0[kind as usize] += 1;
    }

    /// Messages of a kind.
    pub fn of(&self, kind: MessageKind) -> u64 {
        self.0[kind as usize]
    }

    /// All messages.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
