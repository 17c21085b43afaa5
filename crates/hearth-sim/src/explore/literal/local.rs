//! HyCache+ as described: a record of each file says where it is and who has locked it, and is changed
//! by compare-and-swap. The lock has no lease, and the swap of a file to the store compares the place
//! alone, not which version of the file is meant.

use super::{Wires, fingerprint};
use crate::check::Violation;
use crate::explore::judge::Book;
use crate::explore::{Story, World};

const CLIENTS: u8 = 2;
/// Keeps the record.
const KEEPER: u8 = 2;

/// The place of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Node(u8),
    Store,
}

#[derive(Clone, Copy, Debug, Hash)]
enum Message {
    /// If nobody has the lock, it is the sender's.
    Lock,
    Locked(bool),
    /// The sender wrote the file: it is there, and unlocked.
    Wrote,
    /// The record says so.
    WroteOk,
    /// If the file is at the sender, it is in the store from now on.
    Moved,
    /// It is; the sender's bytes may go.
    MovedOk,
}

/// The faults of the world at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalFault {
    /// A swap is overtaken by a write.
    Overtaken,
    /// A node dies.
    Death,
}

/// A copy of the file on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Swap {
    Not,
    /// These bytes were read from the node's memory.
    Carrying(u8),
    /// The store has them.
    Stored,
}

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// It waits for the lock.
    Asking,
    Locked,
    /// The keeper has been told.
    Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    alive: bool,
    bytes: Option<u8>,
    /// A write: its value and number, and how far it has come.
    writing: Option<(u8, usize, Stage)>,
    swap: Swap,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug)]
pub enum LocalEvent {
    /// A client begins a write.
    Write(u8),
    /// A client that has the lock writes, and lets go.
    Commits(u8),
    /// A client that was refused tries again.
    Retries(u8),
    /// A client begins to bring the file to the store.
    Swap(u8),
    /// The store has what it carries.
    Stores(u8),
    /// A message arrives.
    Arrives(u8, u8),
    /// A client reads.
    Read(u8),
    /// A client dies.
    Dies(u8),
}

/// Two clients, the keeper of the record, and the store.
#[derive(Clone, Debug)]
pub struct LocalWorld {
    state: State,
    book: Book,
}

#[derive(Clone, Debug, Hash)]
struct State {
    fault: LocalFault,
    wires: Wires<Message>,
    clients: [Client; CLIENTS as usize],
    place: Place,
    lock: Option<u8>,
    store: u8,
    refused: [bool; CLIENTS as usize],
    writes: u8,
    reads: u8,
    swaps: u8,
    deaths: u8,
}

impl LocalWorld {
    /// The file is in the memory of node 0.
    pub fn new(fault: LocalFault) -> LocalWorld {
        let (book, bytes) = Book::new(1, false);
        let client = |bytes| Client {
            alive: true,
            bytes,
            writing: None,
            swap: Swap::Not,
        };
        let dies = fault == LocalFault::Death;
        LocalWorld {
            state: State {
                fault,
                wires: Wires::new(),
                clients: [client(Some(bytes[0])), client(None)],
                place: Place::Node(0),
                lock: None,
                store: 0,
                refused: [false; 2],
                writes: if dies { 2 } else { 1 },
                reads: u8::from(!dies),
                swaps: u8::from(!dies),
                deaths: u8::from(dies),
            },
            book,
        }
    }

    fn client(&mut self, node: u8) -> &mut Client {
        &mut self.state.clients[node as usize]
    }

    fn ask_lock(&mut self, node: u8, story: &mut Story) {
        story.line(|| format!("{node} -> keeper  lock, if nobody has it"));
        self.state.wires.send(node, KEEPER, Message::Lock);
    }

    fn read(&mut self, node: u8, story: &mut Story) -> Result<(), Violation> {
        self.state.reads -= 1;
        let began = self.book.begin();
        let value = match self.state.place {
            Place::Node(at) => self.client(at).bytes.unwrap_or_default(),
            Place::Store => self.state.store,
        };
        let place = self.state.place;
        story.line(|| format!("{node} reads, the record says {place:?}"));
        story.line(|| format!("{node} = {value}"));
        self.book
            .end_read((u32::from(node), 0), began, vec![value], 1)
    }

    fn commits(&mut self, node: u8, story: &mut Story) {
        if let Some((value, _, stage)) = &mut self.client(node).writing {
            let value = *value;
            *stage = Stage::Told;
            self.client(node).bytes = Some(value);
            story.line(|| format!("{node} has {value} in memory"));
            story.line(|| format!("{node} -> keeper  it is here, unlock"));
            self.state.wires.send(node, KEEPER, Message::Wrote);
        }
    }

    fn arrives(&mut self, from: u8, to: u8, story: &mut Story) {
        let message = self.state.wires.take(from, to);
        match message {
            Message::Lock => {
                let free = self.state.lock.is_none();
                if free {
                    self.state.lock = Some(from);
                }
                let said = if free { "locked" } else { "somebody has it" };
                story.line(|| format!("keeper -> {from}  {said}"));
                self.state.wires.send(KEEPER, from, Message::Locked(free));
            }
            Message::Locked(true) => {
                if let Some(writing) = &mut self.client(to).writing {
                    writing.2 = Stage::Locked;
                }
                story.line(|| format!("{to} <- keeper  locked"));
            }
            Message::Locked(false) => self.state.refused[to as usize] = true,
            Message::Wrote => {
                self.state.lock = None;
                self.state.place = Place::Node(from);
                self.state.wires.send(KEEPER, from, Message::WroteOk);
            }
            Message::WroteOk => {
                if let Some((_, change, _)) = self.client(to).writing.take() {
                    self.book.end_write(change);
                    story.line(|| format!("{to} = written"));
                }
            }
            Message::Moved => {
                if self.state.place == Place::Node(from) {
                    self.state.place = Place::Store;
                    story.line(|| {
                        format!("keeper -> {from}  it was at {from}: now it is in the store")
                    });
                    self.state.wires.send(KEEPER, from, Message::MovedOk);
                }
            }
            Message::MovedOk => {
                self.client(to).bytes = None;
                story.line(|| format!("{to} frees its bytes"));
            }
        }
    }

    fn swap(&mut self, node: u8, story: &mut Story) {
        self.state.swaps -= 1;
        let bytes = self.client(node).bytes.unwrap_or_default();
        story.line(|| format!("{node} begins to bring {bytes} to the store"));
        self.client(node).swap = Swap::Carrying(bytes);
    }

    fn stores(&mut self, node: u8, story: &mut Story) {
        if let Swap::Carrying(bytes) = self.client(node).swap {
            self.state.store = bytes;
            self.client(node).swap = Swap::Stored;
            story.line(|| format!("{node} store has {bytes}"));
            story.line(|| format!("{node} -> keeper  if it is at {node}, it is in the store"));
            self.state.wires.send(node, KEEPER, Message::Moved);
        }
    }

    fn dies(&mut self, node: u8, story: &mut Story) {
        story.line(|| format!("{node} dies"));
        self.state.deaths -= 1;
        self.book.lose();
        self.state.wires.drop_all_of(node);
        *self.client(node) = Client {
            alive: false,
            bytes: None,
            writing: None,
            swap: Swap::Not,
        };
    }

    fn of_client(&self, node: u8, events: &mut Vec<LocalEvent>) {
        let state = &self.state;
        let client = &state.clients[node as usize];
        match client.writing {
            Some((_, _, Stage::Locked)) => events.push(LocalEvent::Commits(node)),
            Some((_, _, Stage::Asking)) if state.refused[node as usize] && state.lock.is_none() => {
                events.push(LocalEvent::Retries(node));
            }
            Some(_) => {}
            None => {
                let write = (state.writes > 0).then_some(LocalEvent::Write(node));
                let read = (state.reads > 0).then_some(LocalEvent::Read(node));
                events.extend(write.into_iter().chain(read));
            }
        }
        match client.swap {
            Swap::Carrying(_) => events.push(LocalEvent::Stores(node)),
            Swap::Not if state.swaps > 0 && client.bytes.is_some() => {
                events.push(LocalEvent::Swap(node))
            }
            Swap::Not | Swap::Stored => {}
        }
        if state.deaths > 0 {
            events.push(LocalEvent::Dies(node));
        }
    }
}

impl World for LocalWorld {
    type Event = LocalEvent;

    fn enabled(&self, events: &mut Vec<LocalEvent>) {
        let busy = self.state.wires.busy();
        events.extend(
            busy.into_iter()
                .map(|(from, to)| LocalEvent::Arrives(from, to)),
        );
        let alive = |&node: &u8| self.state.clients[node as usize].alive;
        for node in (0..CLIENTS).filter(alive) {
            self.of_client(node, events);
        }
    }

    fn happen(&mut self, event: LocalEvent, story: &mut Story) -> Result<(), Violation> {
        match event {
            LocalEvent::Write(node) => {
                self.state.writes -= 1;
                let (change, value) = self.book.begin_write(u32::from(node), 0, 1);
                story.line(|| format!("{node} writes {value}"));
                self.client(node).writing = Some((value, change, Stage::Asking));
                self.ask_lock(node, story);
            }
            LocalEvent::Commits(node) => self.commits(node, story),
            LocalEvent::Retries(node) => {
                self.state.refused[node as usize] = false;
                self.ask_lock(node, story);
            }
            LocalEvent::Swap(node) => self.swap(node, story),
            LocalEvent::Stores(node) => self.stores(node, story),
            LocalEvent::Arrives(from, to) => self.arrives(from, to, story),
            LocalEvent::Read(node) => self.read(node, story)?,
            LocalEvent::Dies(node) => self.dies(node, story),
        }
        Ok(())
    }

    /// A node that waits for a lock must be able to get it without anybody's choosing to do something.
    fn judge(&self) -> Result<(), Violation> {
        let state = &self.state;
        let waits = |node: &u8| state.clients[*node as usize].writing.is_some();
        let Some(node) = (0..CLIENTS).find(waits) else {
            return Ok(());
        };
        match state.lock {
            Some(holder) if !state.clients[holder as usize].alive => {
                let what = format!("{node} waits for a lock of {holder}, which is dead");
                Err(Violation::liveness(what))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn fingerprint(&self) -> u128 {
        fingerprint(&self.state, &self.book)
    }
}
