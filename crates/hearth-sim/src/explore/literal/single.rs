//! Page locking as described by Liao et al.: the locks of a request's pages are taken one after another
//! in ascending order; a page that needs a frame evicts another, whose lock is taken for that.

use super::Wires;
use crate::check::Violation;
use crate::explore::words::Words;
use crate::explore::{Story, World};
use std::hash::Hash;

const PROCESSES: u8 = 2;
const PAGES: u8 = 2;
/// Managers of the pages follow the processes: page `p` is kept track of by this node.
const fn manager_of(page: u8) -> u8 {
    PROCESSES + page
}

#[derive(Clone, Copy, Debug, Hash)]
enum Message {
    Lock,
    Locked,
    Unlock,
}

/// The wants and holdings of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    /// First page and the page after the last, of the request that it makes once.
    wants: (u8, u8),
    begun: bool,
    /// It has the locks of its pages below this.
    next: u8,
    /// It waits for the lock of this page.
    asked: Option<u8>,
    /// The page in its only frame.
    frame: Option<u8>,
    /// It holds the lock of the page that it evicts.
    evicting: bool,
    done: bool,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug)]
pub enum SingleEvent {
    /// A process begins its request.
    Begins(u8),
    /// A message arrives.
    Arrives(u8, u8),
}

/// Two processes with a pool of one frame each, and the managers of two pages.
#[derive(Clone, Debug, Hash)]
pub struct Single {
    wires: Wires<Message>,
    processes: [Process; PROCESSES as usize],
    /// The process that has the lock of a page, and those that wait for it.
    holders: [Option<u8>; PAGES as usize],
    waiting: [Vec<u8>; PAGES as usize],
}

impl Single {
    /// Process 0 has page 0 and wants page 1; process 1 wants both.
    pub fn new() -> Single {
        let process = |wants, frame| Process {
            wants,
            begun: false,
            next: wants.0,
            asked: None,
            frame,
            evicting: false,
            done: false,
        };
        Single {
            wires: Wires::new(),
            processes: [process((1, 2), Some(0)), process((0, 2), None)],
            holders: [None; PAGES as usize],
            waiting: [Vec::new(), Vec::new()],
        }
    }

    fn lock(&mut self, process: u8, page: u8, why: &str, story: &mut Story) {
        story.line(|| format!("{process} -> manager of page {page}  lock, {why}"));
        self.processes[process as usize].asked = Some(page);
        self.wires.send(process, manager_of(page), Message::Lock);
    }

    fn unlock(&mut self, process: u8, page: u8, story: &mut Story) {
        story.line(|| format!("{process} -> manager of page {page}  unlock"));
        self.wires.send(process, manager_of(page), Message::Unlock);
    }

    /// Takes the next step of a request.
    fn go_on(&mut self, process: u8, story: &mut Story) {
        let Process {
            wants, next, frame, ..
        } = self.processes[process as usize];
        if next < wants.1 {
            return self.lock(process, next, "to use the page", story);
        }
        let other = frame.filter(|page| !(wants.0..wants.1).contains(page));
        if let Some(page) = other {
            return self.lock(process, page, "to evict the page", story);
        }
        self.finish(process, story);
    }

    fn finish(&mut self, process: u8, story: &mut Story) {
        let wants = self.processes[process as usize].wants;
        story.line(|| format!("{process} = done"));
        for page in wants.0..wants.1 {
            self.unlock(process, page, story);
        }
        let process = &mut self.processes[process as usize];
        (process.done, process.frame) = (true, Some(wants.0));
    }

    fn locked(&mut self, process: u8, story: &mut Story) {
        let it = &mut self.processes[process as usize];
        let Some(page) = it.asked.take() else { return };
        story.line(|| format!("{process} <- manager of page {page}  locked"));
        if it.frame == Some(page) && !(it.wants.0..it.wants.1).contains(&page) {
            it.frame = None;
            self.unlock(process, page, story);
        } else {
            it.next = page + 1;
        }
        self.go_on(process, story);
    }

    fn grant(&mut self, page: u8, story: &mut Story) {
        let lock = &mut self.holders[page as usize];
        let waiting = &mut self.waiting[page as usize];
        if lock.is_none() && !waiting.is_empty() {
            let next = waiting.remove(0);
            *lock = Some(next);
            story.line(|| format!("manager of page {page} -> {next}  locked"));
            self.wires.send(manager_of(page), next, Message::Locked);
        }
    }
}

impl Default for Single {
    fn default() -> Single {
        Single::new()
    }
}

impl World for Single {
    type Event = SingleEvent;

    fn enabled(&self, events: &mut Vec<SingleEvent>) {
        let busy = self.wires.busy();
        events.extend(
            busy.into_iter()
                .map(|(from, to)| SingleEvent::Arrives(from, to)),
        );
        let idle = (0..PROCESSES).filter(|&p| !self.processes[p as usize].begun);
        events.extend(idle.map(SingleEvent::Begins));
    }

    fn happen(&mut self, event: SingleEvent, story: &mut Story) -> Result<(), Violation> {
        match event {
            SingleEvent::Begins(process) => {
                let it = &mut self.processes[process as usize];
                it.begun = true;
                let (first, end) = it.wants;
                let held = it.frame;
                story.line(|| {
                    format!("{process} accesses pages {first}..{end}, its frame has {held:?}")
                });
                self.go_on(process, story);
            }
            SingleEvent::Arrives(from, to) => match self.wires.take(from, to) {
                Message::Lock => {
                    let page = to - PROCESSES;
                    self.waiting[page as usize].push(from);
                    if let Some(holder) = self.holders[page as usize] {
                        story.line(|| format!("manager of page {page}: {from} waits for {holder}"));
                    }
                    self.grant(page, story);
                }
                Message::Locked => self.locked(to, story),
                Message::Unlock => {
                    let page = to - PROCESSES;
                    self.holders[page as usize] = None;
                    self.grant(page, story);
                }
            },
        }
        Ok(())
    }

    fn judge(&self) -> Result<(), Violation> {
        let mut events = Vec::new();
        self.enabled(&mut events);
        let unfinished = self.processes.iter().any(|process| !process.done);
        if events.is_empty() && unfinished {
            let what = "each process waits for a lock that the other holds".to_owned();
            return Err(Violation::liveness(what));
        }
        Ok(())
    }

    fn fingerprint(&self) -> u128 {
        let mut words = Words::default();
        self.hash(&mut words);
        words.fingerprint()
    }
}
