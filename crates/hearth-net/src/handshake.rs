//! How two members prove to each other that they know the secret of the job.
//!
//! ```text
//! dialer                                              acceptor
//!   Hello { to, from, incarnation, met, succeeds, nonce, job }  -->
//!           <--  Challenge { incarnation, met, succeeds, nonce, proof of both sides' words }
//!   Proof { proof of both sides' words, shares } -->
//! ```
//!
//! Each proof covers the version, the job, both sides' words, and its direction, so a recorded
//! handshake is worth nothing. `met` is the incarnation of the other member that this one has met, 0 if
//! none: both sides learn so, and proved, that one of them runs anew. They then part, since a run that begins anew
//! has forgotten what it owed. `succeeds` is the run whose place it takes, if that is over for certain. They meet once the run before is forgotten too ([`Identity::forget`]). Either side may
//! answer `Refuse { text }` and close. This file does no I/O: [`Handshake::step`] takes a frame and says what to send
//! and what was learnt.

use crate::auth::{FrameKey, KEY_LEN, Nonce, Secret, Side, Transcript};
use crate::frame::{FrameError, HEADER_LEN, Kind, handshake_frame};
use crate::terms;
use crate::transport::{Anew, PeerId};

/// The longest name of a job.
pub const JOB_LEN_MAX: usize = 400;
const REFUSAL_LEN_MAX: usize = 400;
/// Ends a proof whose sender has taken the memory that it was offered.
const SHARES: u8 = 1;

/// The values that this member says and expects in every handshake.
pub(crate) struct Identity {
    pub(crate) me: PeerId,
    pub(crate) incarnation: u64,
    pub(crate) succeeds: u64,
    pub(crate) member_count: u32,
    pub(crate) job: String,
    pub(crate) secret: Secret,
    /// The incarnation of each member that was connected, 0 if none was; no other before that is forgotten.
    pub(crate) met: Vec<u64>,
}

impl Identity {
    fn side(&self, other: PeerId, nonce: Nonce) -> Side {
        Side {
            id: self.me,
            incarnation: self.incarnation,
            met: self.met.get(other.index()).copied().unwrap_or(0),
            succeeds: self.succeeds,
            nonce,
        }
    }

    /// Forgets that a run of a member was met.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        if let Some(met) = self.met.get_mut(peer.index()) {
            *met = 0;
        }
    }

    /// Remembers the run of a member; fails if an earlier one was met.
    pub(crate) fn meet(&mut self, peer: PeerId, incarnation: u64) -> Result<(), HandshakeError> {
        match self.met.get_mut(peer.index()) {
            Some(met) if *met == 0 => *met = incarnation,
            Some(met) if *met != incarnation => return Err(HandshakeError::Anew(Anew::Peer)),
            Some(_) | None => {}
        }
        Ok(())
    }
}

/// The stage of one connection's handshake.
pub(crate) enum Handshake {
    /// The acceptor has heard nothing.
    Opened,
    /// The dialer has said hello.
    Greeted { peer: PeerId, me: Side },
    /// The acceptor has answered with its challenge; the peer is still a claim.
    Challenged {
        peer: Side,
        anew: Option<Anew>,
        transcript: Transcript,
    },
}

/// The outcome of a step.
pub(crate) enum Progress {
    /// Send the frame and wait for the next.
    Reply(Handshake, Vec<u8>),
    /// The peer is who it says; send the frame, if any, and use the keys.
    Done(Session, Option<Vec<u8>>),
}

/// An authenticated connection.
pub(crate) struct Session {
    pub(crate) peer: PeerId,
    pub(crate) incarnation: u64,
    pub(crate) tx: FrameKey,
    pub(crate) rx: FrameKey,
    /// The dialer has taken what the acceptor offered beside its challenge.
    pub(crate) shares: bool,
    /// One side runs anew: the connection may not be used.
    pub(crate) anew: Option<Anew>,
}

/// Says in a proof that the dialer has taken what it was offered. No proof covers it: a wrong word here is worth
/// no more than a connection that breaks.
pub(crate) fn sharing(proof: &[u8]) -> Vec<u8> {
    let mut head = proof[HEADER_LEN..].to_vec();
    head.push(SHARES);
    handshake_frame(Kind::Proof, &head)
}

/// Why a handshake failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("malformed handshake frame")]
    Malformed,
    #[error("{}", terms::difference(theirs, ours))]
    Job { theirs: String, ours: String },
    #[error("peer wants member {wanted}, this is member {me}: the member lists differ")]
    NotMe { wanted: u32, me: u32 },
    #[error("member {from} connected to member {me}: only a higher member of {members} may")]
    Direction { from: u32, me: u32, members: u32 },
    #[error("peer does not know the secret of this job")]
    Secret,
    #[error("peer refused: {0}")]
    Refused(String),
    #[error("{0}")]
    Anew(Anew),
}

impl HandshakeError {
    /// True if the two sides have other secrets, whoever of them has found out.
    pub(crate) fn is_about_secrets(&self) -> bool {
        match self {
            HandshakeError::Secret => true,
            HandshakeError::Refused(why) => *why == HandshakeError::Secret.to_string(),
            HandshakeError::Malformed
            | HandshakeError::Job { .. }
            | HandshakeError::NotMe { .. }
            | HandshakeError::Direction { .. }
            | HandshakeError::Anew(_) => false,
        }
    }
}

impl Handshake {
    /// Opens the conversation with `peer`.
    pub(crate) fn dial(who: &Identity, peer: PeerId, nonce: Nonce) -> (Handshake, Vec<u8>) {
        let me = who.side(peer, nonce);
        let mut head = Vec::with_capacity(66 + who.job.len());
        head.extend_from_slice(&peer.0.to_le_bytes());
        head.extend_from_slice(&me.id.0.to_le_bytes());
        head.extend_from_slice(&me.incarnation.to_le_bytes());
        head.extend_from_slice(&me.met.to_le_bytes());
        head.extend_from_slice(&me.succeeds.to_le_bytes());
        head.extend_from_slice(&nonce);
        head.extend_from_slice(who.job.as_bytes());
        (
            Handshake::Greeted { peer, me },
            handshake_frame(Kind::Hello, &head),
        )
    }

    /// The member on the other side as far as it is known; a claim until the handshake is done.
    pub(crate) fn claimed(&self) -> Option<PeerId> {
        match self {
            Handshake::Opened => None,
            Handshake::Greeted { peer, .. } => Some(*peer),
            Handshake::Challenged { peer, .. } => Some(peer.id),
        }
    }

    /// Applies one frame; `nonce` is fresh and used by the acceptor only.
    pub(crate) fn step(
        &self,
        who: &Identity,
        (kind, head): (Kind, &[u8]),
        nonce: Nonce,
    ) -> Result<Progress, HandshakeFailure> {
        match (self, kind) {
            (_, Kind::Refuse) => Err(HandshakeError::Refused(readable(head)).into()),
            (Handshake::Opened, Kind::Hello) => Ok(on_hello(who, head, nonce)?),
            (Handshake::Greeted { peer, me }, Kind::Challenge) => {
                Ok(on_challenge(who, (*peer, me), head)?)
            }
            (
                Handshake::Challenged {
                    peer,
                    anew,
                    transcript,
                },
                Kind::Proof,
            ) => Ok(on_proof(who, (peer, *anew), transcript, head)?),
            (
                Handshake::Opened | Handshake::Greeted { .. } | Handshake::Challenged { .. },
                Kind::Hello | Kind::Challenge | Kind::Proof | Kind::Data,
            ) => Err(FrameError::Place(kind).into()),
        }
    }
}

/// A handshake fails by its words or by its frames.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum HandshakeFailure {
    #[error(transparent)]
    Words(#[from] HandshakeError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A refusal that the other side can show to people.
pub(crate) fn refusal(why: &str) -> Vec<u8> {
    let text = readable(why.as_bytes());
    handshake_frame(Kind::Refuse, text.as_bytes())
}

/// The refusal of a peer of another job; each side is named from the reader's point of view.
pub(crate) fn job_refusal(theirs: &str, ours: &str) -> Vec<u8> {
    refusal(&terms::difference(ours, theirs))
}

/// The refusal of a peer of another version; each side is named from the reader's point of view.
pub(crate) fn version_refusal(theirs: u8) -> Vec<u8> {
    let ours = crate::frame::PROTOCOL_VERSION;
    refusal(&format!("peer speaks version {theirs}, this agent {ours}"))
}

fn on_hello(who: &Identity, head: &[u8], nonce: Nonce) -> Result<Progress, HandshakeError> {
    let mut words = Words(head);
    let wanted = words.u32()?;
    let dialer = Side {
        id: PeerId(words.u32()?),
        incarnation: words.u64()?,
        met: words.u64()?,
        succeeds: words.u64()?,
        nonce: words.key()?,
    };
    let theirs = words.rest();
    if theirs != who.job.as_bytes() {
        return Err(HandshakeError::Job {
            theirs: readable(theirs),
            ours: who.job.clone(),
        });
    }
    let me = who.me.0;
    if wanted != me {
        return Err(HandshakeError::NotMe { wanted, me });
    }
    let from = dialer.id.0;
    if from <= me || from >= who.member_count {
        return Err(HandshakeError::Direction {
            from,
            me,
            members: who.member_count,
        });
    }
    let mine = who.side(dialer.id, nonce);
    let transcript = Transcript::new(&who.job, &dialer, &mine);
    let mut head = Vec::with_capacity(24 + 2 * KEY_LEN);
    head.extend_from_slice(&mine.incarnation.to_le_bytes());
    head.extend_from_slice(&mine.met.to_le_bytes());
    head.extend_from_slice(&mine.succeeds.to_le_bytes());
    head.extend_from_slice(&nonce);
    head.extend_from_slice(transcript.accept_proof(&who.secret).as_bytes());
    let next = Handshake::Challenged {
        anew: anew(&mine, &dialer),
        peer: dialer,
        transcript,
    };
    Ok(Progress::Reply(
        next,
        handshake_frame(Kind::Challenge, &head),
    ))
}

fn on_challenge(
    who: &Identity,
    (peer, me): (PeerId, &Side),
    head: &[u8],
) -> Result<Progress, HandshakeError> {
    let mut words = Words(head);
    let acceptor = Side {
        id: peer,
        incarnation: words.u64()?,
        met: words.u64()?,
        succeeds: words.u64()?,
        nonce: words.key()?,
    };
    let proof = words.key()?;
    words.end()?;
    let transcript = Transcript::new(&who.job, me, &acceptor);
    // `blake3::Hash` compares in constant time.
    if transcript.accept_proof(&who.secret) != proof {
        return Err(HandshakeError::Secret);
    }
    let session = Session {
        peer,
        incarnation: acceptor.incarnation,
        tx: transcript.key_from_dialer(&who.secret),
        rx: transcript.key_from_acceptor(&who.secret),
        shares: false,
        anew: anew(me, &acceptor),
    };
    let reply = handshake_frame(Kind::Proof, transcript.dial_proof(&who.secret).as_bytes());
    Ok(Progress::Done(session, Some(reply)))
}

fn on_proof(
    who: &Identity,
    (dialer, anew): (&Side, Option<Anew>),
    transcript: &Transcript,
    head: &[u8],
) -> Result<Progress, HandshakeError> {
    let mut words = Words(head);
    let proof = words.key()?;
    let shares = match words.rest() {
        [] => false,
        [SHARES] => true,
        _ => return Err(HandshakeError::Malformed),
    };
    if transcript.dial_proof(&who.secret) != proof {
        return Err(HandshakeError::Secret);
    }
    let session = Session {
        peer: dialer.id,
        incarnation: dialer.incarnation,
        tx: transcript.key_from_acceptor(&who.secret),
        rx: transcript.key_from_dialer(&who.secret),
        shares,
        anew,
    };
    Ok(Progress::Done(session, None))
}

/// Which of two sides runs anew, though the other has met it before.
fn anew(me: &Side, peer: &Side) -> Option<Anew> {
    let forgot = |met: u64, incarnation: u64| met != 0 && met != incarnation;
    if forgot(peer.met, me.incarnation) {
        Some(Anew::Me)
    } else {
        let who = match peer.succeeds == me.met {
            true => Anew::Successor,
            false => Anew::Peer,
        };
        forgot(me.met, peer.incarnation).then_some(who)
    }
}

/// Reads a head from the front; outside bytes never panic.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], HandshakeError> {
        let (word, rest) = self
            .0
            .split_first_chunk()
            .ok_or(HandshakeError::Malformed)?;
        self.0 = rest;
        Ok(*word)
    }

    fn u32(&mut self) -> Result<u32, HandshakeError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, HandshakeError> {
        self.take().map(u64::from_le_bytes)
    }

    fn key(&mut self) -> Result<[u8; KEY_LEN], HandshakeError> {
        self.take()
    }

    fn rest(self) -> &'a [u8] {
        self.0
    }

    fn end(self) -> Result<(), HandshakeError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(HandshakeError::Malformed)
        }
    }
}

/// Outside bytes as text that is safe to log: short and without control characters.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if out.len() + c.len_utf8() > REFUSAL_LEN_MAX {
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(me: u32, secret: u8, job: &str) -> Identity {
        Identity {
            me: PeerId(me),
            incarnation: 10 + u64::from(me),
            succeeds: 0,
            member_count: 3,
            job: job.into(),
            secret: Secret::new([secret; KEY_LEN]),
            met: vec![0; 3],
        }
    }

    fn words(progress: Result<Progress, HandshakeFailure>) -> HandshakeError {
        match progress {
            Err(HandshakeFailure::Words(error)) => error,
            Err(HandshakeFailure::Frame(error)) => panic!("frame error {error}"),
            Ok(_) => panic!("the handshake went on"),
        }
    }

    /// Runs dialer 1 against acceptor 0 up to the challenge.
    fn challenge(dialer: &Identity, acceptor: &Identity) -> (Handshake, Handshake, Vec<u8>) {
        let (dialing, hello) = Handshake::dial(dialer, PeerId(0), [1; KEY_LEN]);
        let step = Handshake::Opened.step(acceptor, (Kind::Hello, &hello[HEADER_LEN..]), [2; 32]);
        match step {
            Ok(Progress::Reply(accepting, frame)) => (dialing, accepting, frame),
            Ok(Progress::Done(..)) => panic!("nothing is proved yet"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn both_sides_end_with_matching_keys() {
        let (dialer, acceptor) = (identity(1, 7, "job"), identity(0, 7, "job"));
        let (dialing, accepting, frame) = challenge(&dialer, &acceptor);
        let step = dialing.step(&dialer, (Kind::Challenge, &frame[HEADER_LEN..]), [0; 32]);
        let Ok(Progress::Done(mut near, Some(proof))) = step else {
            panic!("not done")
        };
        let step = accepting.step(&acceptor, (Kind::Proof, &proof[HEADER_LEN..]), [0; 32]);
        let Ok(Progress::Done(mut far, None)) = step else {
            panic!("not done")
        };
        assert_eq!((near.peer, near.incarnation), (PeerId(0), 10));
        assert_eq!((far.peer, far.incarnation), (PeerId(1), 11));
        let fields = [0; crate::frame::FIELDS_LEN];
        assert_eq!(
            far.rx.open(&fields, b"x", &near.tx.seal(&fields, b"x")),
            Ok(())
        );
        assert_eq!(
            near.rx.open(&fields, b"x", &far.tx.seal(&fields, b"x")),
            Ok(())
        );
        assert!(
            near.rx
                .open(&fields, b"x", &near.tx.seal(&fields, b"x"))
                .is_err()
        );
    }

    #[test]
    fn a_successor_is_told_from_one_that_may_have_an_earlier_run() {
        for (succeeds, expected) in [(5, Anew::Successor), (4, Anew::Peer), (0, Anew::Peer)] {
            let (mut dialer, mut acceptor) = (identity(1, 7, "job"), identity(0, 7, "job"));
            dialer.succeeds = succeeds;
            acceptor.met[1] = 5;
            let [near, far] = both_learn(&dialer, &acceptor);
            assert_eq!([near, far], [Some(Anew::Me), Some(expected)]);
        }
    }

    #[test]
    fn both_sides_learn_who_runs_anew() {
        for (met_by_dialer, met_by_acceptor, expected) in [
            (10, 11, [None, None]),
            (0, 5, [Some(Anew::Me), Some(Anew::Peer)]),
            (5, 0, [Some(Anew::Peer), Some(Anew::Me)]),
            (5, 5, [Some(Anew::Me), Some(Anew::Me)]),
        ] {
            let (mut dialer, mut acceptor) = (identity(1, 7, "job"), identity(0, 7, "job"));
            dialer.met[0] = met_by_dialer;
            acceptor.met[1] = met_by_acceptor;
            assert_eq!(both_learn(&dialer, &acceptor), expected);
        }
    }

    fn both_learn(dialer: &Identity, acceptor: &Identity) -> [Option<Anew>; 2] {
        let (dialing, accepting, frame) = challenge(dialer, acceptor);
        let step = dialing.step(dialer, (Kind::Challenge, &frame[HEADER_LEN..]), [0; 32]);
        let Ok(Progress::Done(near, Some(proof))) = step else {
            panic!("not done")
        };
        let step = accepting.step(acceptor, (Kind::Proof, &proof[HEADER_LEN..]), [0; 32]);
        let Ok(Progress::Done(far, None)) = step else {
            panic!("not done")
        };
        [near.anew, far.anew]
    }

    #[test]
    fn who_was_met_stays() {
        let mut me = identity(0, 7, "job");
        assert_eq!(me.meet(PeerId(1), 5), Ok(()));
        assert_eq!(me.meet(PeerId(1), 5), Ok(()));
        let other = me.meet(PeerId(1), 6);
        assert_eq!(other, Err(HandshakeError::Anew(Anew::Peer)));
        assert_eq!(me.meet(PeerId(1), 5), Ok(()));
    }

    #[test]
    fn a_proof_says_whether_memory_is_shared_and_nothing_else() {
        for (more, expected) in [
            (&[][..], Some(false)),
            (&[SHARES], Some(true)),
            (&[0], None),
        ] {
            let (dialer, acceptor) = (identity(1, 7, "job"), identity(0, 7, "job"));
            let (dialing, accepting, frame) = challenge(&dialer, &acceptor);
            let step = dialing.step(&dialer, (Kind::Challenge, &frame[HEADER_LEN..]), [0; 32]);
            let Ok(Progress::Done(_, Some(proof))) = step else {
                panic!("not done")
            };
            let mut head = proof[HEADER_LEN..].to_vec();
            head.extend_from_slice(more);
            let step = accepting.step(&acceptor, (Kind::Proof, &head), [0; 32]);
            let shares = match step {
                Ok(Progress::Done(session, None)) => Some(session.shares),
                _ => None,
            };
            assert_eq!(shares, expected, "{more:?}");
        }
    }

    #[test]
    fn another_secret_is_noticed_by_both_sides() {
        let (dialer, acceptor) = (identity(1, 8, "job"), identity(0, 7, "job"));
        let (dialing, accepting, frame) = challenge(&dialer, &acceptor);
        let step = dialing.step(&dialer, (Kind::Challenge, &frame[HEADER_LEN..]), [0; 32]);
        assert_eq!(words(step), HandshakeError::Secret);
        let step = accepting.step(&acceptor, (Kind::Proof, &[3; KEY_LEN]), [0; 32]);
        assert_eq!(words(step), HandshakeError::Secret);
    }

    #[test]
    fn a_replayed_proof_does_not_fit_a_fresh_nonce() {
        let (dialer, acceptor) = (identity(1, 7, "job"), identity(0, 7, "job"));
        let (dialing, _, frame) = challenge(&dialer, &acceptor);
        let step = dialing.step(&dialer, (Kind::Challenge, &frame[HEADER_LEN..]), [0; 32]);
        let Ok(Progress::Done(_, Some(proof))) = step else {
            panic!("not done")
        };
        let (_, hello) = Handshake::dial(&dialer, PeerId(0), [1; KEY_LEN]);
        let step = Handshake::Opened.step(&acceptor, (Kind::Hello, &hello[HEADER_LEN..]), [9; 32]);
        let Ok(Progress::Reply(accepting, _)) = step else {
            panic!("refused")
        };
        let step = accepting.step(&acceptor, (Kind::Proof, &proof[HEADER_LEN..]), [0; 32]);
        assert_eq!(words(step), HandshakeError::Secret);
    }

    #[test]
    fn a_wrong_job_id_or_direction_is_named() {
        let acceptor = identity(1, 7, "job");
        let hello = |dialer: &Identity, to| {
            let (_, frame) = Handshake::dial(dialer, PeerId(to), [1; KEY_LEN]);
            let head = &frame[HEADER_LEN..];
            words(Handshake::Opened.step(&acceptor, (Kind::Hello, head), [2; 32]))
        };
        let error = hello(&identity(2, 7, "other\n"), 1);
        assert_eq!(
            error,
            HandshakeError::Job {
                theirs: "other".into(),
                ours: "job".into()
            }
        );
        assert_eq!(
            hello(&identity(2, 7, "job"), 0),
            HandshakeError::NotMe { wanted: 0, me: 1 }
        );
        for from in [0, 1, 3] {
            let error = hello(&identity(from, 7, "job"), 1);
            assert_eq!(
                error,
                HandshakeError::Direction {
                    from,
                    me: 1,
                    members: 3
                }
            );
        }
    }

    #[test]
    fn short_heads_and_misplaced_kinds_are_errors() {
        let acceptor = identity(0, 7, "job");
        for len in 0..56 {
            let head = vec![0; len];
            let step = Handshake::Opened.step(&acceptor, (Kind::Hello, &head), [2; 32]);
            assert_eq!(words(step), HandshakeError::Malformed);
        }
        let step = Handshake::Opened.step(&acceptor, (Kind::Data, &[]), [2; 32]);
        let misplaced = HandshakeFailure::Frame(FrameError::Place(Kind::Data));
        assert_eq!(step.err(), Some(misplaced));
    }

    #[test]
    fn a_refusal_is_short_and_printable() {
        let frame = refusal(&"\x1b[2Jno\n".repeat(200));
        let text = readable(&frame[HEADER_LEN..]);
        assert!(text.starts_with("[2Jno") && text.len() <= REFUSAL_LEN_MAX);
    }
}
