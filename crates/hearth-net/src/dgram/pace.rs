//! How much may be under way, and how fast: the only part in which `udp` and `udt` differ.
//!
//! - `udp` holds a *window*: it doubles in a round trip until something is lost, then grows by one
//!   packet a round trip, and halves when packets are lost. The window's packets are spread over
//!   the round trip.
//! - `udt` holds a *rate*, as UDT does (Gu and Grossman, Computer Networks 51(7), 2007): a window
//!   grows until the first loss; from then on the time between two packets shrinks every 10 ms by a
//!   step that depends on how far the rate is from the capacity, and grows by an eighth when
//!   packets are lost, at most once in 10 ms. The capacity is the highest rate at which packets have
//!   arrived; UDT itself measures it with pairs of packets, which a batch of segments would make look
//!   infinite. Loss alone never takes the rate below an eighth of the capacity: a network that loses
//!   packets without being full would starve it otherwise. Only silence over
//!   several timeouts does, by halving the capacity.

use std::time::{Duration, Instant};

/// Which service a datagram transport gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
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
/// A tail that is lost makes one timeout; so many in a row are silence.
const SILENT_TIMEOUTS: u32 = 3;
/// UDT's constant of the increase.
const BETA: f64 = 1.5e-6;
/// Seconds between two packets at the slowest.
const PERIOD_MAX: f64 = 0.1;
/// Packets that may leave at once: one batch of segments, and what a late timer has missed.
const BURST_MIN: f64 = 64.0;
const BURST_SPAN: f64 = 0.002;

/// The state of one direction of a connection.
pub(crate) struct Pace {
    control: Control,
    /// Bits of one packet.
    packet_bits: f64,
    /// Packets that may leave now.
    tokens: f64,
    filled: Instant,
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
    /// Grows until the first loss; then follows the rate.
    window: f64,
    /// Seconds between two packets; `None` until the first loss.
    period: Option<f64>,
    capacity: f64,
    answered: u64,
    stepped: Instant,
    slowed: Instant,
    lost_since: bool,
}

impl Pace {
    pub(crate) fn new(service: Service, packet_len: usize, now: Instant) -> Pace {
        let control = match service {
            Service::Udp => Control::Window(Window {
                packets: WINDOW_FIRST,
                threshold: f64::MAX,
                answered: 0,
            }),
            Service::Udt => Control::Rate(Rate {
                window: WINDOW_FIRST,
                period: None,
                capacity: 0.0,
                answered: 0,
                stepped: now,
                slowed: now,
                lost_since: false,
            }),
        };
        Pace {
            control,
            packet_bits: packet_len as f64 * 8.0,
            tokens: BURST_MIN,
            filled: now,
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
        match &mut self.control {
            Control::Window(window) => window.on_ack(acked as f64),
            Control::Rate(rate) => {
                rate.on_ack(
                    now,
                    acked as f64,
                    f64::from(arriving),
                    rtt,
                    self.packet_bits,
                );
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
            Control::Rate(rate) => rate.on_loss(now, packet, next, rtt),
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
    fn on_ack(&mut self, acked: f64) {
        self.packets += if self.packets < self.threshold {
            acked
        } else {
            acked / self.packets
        };
        self.packets = self.packets.min(WINDOW_MAX as f64);
    }
}

impl Rate {
    fn on_ack(&mut self, now: Instant, acked: f64, arriving: f64, rtt: Duration, bits: f64) {
        self.capacity = self.capacity.max(arriving);
        let Some(period) = self.period else {
            self.window = (self.window + acked).min(WINDOW_MAX as f64);
            return;
        };
        if now.saturating_duration_since(self.stepped) >= SYN {
            self.stepped = now;
            if !std::mem::take(&mut self.lost_since) {
                let step = increase(self.capacity, 1.0 / period, bits);
                let syn = SYN.as_secs_f64();
                self.set_period(period * syn / (period * step + syn), rtt);
            }
        }
    }

    fn on_loss(&mut self, now: Instant, packet: u64, next: u64, rtt: Duration) {
        self.lost_since = true;
        let soon = now.saturating_duration_since(self.slowed) < SYN;
        if packet < self.answered || self.period.is_some() && soon {
            return;
        }
        self.answered = next;
        self.slowed = now;
        let span = rtt + SYN;
        let first = if self.capacity > 0.0 {
            1.0 / self.capacity
        } else {
            span.as_secs_f64() / self.window
        };
        let slower = self.period.map_or(first, |period| period * 1.125);
        self.set_period(slower, rtt);
    }

    fn on_timeout(&mut self, timeouts: u32, rtt: Duration) {
        if timeouts >= SILENT_TIMEOUTS {
            self.capacity /= 2.0;
        }
        match self.period {
            Some(period) => self.set_period(period * 2.0, rtt),
            None => self.window = WINDOW_MIN,
        }
    }

    fn set_period(&mut self, period: f64, rtt: Duration) {
        let slowest = 1.0 / (self.capacity * FLOOR).max(1.0 / PERIOD_MAX);
        self.period = Some(period.min(slowest));
        self.follow(rtt);
    }

    /// The window holds what the rate sends until its acknowledgement can be here.
    fn follow(&mut self, rtt: Duration) {
        let Some(period) = self.period else { return };
        let span = (rtt + SYN).as_secs_f64();
        self.window = (span / period + 16.0).min(WINDOW_MAX as f64);
    }
}

/// Packets by which `rate` grows in one SYN: more the further it is from `capacity`, in steps of ten.
fn increase(capacity: f64, rate: f64, bits: f64) -> f64 {
    let least = 1.0 / (bits / 8.0);
    let room = (capacity - rate) * bits;
    if room <= 1.0 {
        return least;
    }
    let step = 10f64.powf(room.log10().ceil()) * BETA / (bits / 8.0);
    step.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(1);

    #[test]
    fn a_window_doubles_halves_once_for_a_burst_and_then_grows_by_one_a_round_trip() {
        let now = Instant::now();
        let mut pace = Pace::new(Service::Udp, 1400, now);
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
        let now = Instant::now();
        let mut pace = Pace::new(Service::Udt, 1400, now);
        pace.on_ack(now, 10, 9000, RTT);
        pace.on_loss(now, 5, 50, RTT);
        assert!((pace.rate(RTT) - 9000.0).abs() < 1.0);
        pace.on_loss(now, 60, 90, RTT);
        assert!((pace.rate(RTT) - 9000.0).abs() < 1.0, "once in a SYN");
        pace.on_loss(now + SYN, 60, 90, RTT);
        assert!((pace.rate(RTT) - 8000.0).abs() < 1.0);
        for syn in 2..400 {
            pace.on_ack(now + SYN * syn, 80, 8000, RTT);
        }
        assert!(pace.rate(RTT) > 8500.0, "{}", pace.rate(RTT));
        for syn in 400..1000 {
            pace.on_loss(now + SYN * syn, 100 * u64::from(syn), 0, RTT);
        }
        assert!((pace.rate(RTT) - 9000.0 * FLOOR).abs() < 1.0);
    }

    #[test]
    fn permissions_are_earned_at_the_rate_and_do_not_pile_up() {
        let now = Instant::now();
        let mut pace = Pace::new(Service::Udp, 1400, now);
        let take = |pace: &mut Pace, at| (0..10_000).take_while(|_| pace.take(at, RTT)).count();
        assert_eq!(take(&mut pace, now), BURST_MIN as usize);
        assert!(pace.next(RTT) > now);
        let later = take(&mut pace, now + RTT / 2);
        assert!((39..=41).contains(&later), "{later} of 64 * 1.25 / 2");
        let much_later = take(&mut pace, now + RTT * 1000);
        assert!(much_later <= 200, "{much_later}");
    }
}
