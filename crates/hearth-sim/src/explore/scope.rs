//! How much may happen in a small world.

use hearth_proto::{Policy, Ranges};

/// Everything that bounds a small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Policy of the kernels.
    pub policy: Policy,
    /// Nodes; node 0 is the home of the pages, if a slot decides that.
    pub nodes: u32,
    /// The last so many nodes have a session.
    pub clients: u32,
    /// Pages of the one file.
    pub pages: u32,
    /// Bytes of a page; a write is one byte, a read one page.
    pub page_bytes: u32,
    /// Unless operations are done apart, each of them spans all pages, which have homes of their own.
    pub ranges: Ranges,
    /// Reads of all sessions together.
    pub reads: u32,
    /// Writes of all sessions together.
    pub writes: u32,
    /// Syncs of all sessions together.
    pub syncs: u32,
    /// Times that a node is told to bring its dirty bytes to the store.
    pub flushes: u32,
    /// Times that a node must drop a clean page.
    pub evictions: u32,
    /// Agents that die.
    pub crashes: u32,
    /// Connections that break, and come back.
    pub breaks: u32,
    /// Times that a node is cut off from the daemon of policy `bank`, and comes back.
    pub cuts: u32,
    /// Times that this daemon dies and starts anew with nothing.
    pub restarts: u32,
    /// The operating system of the node keeps what is read first.
    pub keep: bool,
    /// Sessions read only while nothing is under way: what they see then they see for ever.
    pub at_rest: bool,
    /// A guard that kernels are without.
    #[cfg(feature = "canary")]
    pub without: Option<hearth_proto::Guard>,
}

impl Scope {
    /// The scope in which a policy is shown to keep its promises.
    pub fn of(policy: Policy) -> Scope {
        Scope {
            policy,
            nodes: 3,
            clients: 2,
            pages: 1,
            page_bytes: 1,
            ranges: Ranges::Apart,
            reads: 2,
            writes: 2,
            syncs: 0,
            flushes: 2,
            evictions: 1,
            crashes: 1,
            breaks: 0,
            cuts: 0,
            restarts: 0,
            keep: false,
            at_rest: false,
            #[cfg(feature = "canary")]
            without: None,
        }
    }

    /// The scopes in which a policy is shown to keep its promises, each with its name.
    pub fn all_of(policy: Policy) -> Vec<(&'static str, Scope)> {
        let base = Scope::of(policy);
        let calm = Scope { crashes: 0, ..base };
        let broken = Scope { breaks: 1, ..calm };
        let kept = Scope {
            keep: true,
            syncs: 1,
            writes: 1,
            flushes: 1,
            ..calm
        };
        let halves = Scope {
            page_bytes: 2,
            ..calm
        };
        let mut all = vec![
            ("an agent dies", base),
            ("a connection breaks", broken),
            ("pages are kept, a sync", kept),
            ("half pages", halves),
        ];
        if policy.rules().bank.is_some() {
            // A daemon that starts anew has forgotten: that it may forget besides tells nothing more.
            let anew = Scope {
                restarts: 1,
                evictions: 0,
                ..calm
            };
            let gateway = Scope {
                nodes: 2,
                cuts: 1,
                ..calm
            };
            all.push(("a daemon is out of reach", Scope { cuts: 1, ..calm }));
            all.push(("a daemon starts anew", anew));
            all.push(("a client is the gateway", gateway));
        }
        all
    }

    /// The scopes in which operations over two homes are shown to be one, each with its name.
    pub fn all_over_homes(policy: Policy, ranges: Ranges) -> Vec<(&'static str, Scope)> {
        let calm = Scope {
            ranges,
            pages: 2,
            flushes: 0,
            evictions: 0,
            crashes: 0,
            ..Scope::of(policy)
        };
        let both = Scope {
            nodes: 2,
            reads: 1,
            writes: 2,
            ..calm
        };
        let one = Scope {
            reads: 1,
            writes: 1,
            ..calm
        };
        vec![
            ("two write, one reads", Scope { reads: 1, ..calm }),
            ("homes write and read", both),
            ("one writes, two read", Scope { writes: 1, ..calm }),
            ("an agent dies", Scope { crashes: 1, ..one }),
            (
                "a connection breaks",
                Scope {
                    nodes: 2,
                    breaks: 1,
                    ..one
                },
            ),
        ]
    }

    /// Bytes that an operation takes, which begins with some byte.
    pub(super) fn span(&self, first: u8) -> (u8, u8) {
        match self.ranges {
            Ranges::Apart => (first, 1),
            Ranges::SeqHome | Ranges::WoundWait => (0, (self.pages * self.page_bytes) as u8),
        }
    }

    /// Pages with which an operation may begin.
    pub(super) fn starts(&self) -> u8 {
        match self.ranges {
            Ranges::Apart => self.pages as u8,
            Ranges::SeqHome | Ranges::WoundWait => 1,
        }
    }

    /// Names and numbers, for people and programs.
    pub fn named(&self) -> [(&'static str, u64); 16] {
        [
            ("nodes", u64::from(self.nodes)),
            ("clients", u64::from(self.clients)),
            ("pages", u64::from(self.pages)),
            ("page_bytes", u64::from(self.page_bytes)),
            ("reads", u64::from(self.reads)),
            ("writes", u64::from(self.writes)),
            ("syncs", u64::from(self.syncs)),
            ("flushes", u64::from(self.flushes)),
            ("evictions", u64::from(self.evictions)),
            (
                "faults",
                u64::from(self.crashes + self.breaks + self.cuts + self.restarts),
            ),
            ("cuts", u64::from(self.cuts)),
            ("restarts", u64::from(self.restarts)),
            ("crashes", u64::from(self.crashes)),
            ("breaks", u64::from(self.breaks)),
            ("keep", u64::from(self.keep)),
            ("over_homes", u64::from(self.ranges != Ranges::Apart)),
        ]
    }
}
