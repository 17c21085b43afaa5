//! Lines that a daemon may say.

/// Longest line that a daemon may say; its own are far shorter.
const LINE_BYTES_MAX: usize = 2048;

/// One line, understood, with the value that belongs to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// `VA`: an entry.
    Value {
        /// Which of the keys, as the order numbered them.
        opaque: Option<usize>,
        /// The entry.
        value: &'a [u8],
    },
    /// `HD`: done.
    Done,
    /// `NS`: not stored.
    NotStored,
    /// `NF`: not found, which a deletion of version 1.6.18 says even when told to be quiet.
    NotFound,
    /// `MN`: the end of an order.
    End,
    /// `VERSION`.
    Version(&'a str),
    /// `STAT`.
    Stat(&'a str, &'a str),
    /// `END` of a list of those.
    StatEnd,
    /// `SERVER_ERROR`: it cannot do what it understood.
    Failed(&'a str),
    /// `ERROR` or `CLIENT_ERROR`: it did not understand.
    Refused(&'a str),
}

/// A byte that the protocol does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nonsense {
    #[error("it said `{0}`")]
    Word(String),
    #[error("it said a line of more than {LINE_BYTES_MAX} bytes")]
    Line,
    #[error("it announced an entry of {0} bytes")]
    Size(String),
    #[error("an entry of its did not end where it was to")]
    Tail,
    #[error("it said more than it was asked")]
    Unasked,
}

/// The first reply in `bytes` and its length, if all of it is there. Values are at most `value_max`.
pub(crate) fn first(
    bytes: &[u8],
    value_max: usize,
) -> Result<Option<(Reply<'_>, usize)>, Nonsense> {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return match window.len() {
            LINE_BYTES_MAX => Err(Nonsense::Line),
            _ => Ok(None),
        };
    };
    let Ok(line) = std::str::from_utf8(&bytes[..end]) else {
        return Err(Nonsense::Word(shown(&bytes[..end])));
    };
    let after = end + 2;
    if let Some(words) = line.strip_prefix("VA ") {
        return value(words, &bytes[after..], value_max)
            .map(|found| found.map(|(reply, len)| (reply, after + len)));
    }
    plain(line)
        .map(|reply| Some((reply, after)))
        .ok_or_else(|| Nonsense::Word(shown(line.as_bytes())))
}

fn value<'a>(
    words: &str,
    rest: &'a [u8],
    value_max: usize,
) -> Result<Option<(Reply<'a>, usize)>, Nonsense> {
    let mut words = words.split(' ');
    let size = words.next().unwrap_or_default();
    let len = match size.parse::<usize>() {
        Ok(len) if len <= value_max => len,
        _ => return Err(Nonsense::Size(shown(size.as_bytes()))),
    };
    if rest.len() < len + 2 {
        return Ok(None);
    }
    if &rest[len..len + 2] != b"\r\n" {
        return Err(Nonsense::Tail);
    }
    let number = words.find_map(|word| word.strip_prefix('O'));
    let reply = Reply::Value {
        opaque: number.and_then(|digits| digits.parse().ok()),
        value: &rest[..len],
    };
    Ok(Some((reply, len + 2)))
}

fn plain(line: &str) -> Option<Reply<'_>> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "HD" => Some(Reply::Done),
        "NS" => Some(Reply::NotStored),
        "NF" => Some(Reply::NotFound),
        "MN" => Some(Reply::End),
        "VERSION" => Some(Reply::Version(rest)),
        "STAT" => rest
            .split_once(' ')
            .map(|(name, value)| Reply::Stat(name, value)),
        "END" => Some(Reply::StatEnd),
        "SERVER_ERROR" => Some(Reply::Failed(rest)),
        "ERROR" | "CLIENT_ERROR" => Some(Reply::Refused(rest)),
        _ => None,
    }
}

/// The beginning of what was said, fit to be printed.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    text.escape_default().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Reply<'_> {
        let (reply, len) = first(bytes, 100).unwrap().expect("all of it is there");
        assert_eq!(len, bytes.len());
        reply
    }

    #[test]
    fn every_line_of_the_protocol_is_understood() {
        assert_eq!(whole(b"HD\r\n"), Reply::Done);
        assert_eq!(whole(b"HD O7\r\n"), Reply::Done);
        assert_eq!(whole(b"NS\r\n"), Reply::NotStored);
        assert_eq!(whole(b"NF\r\n"), Reply::NotFound);
        assert_eq!(whole(b"MN\r\n"), Reply::End);
        assert_eq!(whole(b"VERSION 1.6.18\r\n"), Reply::Version("1.6.18"));
        assert_eq!(
            whole(b"STAT evictions 7\r\n"),
            Reply::Stat("evictions", "7")
        );
        assert_eq!(whole(b"END\r\n"), Reply::StatEnd);
        assert_eq!(
            whole(b"SERVER_ERROR out of memory\r\n"),
            Reply::Failed("out of memory")
        );
        assert_eq!(whole(b"ERROR\r\n"), Reply::Refused(""));
        let value = Reply::Value {
            opaque: Some(3),
            value: b"a\r\nb",
        };
        assert_eq!(whole(b"VA 4 O3\r\na\r\nb\r\n"), value);
    }

    #[test]
    fn a_reply_is_awaited_until_its_last_byte() {
        for text in [&b"VA 4 O3\r\na\r\nb\r\n"[..], b"SERVER_ERROR x\r\n"] {
            for end in 0..text.len() {
                assert_eq!(first(&text[..end], 100), Ok(None), "{end}");
            }
        }
    }

    #[test]
    fn nonsense_is_called_so() {
        let long = [b'x'; LINE_BYTES_MAX];
        assert_eq!(first(&long, 100), Err(Nonsense::Line));
        assert!(matches!(
            first(b"HTTP/1.1 400\r\n", 100),
            Err(Nonsense::Word(_))
        ));
        assert!(matches!(
            first(b"\xff\xfe\r\n", 100),
            Err(Nonsense::Word(_))
        ));
        for size in ["101", "-1", "99999999999999999999999", "", "1x"] {
            let line = format!("VA {size} O1\r\n");
            assert!(
                matches!(first(line.as_bytes(), 100), Err(Nonsense::Size(_))),
                "{size}"
            );
        }
        assert_eq!(first(b"VA 1 O0\r\nabc\r\n", 100), Err(Nonsense::Tail));
    }
}
