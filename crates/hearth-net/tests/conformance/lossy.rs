//! Two members whose datagrams pass through somebody who loses, doubles and delays them.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hearth_net::{Handler, Transport};

use super::rig::{DatagramRig, PATIENCE, Rig};

/// A datagram that is held back leaves after this, if nothing overtakes it.
const HOLD: Duration = Duration::from_millis(20);
/// Not a packet: tells a relay's queue apart from what comes after.
const MARK: &[u8] = b"mark";
/// In a thousand datagrams.
const FAULTS_PER_MILLE: u32 = 20;

/// Members 0 and 1 of a [`DatagramRig`], apart by a relay in each direction.
pub(crate) struct LossyRig<const UDT: bool> {
    rig: DatagramRig<UDT>,
    /// The address that member 1 takes for member 0.
    near: SocketAddr,
    /// The address that member 0 takes for member 1.
    far: SocketAddr,
    faults: Arc<Faults>,
}

/// The faults that the relays make.
pub(crate) struct Faults {
    cut: AtomicBool,
    /// Marks that have come to a relay.
    marks: AtomicUsize,
    /// Datagrams in a thousand that are lost; as many are doubled, and as many overtaken.
    per_mille: u32,
}

impl Faults {
    /// From now on nothing passes, or everything again.
    pub(crate) fn cut(&self, apart: bool) {
        self.cut.store(apart, Ordering::Relaxed);
    }
}

impl<const UDT: bool> LossyRig<UDT> {
    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Comes back when all that member 0 has sent so far has met its fate.
    pub(crate) fn settle(&self) {
        let before = self.faults.marks.load(Ordering::Relaxed);
        let marker = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
        marker.send_to(MARK, self.far).expect("loopback takes it");
        let start = Instant::now();
        while self.faults.marks.load(Ordering::Relaxed) == before {
            assert!(start.elapsed() < PATIENCE, "the relay has ended");
            std::thread::yield_now();
        }
    }

    pub(crate) fn datagrams(&self) -> &DatagramRig<UDT> {
        &self.rig
    }

    /// The addresses that member 1 is told.
    pub(crate) fn members_of_1(&self) -> Vec<SocketAddr> {
        let mut members = self.rig.config(1, 1).members;
        members[0] = self.near;
        members
    }
}

impl<const UDT: bool> Rig for LossyRig<UDT> {
    fn new(members: u32) -> Self {
        assert_eq!(members, 2, "there is one relay");
        let rig = DatagramRig::<UDT>::new(2);
        let real = rig.config(0, 1).members;
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
        let (a, b) = (Arc::new(bind()), Arc::new(bind()));
        let addr = |socket: &UdpSocket| socket.local_addr().expect("it is bound");
        let (near, far) = (addr(&a), addr(&b));
        let faults = Arc::new(Faults {
            cut: AtomicBool::new(false),
            marks: AtomicUsize::new(0),
            per_mille: FAULTS_PER_MILLE,
        });
        let relay = |from: &Arc<UdpSocket>, to: &Arc<UdpSocket>, addr, seed| {
            let (from, to, faults) = (Arc::clone(from), Arc::clone(to), Arc::clone(&faults));
            // It ends with the process: the members outlive the rig.
            std::thread::spawn(move || pass_on(&from, &to, addr, &faults, seed));
        };
        relay(&a, &b, real[0], 1);
        relay(&b, &a, real[1], 2);
        LossyRig {
            rig,
            near,
            far,
            faults,
        }
    }

    fn start(&self, me: u32, incarnation: u64, handler: Arc<dyn Handler>) -> Arc<dyn Transport> {
        let mut config = self.rig.config(me, incarnation);
        if me == 1 {
            config.members = self.members_of_1();
        }
        self.rig.start_datagram(config, handler)
    }
}

/// Relays datagrams, with faults that depend on nothing but their number and `seed`.
fn pass_on(from: &UdpSocket, to: &UdpSocket, addr: SocketAddr, faults: &Faults, seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut bytes = vec![0; 64 << 10];
    let mut late: Option<Vec<u8>> = None;
    from.set_read_timeout(Some(HOLD)).expect("it is not zero");
    loop {
        let got = from.recv(&mut bytes);
        let Ok(len) = got else {
            // Nothing comes after it that could overtake it.
            if let Some(late) = late.take() {
                let _ = to.send_to(&late, addr);
            }
            continue;
        };
        if &bytes[..len] == MARK {
            faults.marks.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if faults.cut.load(Ordering::Relaxed) {
            continue;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let rate = u64::from(faults.per_mille);
        match state % 1000 / rate {
            0 => continue,
            1 => drop(to.send_to(&bytes[..len], addr)),
            2 if late.is_none() => {
                late = Some(bytes[..len].to_vec());
                continue;
            }
            _ => {}
        }
        let _ = to.send_to(&bytes[..len], addr);
        if let Some(late) = late.take() {
            let _ = to.send_to(&late, addr);
        }
    }
}
