//! Facts that a person should know: each for as long as its cause lasts, and for an hour more as a past one.
//!
//! Lost bytes stay lost. They are told until the agent ends, and so is each file by itself.

use hearth_proto::{FileId, Span, Time};
use std::collections::VecDeque;

/// Alarms that are kept; the oldest go first.
const ALARMS_MAX: usize = 64;

/// A past alarm is told of for so long.
const PAST_SPAN: Span = Span::secs(3600);

/// The cause of an alarm. But for lost bytes, each has one alarm at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An agent is not connected any more.
    Gone(u32),
    /// An agent was started again, and is refused.
    Anew(u32),
    /// A daemon of the bank is not reached.
    Daemon(usize),
    /// The store refuses bytes of a file.
    Refused(FileId),
    /// This agent holds no lease.
    Lease,
    /// Too many agents are gone to go on without them.
    Majority,
    /// A step took long.
    Busy,
    /// Bytes that the store refused were given up with their file.
    Dropped,
    /// Bytes are lost.
    Loss,
}

impl Cause {
    /// True if each alarm is of something else.
    fn is_of_many(self) -> bool {
        matches!(self, Cause::Dropped | Cause::Loss)
    }
}

#[derive(Debug)]
struct Alarm {
    cause: Cause,
    text: String,
    over: Option<Time>,
}

impl Alarm {
    fn is_over(&self, now: Time) -> bool {
        self.over.is_some_and(|over| over <= now)
    }
}

/// The alarms of an agent, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Alarms(VecDeque<Alarm>);

impl Alarms {
    /// Notes one, in the place of the one that its cause had.
    pub(crate) fn raise(&mut self, cause: Cause, text: String) {
        self.note(cause, text, None);
    }

    /// Notes one that is over at a time that is known.
    pub(crate) fn raise_until(&mut self, cause: Cause, text: String, over: Time) {
        self.note(cause, text, Some(over));
    }

    fn note(&mut self, cause: Cause, text: String, over: Option<Time>) {
        let is_same = |alarm: &Alarm| alarm.cause == cause && alarm.text == text;
        if self
            .0
            .iter()
            .any(|alarm| is_same(alarm) && alarm.over.is_none())
        {
            return;
        }
        log::warn!("{text}");
        self.0
            .retain(|alarm| cause.is_of_many() || alarm.cause != cause);
        if self.0.len() == ALARMS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Alarm { cause, text, over });
    }

    /// Ends the alarm of a cause.
    pub(crate) fn end(&mut self, cause: Cause, now: Time) {
        let lasting = |alarm: &&mut Alarm| alarm.cause == cause && alarm.over.is_none();
        for alarm in self.0.iter_mut().filter(lasting) {
            alarm.over = Some(now);
        }
    }

    /// Those whose cause lasts.
    pub(crate) fn present(&self, now: Time) -> impl Iterator<Item = &str> {
        let present = self.0.iter().filter(move |alarm| !alarm.is_over(now));
        present.map(|alarm| alarm.text.as_str())
    }

    /// Those that are over, each with the time since then in seconds.
    pub(crate) fn past(&self, now: Time) -> impl Iterator<Item = (&str, u64)> {
        let over = move |alarm: &Alarm| alarm.over.filter(|&over| over <= now);
        let past = self.0.iter().filter_map(move |alarm| {
            let since = Span(now.0 - over(alarm)?.0);
            Some((alarm.text.as_str(), since))
        });
        let past = past.filter(|(_, since)| *since < PAST_SPAN);
        past.map(|(text, since)| (text, since.0 / Span::secs(1).0))
    }

    /// Those that tell of bytes which are lost.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &str> {
        let losses = self.0.iter().filter(|alarm| alarm.cause == Cause::Loss);
        losses.map(|alarm| alarm.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(Span::secs(seconds).0)
    }

    fn present(alarms: &Alarms, now: Time) -> Vec<&str> {
        alarms.present(now).collect()
    }

    #[test]
    fn an_alarm_ends_with_its_cause_and_is_past_for_an_hour() {
        let mut alarms = Alarms::default();
        alarms.raise(Cause::Gone(1), "agent 1 is gone".to_owned());
        alarms.raise(Cause::Gone(2), "agent 2 is gone".to_owned());
        alarms.end(Cause::Gone(1), at(10));
        assert_eq!(present(&alarms, at(11)), ["agent 2 is gone"]);
        let past: Vec<_> = alarms.past(at(15)).collect();
        assert_eq!(past, [("agent 1 is gone", 5)]);
        assert_eq!(alarms.past(at(4000)).count(), 0);
        alarms.raise(Cause::Gone(1), "agent 1 is gone again".to_owned());
        assert_eq!(alarms.past(at(15)).count(), 0, "one for each cause");
    }

    #[test]
    fn a_long_step_is_past_a_minute_later() {
        let mut alarms = Alarms::default();
        alarms.raise_until(Cause::Busy, "busy".to_owned(), at(60));
        assert_eq!(present(&alarms, at(59)), ["busy"]);
        assert_eq!(present(&alarms, at(60)), [""; 0]);
        assert_eq!(alarms.past(at(60)).count(), 1);
    }

    #[test]
    fn losses_stay() {
        let mut alarms = Alarms::default();
        for file in ["a", "b"] {
            alarms.raise(Cause::Loss, file.to_owned());
        }
        alarms.end(Cause::Gone(1), at(1));
        assert_eq!(present(&alarms, at(9)), ["a", "b"]);
        assert!(alarms.losses().eq(["a", "b"]));
    }
}
