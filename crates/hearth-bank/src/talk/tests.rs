use super::*;

const ENTRY_BYTES: usize = 2048;

fn seal() -> Seal {
    Seal::new(&[3; 32])
}

const HELLO: &str = "VERSION 1.6.18\r\nMN\r\nSTAT item_size_max 1048576\r\nEND\r\n";

fn greeted() -> Talk {
    let mut talk = Talk::new(seal(), ENTRY_BYTES);
    let mut events = Vec::new();
    talk.hear(HELLO.as_bytes(), &mut events).unwrap();
    assert_eq!(events, [Event::Greeted]);
    talk.sent(talk.output().len());
    talk
}

fn order(talk: &mut Talk, id: u64, order: Order) {
    talk.order(id, order, Instant::now());
}

fn get(names: &[&str]) -> Order {
    Order::Get(names.iter().map(|&name| name.to_owned()).collect())
}

fn value_line(name: &str, index: usize, bytes: &[u8]) -> Vec<u8> {
    let value = seal().close(&seal().key(name), [0, 9], bytes);
    let mut line = format!("VA {} O{index}\r\n", value.len()).into_bytes();
    line.extend_from_slice(&value);
    line.extend_from_slice(b"\r\n");
    line
}

#[test]
fn entries_come_back_in_the_order_of_their_names_and_misses_are_none() {
    let mut talk = greeted();
    order(&mut talk, 7, get(&["a", "b", "c"]));
    let mut events = Vec::new();
    let mut text = value_line("c", 2, b"third");
    text.extend(value_line("a", 0, b"first"));
    text.extend_from_slice(b"MN\r\n");
    for byte in text {
        talk.hear(&[byte], &mut events).unwrap();
    }
    let item = |bytes: &[u8]| {
        Some(crate::OpenedEntry {
            version: [0, 9],
            bytes: bytes.to_vec(),
        })
    };
    let found = vec![item(b"first"), None, item(b"third")];
    assert_eq!(events, [Event::Answered(7, Answer::Found(found))]);
}

#[test]
fn an_entry_under_another_name_or_of_other_data_is_a_miss() {
    let mut talk = greeted();
    order(&mut talk, 1, get(&["a", "b"]));
    let mut text = value_line("b", 0, b"not a");
    text.extend_from_slice(b"VA 5 O1\r\nother\r\nMN\r\n");
    let mut events = Vec::new();
    talk.hear(&text, &mut events).unwrap();
    assert_eq!(
        events,
        [Event::Answered(1, Answer::Found(vec![None, None]))]
    );
}

#[test]
fn orders_that_follow_each_other_are_answered_in_turn() {
    let mut talk = greeted();
    let set = Order::Set {
        name: "a".to_owned(),
        version: [0, 1],
        bytes: vec![1; 10],
        seconds: None,
    };
    order(&mut talk, 1, set.clone());
    order(&mut talk, 2, Order::Delete(vec!["a".to_owned()]));
    order(&mut talk, 3, set);
    let mut events = Vec::new();
    let text = b"HD\r\nNF\r\nMN\r\nSERVER_ERROR object too large for cache\r\n";
    talk.hear(text, &mut events).unwrap();
    let answers = [Answer::Stored, Answer::Deleted, Answer::NoRoom];
    let answered: Vec<Event> = (1..)
        .zip(answers)
        .map(|(id, answer)| Event::Answered(id, answer))
        .collect();
    assert_eq!(events, answered);
    assert_eq!(talk.unanswered().count(), 0);
}

#[test]
fn a_daemon_that_cannot_be_used_is_refused_with_the_reason() {
    let over = |text: &str| {
        let mut talk = Talk::new(seal(), ENTRY_BYTES);
        talk.hear(text.as_bytes(), &mut Vec::new()).unwrap_err()
    };
    let old = "VERSION 1.5.22\r\nERROR\r\nSTAT item_size_max 1048576\r\nEND\r\n";
    assert_eq!(over(old), Over::Old("1.5.22".to_owned()));
    let small = "VERSION 1.6.18\r\nMN\r\nSTAT item_size_max 1024\r\nEND\r\n";
    let needed = item::room_for(ENTRY_BYTES);
    assert_eq!(
        over(small),
        Over::Small {
            limit: 1024,
            needed
        }
    );
    assert!(matches!(
        over("HTTP/1.1 400 Bad Request\r\n"),
        Over::Nonsense(_)
    ));
    assert!(matches!(over("SSH-2.0-OpenSSH_9.2\r\n"), Over::Nonsense(_)));
}

#[test]
fn a_deletion_that_was_refused_is_never_taken_for_done() {
    for words in [
        "SERVER_ERROR busy\r\nMN\r\n",
        "CLIENT_ERROR bad\r\nMN\r\n",
        "HD\r\nMN\r\n",
    ] {
        let mut talk = greeted();
        order(&mut talk, 1, Order::Delete(vec!["a".to_owned()]));
        let mut events = Vec::new();
        assert!(talk.hear(words.as_bytes(), &mut events).is_err(), "{words}");
        assert_eq!(events, []);
        assert_eq!(talk.unanswered().collect::<Vec<_>>(), [1]);
    }
}

#[test]
fn what_nobody_asked_for_ends_the_conversation() {
    for words in ["HD\r\n", "MN\r\n", "VA 1 O0\r\na\r\n", "END\r\n"] {
        let mut talk = greeted();
        let over = talk.hear(words.as_bytes(), &mut Vec::new());
        assert_eq!(over, Err(Over::Nonsense(Nonsense::Unasked)), "{words}");
    }
}

/// Xorshift: the same bytes in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Talks to a daemon that changes, drops, doubles and moves bytes of right answers: it may be taken
/// for dead, but never does the conversation panic or hand out bytes that nobody sealed.
#[test]
fn no_bytes_of_a_daemon_are_trusted_or_fatal() {
    let mut text = HELLO.as_bytes().to_vec();
    for turn in 0..4 {
        text.extend(value_line("a", 0, &[turn; 40]));
        text.extend_from_slice(b"MN\r\nHD\r\nMN\r\n");
    }
    let mut ended = 0;
    for seed in 1..=3000u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut said = text.clone();
        for _ in 0..=dice.roll(3) {
            garble(&mut said, &mut dice);
        }
        ended += u32::from(converse(&said, &mut dice).is_err());
    }
    assert!(ended > 1000, "{ended} of 3000 were found out");
}

fn garble(said: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.roll(said.len());
    let end = (at + dice.roll(20)).min(said.len());
    match dice.roll(4) {
        0 => said[at] = dice.roll(256) as u8,
        1 => drop(said.drain(at..end)),
        2 => {
            let twice = said[at..end].to_vec();
            said.splice(at..at, twice);
        }
        _ => {
            let noise: Vec<u8> = (0..dice.roll(30)).map(|_| dice.roll(256) as u8).collect();
            said.splice(at..at, noise);
        }
    }
}

fn converse(said: &[u8], dice: &mut Dice) -> Result<(), Over> {
    let mut talk = Talk::new(seal(), ENTRY_BYTES);
    let mut rest = said;
    while !rest.is_empty() {
        let (now, later) = rest.split_at((1 + dice.roll(60)).min(rest.len()));
        rest = later;
        let mut events = Vec::new();
        talk.hear(now, &mut events)?;
        for event in events {
            match event {
                Event::Greeted => {
                    for turn in 0..4 {
                        let set = Order::Set {
                            name: "a".to_owned(),
                            version: [0, 9],
                            bytes: vec![turn; 40],
                            seconds: None,
                        };
                        order(&mut talk, 1, get(&["a"]));
                        order(&mut talk, 2, set);
                        order(&mut talk, 3, Order::Delete(vec!["a".to_owned()]));
                    }
                }
                Event::Answered(_, Answer::Found(items)) => {
                    for item in items.into_iter().flatten() {
                        let first = item.bytes[0];
                        assert!(first < 4 && item.bytes == [first; 40]);
                    }
                }
                Event::Answered(..) => {}
            }
        }
    }
    Ok(())
}
