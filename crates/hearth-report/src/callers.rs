//! Which call of a program each request to an agent was made for.
//!
//! An agent records the thread that asked. A thread does one call at a time, and program and agent of
//! one host have one clock: the call is the one of that thread that was going on. Calls and requests
//! come in any order, so they are kept until the end of the trace; of a long trace only those in some
//! slices of time are.

use hearth_trace::{Event, Layer, StreamId, Tables};

use crate::mix::mix;

/// Calls and requests that are kept at most.
const KEPT_MAX: usize = 1 << 18;
/// Nanoseconds of a slice, as a power of two.
const SLICE_BITS: u32 = 24;
const HASH_BITS: u32 = 32;

/// Something that a thread of a host did or had done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    host: u32,
    tid: u32,
    start: i64,
    end: i64,
    /// Number of the request; 0 for a call.
    request: u64,
}

/// The calls and requests that are kept.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    threshold: u64,
    /// Host and thread of each stream.
    threads: Vec<(u32, u32)>,
    calls: Vec<Span>,
    requests: Vec<Span>,
}

/// A request, and its share of the call that it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) request: u64,
    /// Nanoseconds of the call: those of the request, and a part of those that were in no request.
    pub(crate) took: u64,
}

impl Callers {
    pub(crate) fn new(tables: &Tables) -> Callers {
        let thread = |stream: usize| {
            let host = tables.process_of(StreamId(stream as u32)).host;
            (host.0, tables.streams[stream].tid)
        };
        Callers {
            threshold: 1 << HASH_BITS,
            threads: (0..tables.streams.len()).map(thread).collect(),
            calls: Vec::new(),
            requests: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, stream: StreamId, event: &Event) {
        let (host, own) = self.threads[stream.0 as usize];
        let is_call = event.layer == Layer::App;
        if !is_call && event.caller == 0 || !is_kept(event.start, self.threshold) {
            return;
        }
        let span = Span {
            host,
            tid: if is_call { own } else { event.caller },
            start: event.start,
            end: event.end(),
            request: if is_call { 0 } else { event.request },
        };
        match is_call {
            true => self.calls.push(span),
            false => self.requests.push(span),
        }
        while self.calls.len() + self.requests.len() > KEPT_MAX {
            self.threshold /= 2;
            let threshold = self.threshold;
            self.calls.retain(|span| is_kept(span.start, threshold));
            self.requests.retain(|span| is_kept(span.start, threshold));
        }
    }

    /// Hands out the share of each request whose call is known.
    pub(crate) fn join(mut self, mut take: impl FnMut(Share)) {
        self.calls.sort_unstable();
        self.requests.sort_unstable();
        let mut rest = self.requests.as_slice();
        for call in &self.calls {
            let before = (call.host, call.tid, call.start);
            let passed = rest.partition_point(|it| (it.host, it.tid, it.start) < before);
            rest = &rest[passed..];
            let begun = rest.iter().take_while(|it| {
                (it.host, it.tid) == (call.host, call.tid) && it.start <= call.end
            });
            // The call does not wait for work that goes on behind it, as reading ahead does.
            let made: Vec<&Span> = begun.filter(|it| it.end <= call.end).collect();
            let took = |span: &Span| span.end.saturating_sub(span.start).unsigned_abs();
            let within: u64 = made.iter().map(|it| took(it)).sum();
            let outside = took(call).saturating_sub(within) / made.len().max(1) as u64;
            for request in made {
                take(Share {
                    request: request.request,
                    took: took(request) + outside,
                });
            }
        }
    }
}

fn is_kept(start: i64, threshold: u64) -> bool {
    mix((start >> SLICE_BITS).cast_unsigned()) & ((1 << HASH_BITS) - 1) < threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(tid: u32, start: i64, end: i64, request: u64) -> Span {
        Span {
            host: 0,
            tid,
            start,
            end,
            request,
        }
    }

    #[test]
    fn a_request_is_of_the_call_of_its_thread_that_it_lies_in() {
        let callers = Callers {
            calls: vec![span(7, 0, 100, 0), span(7, 200, 300, 0), span(8, 0, 50, 0)],
            requests: vec![
                span(7, 210, 230, 1),
                span(7, 240, 250, 2),
                span(8, 10, 40, 3),
                // Read ahead: it goes on when the call is over.
                span(7, 290, 390, 4),
                // Between two calls, and of a thread that nobody recorded.
                span(7, 150, 160, 5),
                span(9, 10, 20, 6),
            ],
            ..Callers::default()
        };
        let mut shares = Vec::new();
        callers.join(|share| shares.push((share.request, share.took)));
        // Of the second call 70 of 100 were in neither of its two requests.
        assert_eq!(shares, [(1, 20 + 35), (2, 10 + 35), (3, 30 + 20)]);
    }

    #[test]
    fn of_a_long_trace_a_part_is_kept() {
        let mut callers = Callers {
            threshold: 1 << HASH_BITS,
            threads: vec![(0, 7)],
            ..Callers::default()
        };
        let mut event = Event {
            start: 0,
            took: 10,
            op: hearth_trace::Op::Pread,
            layer: Layer::App,
            flags: hearth_trace::Flags::default(),
            offset: 0,
            asked: 0,
            result: 0,
            file: None,
            request: 0,
            near: 0,
            peer: 0,
            depth: 0,
            caller: 0,
            seq: 1,
        };
        for turn in 0..2 * KEPT_MAX as i64 {
            event.start = turn << (SLICE_BITS - 4);
            callers.add(StreamId(0), &event);
        }
        let kept = callers.calls.len();
        assert!((KEPT_MAX / 8..=KEPT_MAX).contains(&kept), "{kept}");
    }
}
