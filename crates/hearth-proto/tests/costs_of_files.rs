//! The cost of an input does not grow with the number of files that a node knows, names that it was told, or
//! questions that wait. Sixteen times as many of each are made, and the processor time of this thread for one
//! more input is compared. A look at all of them for each would take sixteen times as long, a sorted map half
//! as long again. The few may fit into a cache of the processor, and the many not.

use hearth_proto::msg::{Body, Envelope};
use hearth_proto::{
    Attributes, Config, Effect, FileId, Gen, Input, Learned, Leave, Listed, Named, Node, NodeId,
    Outbox, Policy, Replicas, Reply, ReqId, Request, Ticket, Time, View,
};

const ASKER: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

/// Sixteen times as many may make one input cost so many times as much.
const GROWTH_MAX: f64 = 8.0;
const TRIES: usize = 8;
/// Inputs that are measured together.
const MEASURED: u64 = 256;

struct Rig {
    node: Node,
    names: u64,
}

impl Rig {
    fn new(idle_files_max: usize) -> Rig {
        Rig::of(Config {
            idle_files_max,
            frames: 8,
            ..Config::new(NodeId(0), 3)
        })
    }

    fn of(config: Config) -> Rig {
        Rig {
            node: Node::new(config),
            names: 0,
        }
    }

    fn give(&mut self, input: Input) -> Outbox {
        let mut out = Outbox::new();
        self.node.step(Time(1_000_000_000), input, &mut out);
        // As an agent does after each step.
        let _ = self.node.deadline();
        out
    }

    /// A message of a node; what it asks for has the number that is returned.
    fn hear(&mut self, from: NodeId, file: FileId, body: Body) -> (u64, Outbox) {
        self.names += 1;
        let seq = self.names;
        let (node, inc) = (from, 0);
        let req = ReqId { node, inc, seq };
        let envelope = Envelope {
            view: View(1),
            file,
            generation: Gen::default(),
            req,
            body,
        };
        let data = None;
        let message = Input::Message {
            from,
            envelope,
            data,
        };
        (seq, self.give(message))
    }

    fn ask_leave(&mut self, from: NodeId, file: u64) -> (u64, Outbox) {
        let (file, files) = (FileId(file), vec![FileId(file)]);
        self.hear(from, file, Body::AskLeave { files, alone: true })
    }

    fn learned(&mut self, file: u64, number: u64) -> Outbox {
        let told = Learned {
            file: FileId(file),
            number,
            attributes: Some(Attributes {
                links: 1,
                ..Attributes::default()
            }),
        };
        let body = Body::Learned(vec![told]);
        self.hear(ASKER, FileId(file), body).1
    }

    /// A node has leave for a file, and has told its attributes.
    fn keep(&mut self, file: u64) {
        let (number, _) = self.ask_leave(ASKER, file);
        self.learned(file, number);
    }

    fn ask_size(&mut self, file: u64) {
        let (ticket, file, ask) = (Ticket(file), FileId(file), false);
        self.give(Input::Request(ticket, Request::Size { file, ask }));
    }
}

/// Processor time of this thread, in nanoseconds.
fn spent() -> u64 {
    // The system counts at its ticks, and when a thread gives way.
    std::thread::yield_now();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = told
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    first.expect("Linux tells how long a thread has run")
}

/// The inputs that are measured go on behind those that were made.
fn grows_little(what: &str, few: u64, make: impl Fn(u64) -> Rig, more: impl Fn(&mut Rig, u64)) {
    let cost = |count: u64| {
        let mut rig = make(count);
        let measure = |turn: u64| {
            let before = spent();
            (0..MEASURED).for_each(|each| more(&mut rig, count + turn * MEASURED + each));
            (spent() - before).max(10_000) as f64
        };
        (0..3).map(measure).fold(f64::MAX, f64::min)
    };
    let mut least = f64::MAX;
    for _ in 0..TRIES {
        least = least.min(cost(few * 16) / cost(few));
        if least <= GROWTH_MAX {
            return;
        }
    }
    panic!("{what}: sixteen times as many make one more cost {least:.1} times as much");
}

#[test]
fn files_that_are_kept_beyond_the_bound() {
    let make = |count: u64| {
        let mut rig = Rig::new(count as usize);
        (0..count).for_each(|file| rig.keep(file + 1));
        rig
    };
    grows_little("kept files", 1000, make, |rig, file| rig.keep(file + 1));
}

/// This node's own front end is told the attributes of a file that is managed here, and keeps them.
fn keep_here(rig: &mut Rig, file: u64) -> Outbox {
    let ask = Request::Leave(vec![FileId(file)]);
    let out = rig.give(Input::Request(Ticket(2 * file), ask));
    let number = out.iter().find_map(|effect| match effect {
        Effect::Reply {
            reply: Reply::Leaves(leaves),
            ..
        } => match leaves[..] {
            [Leave::Read { number, .. }] => Some(number),
            _ => None,
        },
        _ => None,
    });
    let told = Learned {
        file: FileId(file),
        number: number.expect("nobody else reads it"),
        attributes: Some(Attributes {
            links: 1,
            ..Attributes::default()
        }),
    };
    let told = Request::Learned(vec![told]);
    let mut all = out;
    all.extend(rig.give(Input::Request(Ticket(2 * file + 1), told)));
    all
}

#[test]
fn one_file_beyond_the_bound_calls_one_back() {
    const BOUND: u64 = 1000;
    let mut rig = Rig::of(Config {
        idle_files_max: BOUND as usize,
        frames: 8,
        ..Config::new(NodeId(0), 1)
    });
    let mut called_back = 0;
    // The front end takes its time: no revocation is answered.
    for file in 1..=BOUND + 20 {
        let out = keep_here(&mut rig, file);
        let revoked = |effect: &&Effect| matches!(effect, Effect::Revoke { .. });
        called_back += out.iter().filter(revoked).count();
    }
    assert_eq!(called_back, 20);
}

#[test]
fn files_that_are_used_beyond_the_bound() {
    let make = |count: u64| {
        let mut rig = Rig::new(count as usize / 2);
        // They are managed by others, who are asked and do not answer: none can be forgotten.
        (0..count).for_each(|file| {
            let (file, ask) = (FileId(file + 1), true);
            rig.give(Input::Request(Ticket(file.0), Request::Size { file, ask }));
        });
        rig
    };
    grows_little("used files", 1000, make, |rig, file| rig.ask_size(file + 1));
}

#[test]
fn questions_that_wait_for_a_reader() {
    let make = |count: u64| {
        let mut rig = Rig::new(1 << 20);
        for file in 1..=count {
            rig.ask_leave(ASKER, file);
            rig.ask_leave(OTHER, file);
        }
        rig
    };
    grows_little("questions that wait", 1000, make, |rig, file| {
        let (number, _) = rig.ask_leave(ASKER, file + 1);
        rig.learned(file + 1, number);
    });
}

/// A directory of one name is told, again and again others.
fn list(rig: &mut Rig, dir: u64) {
    let mut number = None;
    for from in [ASKER, OTHER, ASKER] {
        let (seq, out) = rig.hear(from, FileId(dir), Body::AskNames(Vec::new()));
        let reads = |effect: &Effect| {
            matches!(effect, Effect::Send { envelope, .. }
                if matches!(envelope.body, Body::Names { leave: Leave::Read { .. }, .. }))
        };
        if out.iter().any(reads) {
            number = Some((from, seq));
        }
    }
    let (from, number) = number.expect("names are worth being read");
    let name = Named {
        name: b"a".to_vec(),
        file: FileId(1 << 40),
        manager: None,
    };
    let listed = Listed {
        number,
        first: 0,
        names: Some(vec![name]),
        more: false,
    };
    rig.hear(from, FileId(dir), Body::Listed(listed));
    assert_eq!(from, ASKER);
    rig.learned(dir, number);
}

#[test]
fn directories_whose_names_are_known() {
    let make = |count: u64| {
        let mut rig = Rig::new(1 << 20);
        (0..count).for_each(|dir| list(&mut rig, dir + 1));
        rig
    };
    grows_little("directories", 500, make, |rig, dir| list(rig, dir + 1));
}

#[test]
fn leave_that_is_sought_while_other_is_called_back() {
    let make = |count: u64| {
        let mut rig = Rig::new(1 << 20);
        for file in 1..=count {
            rig.give(Input::Request(
                Ticket(file),
                Request::Leave(vec![FileId(file)]),
            ));
        }
        rig
    };
    grows_little("leave that is sought", 1000, make, |rig, file| {
        rig.hear(OTHER, FileId((1 << 40) + file), Body::Recall);
    });
}

#[test]
fn files_of_which_bytes_are_kept_for_their_homes() {
    let make = |count: u64| {
        let mut rig = Rig::of(Config {
            policy: Policy::Local,
            replicas: Replicas::Sync(1),
            ..Config::new(NodeId(0), 3)
        });
        for file in 1..=count {
            rig.hear(ASKER, FileId(file), Body::Mark);
        }
        rig
    };
    grows_little("kept for homes", 1000, make, |rig, file| {
        rig.ask_size(file % 8 + 1);
    });
}

/// A directory of so many names, which this node has read and manages.
fn read(count: u64) -> (Rig, FileId) {
    let mut rig = Rig::of(Config::new(NodeId(0), 1));
    let dir = FileId(7);
    let ask = |rig: &mut Rig, ticket: u64| {
        let out = rig.give(Input::Request(Ticket(ticket), Request::Names(dir)));
        out.into_iter().find_map(|effect| match effect {
            Effect::Reply {
                reply:
                    Reply::Names {
                        leave: Leave::Read { number, .. },
                        ..
                    },
                ..
            } => Some(number),
            _ => None,
        })
    };
    let number = (1..4).find_map(|ticket| ask(&mut rig, ticket));
    let number = number.expect("names are worth being read");
    let name = |place: u64| {
        (
            format!("file-{place:08}").into_bytes(),
            FileId(1000 + place),
        )
    };
    for first in (0..count).step_by(1000) {
        rig.give(Input::Request(
            Ticket(10 + first),
            Request::Listed {
                dir,
                number,
                first: first as u32,
                names: Some((first..count.min(first + 1000)).map(name).collect()),
                more: first + 1000 < count,
            },
        ));
    }
    let attributes = Some(Attributes {
        links: 2,
        ..Attributes::default()
    });
    let told = Learned {
        file: dir,
        number,
        attributes,
    };
    rig.give(Input::Request(Ticket(5), Request::Learned(vec![told])));
    (rig, dir)
}

#[test]
fn names_of_a_directory_that_is_managed_here() {
    let make = |count: u64| read(count).0;
    grows_little("names", 4000, make, |rig, ticket| {
        let ask = Request::Names(FileId(7));
        rig.give(Input::Request(Ticket((1 << 32) + ticket), ask));
    });
}

#[test]
fn names_of_a_directory_that_is_managed_here_are_told_in_parts() {
    let (mut rig, dir) = read(10_000);
    let mut out = rig.give(Input::Request(Ticket(1 << 32), Request::Names(dir)));
    let mut steps = 1;
    while !out
        .iter()
        .any(|effect| matches!(effect, Effect::Reply { .. }))
    {
        assert!(
            rig.node
                .deadline()
                .is_some_and(|due| due <= Time(1_000_000_000))
        );
        out = rig.give(Input::Tick);
        steps += 1;
    }
    let all = out.into_iter().find_map(|effect| match effect {
        Effect::Reply {
            reply: Reply::Names { names, .. },
            ..
        } => names,
        _ => None,
    });
    let all = all.expect("names are known");
    assert_eq!((all.len(), all[9999].1), (10_000, FileId(10_999)));
    assert!(steps > 5, "{steps} steps");
}
