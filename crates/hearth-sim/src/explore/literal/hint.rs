//! Hint-based Coopc-PVFS as described: the metadata manager has everybody drop a block before it is
//! written, writers do not wait for each other, and a writer keeps the block that it wrote.

use super::{Wires, fingerprint};
use crate::check::Violation;
use crate::explore::judge::Book;
use crate::explore::{Story, World};

const CLIENTS: u8 = 2;
const MANAGER: u8 = 2;

#[derive(Clone, Copy, Debug, Hash)]
enum Message {
    /// A client is about to write the block.
    Writes,
    /// Drop the block, for this writer.
    Drop(u8),
    /// Dropped, for this writer.
    Dropped(u8),
    /// Everybody has dropped it.
    Go,
}

/// The work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// It waits for the manager.
    Asking {
        value: u8,
        change: usize,
    },
    /// The store has its bytes, or is about to.
    Writing {
        value: u8,
        change: usize,
    },
}

/// Something that can happen.
#[derive(Clone, Copy, Debug)]
pub enum HintEvent {
    /// A client begins a write.
    Write(u8),
    /// A client reads.
    Read(u8),
    /// A message arrives.
    Arrives(u8, u8),
    /// The store takes a client's bytes.
    Stores(u8),
}

/// Two clients, a manager and the store, with one block.
#[derive(Clone, Debug)]
pub struct Hint {
    state: State,
    book: Book,
}

#[derive(Clone, Debug, Hash)]
struct State {
    wires: Wires<Message>,
    phases: [Phase; CLIENTS as usize],
    cached: [Option<u8>; CLIENTS as usize],
    store: u8,
    writes: u8,
    reads: u8,
}

impl Hint {
    /// Nobody has the block, and each client may write and read it once.
    pub fn new() -> Hint {
        let (book, store) = Book::new(1, false);
        Hint {
            state: State {
                wires: Wires::new(),
                phases: [Phase::Idle; 2],
                cached: [None; 2],
                store: store[0],
                writes: 2,
                reads: 2,
            },
            book,
        }
    }

    fn write(&mut self, node: u8, story: &mut Story) {
        self.state.writes -= 1;
        let (change, value) = self.book.begin_write(u32::from(node), 0, 1);
        self.state.phases[node as usize] = Phase::Asking { value, change };
        story.line(|| format!("{node} writes {value}"));
        story.line(|| format!("{node} -> manager  about to write"));
        self.state.wires.send(node, MANAGER, Message::Writes);
    }

    fn read(&mut self, node: u8, story: &mut Story) -> Result<(), Violation> {
        self.state.reads -= 1;
        let began = self.book.begin();
        let value = match self.state.cached[node as usize] {
            Some(value) => value,
            None => {
                story.line(|| format!("{node} store read"));
                self.state.cached[node as usize] = Some(self.state.store);
                self.state.store
            }
        };
        story.line(|| format!("{node} = {value}"));
        self.book
            .end_read((u32::from(node), 0), began, vec![value], 1)
    }

    fn arrives(&mut self, from: u8, to: u8, story: &mut Story) {
        let message = self.state.wires.take(from, to);
        match message {
            Message::Writes => {
                let other = 1 - from;
                story.line(|| format!("manager -> {other}  drop the block"));
                self.state.wires.send(MANAGER, other, Message::Drop(from));
            }
            Message::Drop(writer) => {
                self.state.cached[to as usize] = None;
                story.line(|| format!("{to} -> manager  dropped"));
                self.state.wires.send(to, MANAGER, Message::Dropped(writer));
            }
            Message::Dropped(writer) => {
                story.line(|| format!("manager -> {writer}  go"));
                self.state.wires.send(MANAGER, writer, Message::Go);
            }
            Message::Go => {
                story.line(|| format!("{to} <- manager  go"));
                if let Phase::Asking { value, change } = self.state.phases[to as usize] {
                    self.state.phases[to as usize] = Phase::Writing { value, change };
                }
            }
        }
    }

    fn stores(&mut self, node: u8, story: &mut Story) {
        if let Phase::Writing { value, change } = self.state.phases[node as usize] {
            story.line(|| format!("{node} store has {value}"));
            self.state.store = value;
            self.state.cached[node as usize] = Some(value);
            self.state.phases[node as usize] = Phase::Idle;
            self.book.end_write(change);
            story.line(|| format!("{node} = written, and kept here"));
        }
    }
}

impl Default for Hint {
    fn default() -> Hint {
        Hint::new()
    }
}

impl World for Hint {
    type Event = HintEvent;

    fn enabled(&self, events: &mut Vec<HintEvent>) {
        let busy = self.state.wires.busy();
        events.extend(
            busy.into_iter()
                .map(|(from, to)| HintEvent::Arrives(from, to)),
        );
        // Readers come when all is over: what they see then they see for ever.
        let over = self.state.writes == 0 && self.state.phases == [Phase::Idle; 2];
        for node in 0..CLIENTS {
            match self.state.phases[node as usize] {
                Phase::Idle => {
                    let write = (self.state.writes > 0).then_some(HintEvent::Write(node));
                    let read = (over && self.state.reads > 0).then_some(HintEvent::Read(node));
                    events.extend(write.into_iter().chain(read));
                }
                Phase::Asking { .. } => {}
                Phase::Writing { .. } => events.push(HintEvent::Stores(node)),
            }
        }
    }

    fn happen(&mut self, event: HintEvent, story: &mut Story) -> Result<(), Violation> {
        match event {
            HintEvent::Write(node) => self.write(node, story),
            HintEvent::Read(node) => self.read(node, story)?,
            HintEvent::Arrives(from, to) => self.arrives(from, to, story),
            HintEvent::Stores(node) => self.stores(node, story),
        }
        Ok(())
    }

    fn judge(&self) -> Result<(), Violation> {
        Ok(())
    }

    fn fingerprint(&self) -> u128 {
        fingerprint(&self.state, &self.book)
    }
}
