//! Messages between a test and a rank.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The test asks for an address to listen at.
    Bind,
    Start,
    Send,
    Disconnect,
    Peers,
    Wake,
    Shutdown,
    /// The test has dropped the transport.
    Drop,
    Quit,
    /// A rank's handler is called; the answer has the event's number.
    Up,
    Down,
    Anew,
    Frame,
    Deadline,
    Timer,
    /// An answer to the message of its number.
    Answer,
}

const KINDS: [Kind; 16] = [
    Kind::Bind,
    Kind::Start,
    Kind::Send,
    Kind::Disconnect,
    Kind::Peers,
    Kind::Wake,
    Kind::Shutdown,
    Kind::Drop,
    Kind::Quit,
    Kind::Up,
    Kind::Down,
    Kind::Anew,
    Kind::Frame,
    Kind::Deadline,
    Kind::Timer,
    Kind::Answer,
];

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    /// The event inside of which it is asked for; 0 for none.
    pub(crate) inside: u64,
    /// Which transport of the rank.
    pub(crate) transport: u64,
    pub(crate) fields: Vec<Vec<u8>>,
}

impl Message {
    pub(crate) fn answer(to: &Message, fields: Vec<Vec<u8>>) -> Message {
        Message {
            kind: Kind::Answer,
            number: to.number,
            inside: 0,
            transport: to.transport,
            fields,
        }
    }

    pub(crate) fn text(&self, field: usize) -> String {
        String::from_utf8(self.fields[field].clone()).expect("it was text")
    }

    pub(crate) fn word(&self, field: usize) -> u64 {
        word_of(&self.fields[field])
    }

    /// Writes it as a whole.
    pub(crate) fn put(&self, to: &Mutex<UnixStream>) {
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        let kind = kind.expect("every kind is in the list") as u64;
        let mut bytes = Vec::new();
        let count = self.fields.len() as u64;
        for word in [kind, self.number, self.inside, self.transport, count] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for field in &self.fields {
            bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
            bytes.extend_from_slice(field);
        }
        let mut stream = to.lock().expect("nobody panics with it");
        // The other side may have ended; who waits for an answer finds that out.
        let _ = stream.write_all(&bytes);
    }

    /// Reads one; `None` at the end.
    pub(crate) fn get(mut from: &UnixStream) -> Option<Message> {
        let mut word = || -> Option<u64> {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let kind = *KINDS.get(word()? as usize)?;
        let [number, inside, transport] = [word()?, word()?, word()?];
        let count = word()?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let mut len = [0; 8];
            from.read_exact(&mut len).ok()?;
            let mut field = vec![0; u64::from_le_bytes(len) as usize];
            from.read_exact(&mut field).ok()?;
            fields.push(field);
        }
        Some(Message {
            kind,
            number,
            inside,
            transport,
            fields,
        })
    }
}

pub(crate) fn word(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

pub(crate) fn word_of(field: &[u8]) -> u64 {
    u64::from_le_bytes(field.try_into().expect("a word has eight bytes"))
}
