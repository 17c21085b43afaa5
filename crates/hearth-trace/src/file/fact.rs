//! Facts: what a trace knows beside its records. A frame of facts is a row of them.
//!
//! Each is a tag, a length and its fields, so that a reader passes over facts of a later version.
//! Numbers of processes, threads and files are those of the session. A fact about something that was
//! said before replaces what was said.

use super::fields::{Field, Malformed};

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident = $tag:literal {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)+
    })+) => {
        /// One fact.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fact<'a> {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: $type,)+ },)+
        }

        impl<'a> Fact<'a> {
            fn put_fields(&self, out: &mut Vec<u8>) -> u8 {
                match self {
                    $(Fact::$name { $($field,)+ } => {
                        $($field.put(out);)+
                        $tag
                    })+
                }
            }

            fn take_fields(tag: u8, input: &mut &'a [u8]) -> Result<Option<Fact<'a>>, Malformed> {
                match tag {
                    $($tag => Ok(Some(Fact::$name { $($field: Field::take(input)?,)+ })),)+
                    _ => Ok(None),
                }
            }
        }
    };
}

facts! {
    /// The machine of the session.
    Host = 1 {
        /// Its name.
        name: &'a [u8],
        /// Which boot of it; tells machines of one name apart.
        boot: u128,
    }
    /// A process.
    Process = 2 {
        /// Its number in the session.
        process: u32,
        /// Its number in the operating system.
        pid: u32,
        /// When it began, in clock ticks since boot, to tell it from others of that number.
        start_time: u64,
        /// How often it called exec before.
        image: u32,
        /// Code of the clock whose ticks its records hold.
        clock: u8,
        /// Ticks when tracing of it began.
        start: u64,
    }
    /// The program that a process runs.
    Exe = 3 {
        /// The process.
        process: u32,
        /// Its path.
        path: &'a [u8],
    }
    /// The arguments of a process, each ended by a zero byte.
    Args = 4 {
        /// The process.
        process: u32,
        /// The arguments.
        args: &'a [u8],
    }
    /// The rank of a process in its job.
    Rank = 5 {
        /// The process.
        process: u32,
        /// The rank.
        rank: u32,
    }
    /// A file that a process knows by a number.
    File = 6 {
        /// The process whose number it is.
        process: u32,
        /// The number in its records.
        file: u32,
        /// Its absolute path.
        path: &'a [u8],
        /// Type of the file system, or nothing.
        fs: &'a [u8],
    }
    /// How a file is spread over storage targets.
    Stripe = 7 {
        /// The process whose number the file has.
        process: u32,
        /// The number in its records.
        file: u32,
        /// Targets.
        count: u32,
        /// Bytes on one before the next.
        bytes: u64,
    }
    /// A thread.
    Stream = 8 {
        /// Its number in the session.
        stream: u32,
        /// The process of the thread.
        process: u32,
        /// Its place among the threads of its process,
        slot: u32,
        /// and how many had that place before.
        generation: u32,
        /// Its number in the operating system.
        tid: u32,
    }
    /// The account of a thread's records so far.
    Counts = 9 {
        /// The thread.
        stream: u32,
        /// Tried.
        attempted: u64,
        /// Lost, and counted by the thread.
        dropped: u64,
        /// Half written when the thread was killed.
        torn: u64,
    }
    /// Sum over the lost records of one kind of operation of a process so far.
    Lost = 10 {
        /// The process.
        process: u32,
        /// Code of the operation.
        op: u8,
        /// How many.
        count: u64,
        /// Bytes moved by them.
        bytes: u64,
        /// Ticks spent in them.
        ticks: u64,
    }
    /// Records that are missing between two others of a thread.
    Gap = 11 {
        /// The thread.
        stream: u32,
        /// Number of the first that is missing.
        first: u64,
        /// How many.
        count: u64,
        /// Ticks at the end of the record before.
        from: u64,
        /// Ticks at the start of the record after.
        to: u64,
    }
    /// A process ended, or tracing of it did.
    Ended = 12 {
        /// The process that ended.
        process: u32,
        /// Ticks by then.
        ticks: u64,
    }
    /// One moment as the clocks of the machine saw it.
    Clock = 13 {
        /// Code of the clock of the ticks.
        clock: u8,
        /// Ticks.
        ticks: u64,
        /// Nanoseconds of a clock that nobody sets or steers.
        raw: u64,
        /// Nanoseconds since the Unix epoch.
        real: u64,
        /// The readings lie within so many ticks.
        window: u64,
    }
    /// A question to the log server's clock.
    Ping = 14 {
        /// Which run of the server; each has a clock of its own.
        server: u64,
        /// When it was sent, by the machine's clock that nobody sets.
        sent: u64,
        /// When it came to the server, by the server's clock.
        received: u64,
        /// When the server answered, by the server's clock.
        answered: u64,
        /// When the answer came, by the machine's clock.
        returned: u64,
    }
    /// A sentence for people about what is missing or doubtful.
    Remark = 15 {
        /// The sentence.
        text: &'a [u8],
    }
    /// The cost of the log client itself so far.
    Cost = 16 {
        /// Nanoseconds of processor time.
        cpu: u64,
        /// Bytes of frames made.
        bytes: u64,
        /// Most records that waited in one ring.
        waiting_max: u64,
        /// Most bytes that waited for the server.
        unsent_max: u64,
    }
}

impl<'a> Fact<'a> {
    /// Appends the fact to a payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::with_capacity(64);
        let tag = self.put_fields(&mut fields);
        out.push(tag);
        fields.as_slice().put(out);
    }

    /// Takes the first fact off a payload: `None` is one of a later version.
    pub fn take(input: &mut &'a [u8]) -> Result<Option<Fact<'a>>, Malformed> {
        let tag = u8::take(input)?;
        let mut fields = <&[u8]>::take(input)?;
        // Fields that a later version has more stand behind those of this one.
        Fact::take_fields(tag, &mut fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_and_unknown_ones_are_passed_over() {
        let facts = [
            Fact::Host {
                name: b"n1",
                boot: u128::MAX / 3,
            },
            Fact::File {
                process: 1,
                file: 300,
                path: b"/a/b",
                fs: b"",
            },
            Fact::Ping {
                server: 9,
                sent: u64::MAX,
                received: 1,
                answered: 2,
                returned: 3,
            },
        ];
        let mut bytes = Vec::new();
        facts[0].put(&mut bytes);
        // A tag that nobody uses yet, and two bytes.
        bytes.extend_from_slice(&[100, 2, 3, 77]);
        facts[1].put(&mut bytes);
        facts[2].put(&mut bytes);
        let mut input = &bytes[..];
        assert_eq!(Fact::take(&mut input), Ok(Some(facts[0])));
        assert_eq!(Fact::take(&mut input), Ok(None));
        assert_eq!(Fact::take(&mut input), Ok(Some(facts[1])));
        assert_eq!(Fact::take(&mut input), Ok(Some(facts[2])));
        assert!(input.is_empty());
    }

    #[test]
    fn cut_facts_are_errors() {
        let mut bytes = Vec::new();
        Fact::Rank {
            process: 1000,
            rank: 70000,
        }
        .put(&mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(Fact::take(&mut &bytes[..len]), Err(Malformed));
        }
    }
}
