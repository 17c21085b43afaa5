//! How long steps of the kernel take. While one lasts, nobody else of this agent is served.

use hearth_proto::{Input, Request, Span, Time};

/// A step that lasts longer is told of.
const LONG: u64 = 1_000_000_000;

/// It is told of no more often than this, and for so long.
pub(crate) const TOLD_FOR: Span = Span::secs(60);

/// The longest step so far, and when a person was last told of a long one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    longest: u64,
    kind: &'static str,
    told: Option<Time>,
}

impl Steps {
    /// Notes a step that has taken from one time to another; what a person should know of it.
    pub(crate) fn note(&mut self, kind: &'static str, from: Time, to: Time) -> Option<String> {
        let took = to.0.saturating_sub(from.0);
        if took > self.longest {
            self.longest = took;
            self.kind = kind;
        }
        let again = self.told.is_none_or(|told| to - told >= TOLD_FOR);
        if took < LONG || !again {
            return None;
        }
        self.told = Some(to);
        let (millis, longest) = (took / 1_000_000, self.longest / 1_000_000);
        Some(format!(
            "this agent was busy: {kind} held it for {millis} ms, and nobody else was served; the longest so far: {} for {longest} ms",
            self.kind
        ))
    }

    /// The longest step so far in microseconds, and what began it.
    pub(crate) fn longest(&self) -> (u64, &'static str) {
        (self.longest / 1000, self.kind)
    }
}

/// The name of an input.
pub(crate) fn kind_of(input: &Input) -> &'static str {
    match input {
        Input::Request(_, request) => match request {
            Request::Open(_) => "an open",
            Request::Close(_) => "a close",
            Request::Read { .. } => "a read",
            Request::Write { .. } | Request::Finish { .. } => "a write",
            Request::Flush(_) => "a flush",
            Request::Sync(_) => "a sync",
            Request::Truncate { .. } => "a truncation",
            Request::FlushAll => "a flush of all files",
            _ => "a question about a file",
        },
        Input::Message { envelope, .. } => envelope.body.kind(),
        Input::StoreDone(..) => "an answer of the store",
        Input::BankDone(..) | Input::BankUp(_) | Input::BankDown(_) => "news of a daemon",
        Input::Revoked(_) => "a revocation",
        Input::PeerUp(_) => "a new connection",
        Input::PeerDown(_) => "the end of a connection",
        Input::Locals(_) => "writes that programs left",
        Input::Wanted(_) => "a question whether an agent lives",
        Input::View { .. } | Input::Hush | Input::Settle | Input::Recovered => "another view",
        Input::Directed(_) => "the end of a call",
        Input::Shed => "want of memory",
        Input::Tick => "the timer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_long_step_is_told_of_once_a_minute() {
        let mut steps = Steps::default();
        assert_eq!(steps.note("a read", Time(0), Time(LONG - 1)), None);
        let told = steps.note("a flush", Time(0), Time(SECOND));
        assert!(told.is_some_and(|text| text.contains("a flush held it for 1000 ms")));
        assert_eq!(steps.note("a sync", Time(SECOND), Time(3 * SECOND)), None);
        let later = 90 * SECOND;
        let told = steps.note("a read", Time(later), Time(later + LONG));
        assert!(told.is_some_and(|text| text.contains("a sync for 2000 ms")));
        assert_eq!(steps.longest(), (2_000_000, "a sync"));
    }
}
