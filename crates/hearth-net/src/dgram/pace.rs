//! How much may be under way, and how fast: the only part in which `udp` and `udt` differ.
//!
//! - `udp` holds a *window*: it doubles in a round trip until packets are lost or queue on the way. Then it grows
//!   by one packet a round trip, and halves when packets are lost. The window's packets are spread over the round
//!   trip.
//! - `udt` holds a *rate*, after UDT (Gu and Grossman, Computer Networks 51(7), 2007). A window grows until
//!   packets are lost or queue. From then on the rate is set anew every 10 ms. It falls by an eighth when more
//!   than one packet in fifty was lost. Else it rises towards the capacity, the highest rate at which packets
//!   have arrived.
//!
//! UDT itself answers every loss, and rises by steps that suit wide areas. On a link that loses one packet in a
//! hundred for reasons of its own it starves. From half of a fast link it takes seconds to the whole. It measures
//! the capacity with pairs of packets, which a batch of segments would make look infinite.

use std::time::{Duration, Instant};

/// Which service a datagram transport gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramService {
    /// Packets under a window that loss halves.
    Udp,
    /// Packets at a rate that loss lowers by an eighth, after UDT.
    Udt,
}

/// Packets under way at the start, and never fewer than the second.
const WINDOW_FIRST: f64 = 64.0;
const WINDOW_MIN: f64 = 4.0;
/// No more packets than these are under way: what a receiver must be ready to remember.
pub(crate) const WINDOW_MAX: usize = 8192;
/// The rhythm of UDT's rate control.
const SYN: Duration = Duration::from_millis(10);
/// Loss does not take the rate below this part of the capacity.
const FLOOR: f64 = 1.0 / 8.0;
/// Of the packets of one SYN, more are lost only when the network is full.
const NOISE: f64 = 0.02;
/// The part of the way to the capacity that the rate rises in one SYN.
const CLIMB: f64 = 1.0 / 16.0;
/// Above the capacity the rate still rises by this part of it: the capacity may have grown.
const PROBE: f64 = 1.0 / 256.0;
/// A tail that is lost makes one timeout; so many in a row are silence.
const SILENT_TIMEOUTS: u32 = 3;
/// Packets queue on the way when a round trip takes this much longer than the shortest.
const QUEUED: Duration = Duration::from_millis(2);
/// Seconds between two packets at the slowest.
const PERIOD_MAX: f64 = 0.1;
/// Packets that may leave at once: one batch of segments, and what a late timer has missed.
const BURST_MIN: f64 = 64.0;
const BURST_SPAN: f64 = 0.002;

/// The state of one direction of a connection.
pub(crate) struct Pace {
    control: Control,
    /// Packets that may leave now.
    tokens: f64,
    filled: Instant,
    shortest: Duration,
}

enum Control {
    Window(Window),
    Rate(Rate),
}

struct Window {
    packets: f64,
    threshold: f64,
    /// A loss of packets under this one has been answered already.
    answered: u64,
}

struct Rate {
    /// Grows until packets are lost or queue; then follows the rate.
    window: f64,
    /// Seconds between two packets; `None` while the window grows.
    period: Option<f64>,
    capacity: f64,
    /// When the rate was last set, and what has become of packets since.
    set_at: Instant,
    acked: f64,
    lost: f64,
}

impl Pace {
    pub(crate) fn new(service: DatagramService, now: Instant) -> Pace {
        let control = match service {
            DatagramService::Udp => Control::Window(Window {
                packets: WINDOW_FIRST,
                threshold: f64::MAX,
                answered: 0,
            }),
            DatagramService::Udt => Control::Rate(Rate {
                window: WINDOW_FIRST,
                period: None,
                capacity: 0.0,
                set_at: now,
                acked: 0.0,
                lost: 0.0,
            }),
        };
        Pace {
            control,
            tokens: BURST_MIN,
            filled: now,
            shortest: Duration::MAX,
        }
    }

    /// Packets that may be under way.
    pub(crate) fn window(&self) -> usize {
        let window = match &self.control {
            Control::Window(window) => window.packets,
            Control::Rate(rate) => rate.window,
        };
        (window as usize).min(WINDOW_MAX)
    }

    /// Takes the permission to send one packet now, if there is one.
    pub(crate) fn take(&mut self, now: Instant, rtt: Duration) -> bool {
        let rate = self.rate(rtt);
        let burst = BURST_MIN.max(rate * BURST_SPAN);
        let earned = rate * now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + earned).min(burst);
        self.filled = now;
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }

    /// When the next permissions will be there.
    pub(crate) fn next(&self, rtt: Duration) -> Instant {
        let missing = (BURST_MIN / 4.0 - self.tokens).max(0.0);
        self.filled + Duration::from_secs_f64((missing / self.rate(rtt)).min(1.0))
    }

    /// Packets a second.
    fn rate(&self, rtt: Duration) -> f64 {
        let spread = |window: f64| 1.25 * window / rtt.as_secs_f64().max(1e-5);
        match &self.control {
            Control::Window(window) => spread(window.packets),
            Control::Rate(rate) => rate
                .period
                .map_or(spread(rate.window), |period| 1.0 / period),
        }
    }

    /// `acked` more packets have arrived; `arriving` a second, 0 when the receiver does not know.
    pub(crate) fn on_ack(&mut self, now: Instant, acked: usize, arriving: u32, rtt: Duration) {
        self.shortest = self.shortest.min(rtt);
        let queued = rtt > self.shortest * 2 + QUEUED;
        match &mut self.control {
            Control::Window(window) => window.on_ack(acked as f64, queued),
            Control::Rate(rate) => {
                rate.capacity = rate.capacity.max(f64::from(arriving));
                rate.on_ack(now, acked as f64, queued, rtt);
            }
        }
    }

    /// `packet` is lost; `next` is the number of the next new one.
    pub(crate) fn on_loss(&mut self, now: Instant, packet: u64, next: u64, rtt: Duration) {
        match &mut self.control {
            Control::Window(window) => {
                if packet >= window.answered {
                    window.answered = next;
                    window.threshold = (window.packets / 2.0).max(WINDOW_MIN);
                    window.packets = window.threshold;
                }
            }
            Control::Rate(rate) => rate.on_loss(now, rtt),
        }
    }

    /// Nothing has been heard for a whole timeout; it is the `timeouts`-th in a row.
    pub(crate) fn on_timeout(&mut self, timeouts: u32, rtt: Duration) {
        match &mut self.control {
            Control::Window(window) => {
                window.threshold = (window.packets / 2.0).max(WINDOW_MIN);
                window.packets = WINDOW_MIN;
            }
            Control::Rate(rate) => rate.on_timeout(timeouts, rtt),
        }
    }
}

impl Window {
    fn on_ack(&mut self, acked: f64, queued: bool) {
        if queued {
            self.threshold = self.threshold.min(self.packets);
        }
        self.packets += if self.packets < self.threshold {
            acked
        } else {
            acked / self.packets
        };
        self.packets = self.packets.min(WINDOW_MAX as f64);
    }
}

impl Rate {
    fn on_ack(&mut self, now: Instant, acked: f64, queued: bool, rtt: Duration) {
        self.acked += acked;
        match self.period {
            None if queued => self.begin(now, rtt),
            None => self.window = (self.window + acked).min(WINDOW_MAX as f64),
            Some(_) => self.set_anew(now, rtt),
        }
    }

    fn on_loss(&mut self, now: Instant, rtt: Duration) {
        self.lost += 1.0;
        match self.period {
            None => self.begin(now, rtt),
            Some(_) => self.set_anew(now, rtt),
        }
    }

    /// From now on the rate counts, and it is the one at which packets arrive.
    fn begin(&mut self, now: Instant, rtt: Duration) {
        let guess = self.window / (rtt + SYN).as_secs_f64();
        let rate = if self.capacity > 0.0 {
            self.capacity
        } else {
            guess
        };
        self.start_syn(now);
        self.set_rate(rate, rtt);
    }

    /// Sets the rate by what has become of packets, once in a SYN.
    fn set_anew(&mut self, now: Instant, rtt: Duration) {
        let Some(period) = self.period else { return };
        if now.saturating_duration_since(self.set_at) < SYN {
            return;
        }
        let rate = 1.0 / period;
        let lost = self.lost / (self.lost + self.acked).max(1.0);
        self.start_syn(now);
        if lost > NOISE {
            self.set_rate(rate / 1.125, rtt);
        } else {
            let room = (self.capacity - rate).max(0.0);
            self.set_rate(rate + room * CLIMB + self.capacity * PROBE, rtt);
        }
    }

    fn start_syn(&mut self, now: Instant) {
        self.set_at = now;
        self.acked = 0.0;
        self.lost = 0.0;
    }

    fn on_timeout(&mut self, timeouts: u32, rtt: Duration) {
        if timeouts >= SILENT_TIMEOUTS {
            self.capacity /= 2.0;
        }
        match self.period {
            Some(period) => self.set_rate(0.5 / period, rtt),
            None => self.window = WINDOW_MIN,
        }
    }

    fn set_rate(&mut self, rate: f64, rtt: Duration) {
        let slowest = (self.capacity * FLOOR).max(1.0 / PERIOD_MAX);
        self.period = Some(1.0 / rate.max(slowest));
        self.follow(rtt);
    }

    /// The window holds what the rate sends until its acknowledgement can be here.
    fn follow(&mut self, rtt: Duration) {
        let Some(period) = self.period else { return };
        let span = (rtt + SYN).as_secs_f64();
        self.window = (span / period + 16.0).min(WINDOW_MAX as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(1);

    #[test]
    fn a_window_doubles_halves_once_for_a_burst_and_then_grows_by_one_a_round_trip() {
        let now = Instant::now();
        let mut pace = Pace::new(DatagramService::Udp, now);
        let first = pace.window();
        pace.on_ack(now, first, 0, RTT);
        assert_eq!(pace.window(), 2 * first);
        for packet in 10..20 {
            pace.on_loss(now, packet, 100, RTT);
        }
        assert_eq!(pace.window(), first, "one burst is one loss");
        pace.on_ack(now, first, 0, RTT);
        assert_eq!(pace.window(), first + 1);
        pace.on_timeout(1, RTT);
        assert_eq!(pace.window(), WINDOW_MIN as usize);
    }

    #[test]
    fn a_rate_begins_at_what_arrived_falls_by_an_eighth_and_recovers() {
        let start = Instant::now();
        let at = |syn: u32| start + SYN * syn;
        let mut pace = Pace::new(DatagramService::Udt, start);
        let near = |pace: &Pace, rate: f64| (pace.rate(RTT) / rate - 1.0).abs() < 0.01;
        pace.on_ack(start, 10, 9000, RTT);
        pace.on_loss(start, 5, 50, RTT);
        assert!(near(&pace, 9000.0));
        pace.on_loss(at(0), 60, 90, RTT);
        assert!(near(&pace, 9000.0), "once in a SYN");
        pace.on_loss(at(1), 60, 90, RTT);
        assert!(near(&pace, 8000.0));
        for syn in 2..100 {
            pace.on_ack(at(syn), 80, 8000, RTT);
        }
        assert!(pace.rate(RTT) > 9000.0, "{}", pace.rate(RTT));
        // One in a hundred is noise; one in ten is not.
        for syn in 100..200 {
            pace.on_loss(at(syn) - SYN / 2, 0, 0, RTT);
            pace.on_ack(at(syn), 99, 8000, RTT);
        }
        assert!(pace.rate(RTT) > 9000.0, "{}", pace.rate(RTT));
        for syn in 200..300 {
            pace.on_loss(at(syn) - SYN / 2, 0, 0, RTT);
            pace.on_ack(at(syn), 9, 8000, RTT);
        }
        assert!(near(&pace, 9000.0 * FLOOR), "{}", pace.rate(RTT));
    }

    #[test]
    fn a_queue_on_the_way_ends_the_growth() {
        let now = Instant::now();
        for service in [DatagramService::Udp, DatagramService::Udt] {
            let mut pace = Pace::new(service, now);
            pace.on_ack(now, 64, 5000, RTT);
            let grown = pace.window();
            pace.on_ack(now, 64, 5000, RTT * 10);
            assert!(pace.window() <= grown + 16, "{service:?}");
        }
    }

    #[test]
    fn permissions_are_earned_at_the_rate_and_do_not_pile_up() {
        let now = Instant::now();
        let mut pace = Pace::new(DatagramService::Udp, now);
        let take = |pace: &mut Pace, at| (0..10_000).take_while(|_| pace.take(at, RTT)).count();
        assert_eq!(take(&mut pace, now), BURST_MIN as usize);
        assert!(pace.next(RTT) > now);
        let later = take(&mut pace, now + RTT / 2);
        assert!((39..=41).contains(&later), "{later} of 64 * 1.25 / 2");
        let much_later = take(&mut pace, now + RTT * 1000);
        assert!(much_later <= 200, "{much_later}");
    }
}
