//! How much may happen in a small world.

use hearth_proto::Policy;

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
    /// What is read first is kept by the operating system of the node.
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
            reads: 2,
            writes: 2,
            syncs: 0,
            flushes: 2,
            evictions: 1,
            crashes: 1,
            breaks: 0,
            cuts: 0,
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
            all.push(("a daemon is out of reach", Scope { cuts: 1, ..calm }));
        }
        all
    }

    /// Names and numbers, for people and programs.
    pub fn named(&self) -> [(&'static str, u64); 14] {
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
            ("faults", u64::from(self.crashes + self.breaks + self.cuts)),
            ("cuts", u64::from(self.cuts)),
            ("crashes", u64::from(self.crashes)),
            ("breaks", u64::from(self.breaks)),
            ("keep", u64::from(self.keep)),
        ]
    }
}
