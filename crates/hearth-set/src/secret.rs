//! The secret that the members of a job prove to know: 32 bytes, written as 64 hexadecimal digits.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hearth_agent::net::Secret;

use crate::failure::{Failure, OrFail};

const HINT: &str = "(umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \\n' > FILE)";

/// Makes a secret.
pub fn make() -> Result<Secret, Failure> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).or_fail(|| "cannot make a secret".to_owned())?;
    Ok(Secret::new(secret))
}

/// Reads a secret that nobody else can read.
pub fn read(path: &Path) -> Result<Secret, Failure> {
    let what = || format!("cannot read the secret in `{}`", path.display());
    let file = File::open(path).or_fail(what)?;
    let meta = file.metadata().or_fail(what)?;
    if meta.mode() & 0o077 != 0 {
        return Err(Failure::new(what())
            .cause(format!(
                "others may read it (mode {:o})",
                meta.mode() & 0o777
            ))
            .hint(format!("chmod 600 {}", path.display())));
    }
    let mut text = String::new();
    // A longer file holds no secret; what follows need not be read.
    file.take(128).read_to_string(&mut text).or_fail(what)?;
    from_hex(text.trim()).ok_or_else(|| {
        Failure::new(what())
            .cause("it does not hold 64 hexadecimal digits")
            .hint(HINT)
    })
}

/// Writes a secret as digits.
pub fn to_hex(secret: &Secret) -> String {
    secret.bytes().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

fn from_hex(text: &str) -> Option<Secret> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|value| value.try_into().ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    bytes.try_into().ok().map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_written_and_read() {
        let secret = make().unwrap();
        let read = from_hex(&to_hex(&secret)).unwrap();
        assert_eq!(read.bytes(), secret.bytes());
        for wrong in ["12", &"g".repeat(64), &"é".repeat(64)] {
            assert!(from_hex(wrong).is_none(), "{wrong}");
        }
    }
}
