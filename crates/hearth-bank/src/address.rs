//! The address at which a daemon listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest path of a socket, `sun_path` without its last zero.
const SOCKET_PATH_MAX: usize = 107;

/// The address at which a daemon listens: `HOST:PORT` in numbers, or the absolute path of a socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket of this machine.
    Unix(PathBuf),
    /// A port of some machine.
    Tcp(SocketAddr),
}

/// Why words are no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither form.
    #[error("`{0}` is neither ADDRESS:PORT nor the absolute path of a socket")]
    Form(String),
    /// The system cannot connect to it.
    #[error("the path of socket `{0}` is longer than {SOCKET_PATH_MAX} bytes")]
    Long(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if text.starts_with('/') {
            return match text.len() {
                0..=SOCKET_PATH_MAX => Ok(Address::Unix(PathBuf::from(text))),
                _ => Err(AddressError::Long(text.to_owned())),
            };
        }
        let addr = text.parse().map(Address::Tcp);
        addr.map_err(|_| AddressError::Form(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Tcp(addr) => write!(f, "{addr}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_as_it_is_typed() {
        for text in ["127.0.0.1:11211", "[::1]:7", "/run/user/0/bank-0.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for text in ["", "host", "host:11211", "127.0.0.1", "relative/path"] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error, AddressError::Form(text.to_owned()));
        }
        let long = format!("/{}", "x".repeat(SOCKET_PATH_MAX));
        assert_eq!(
            long.parse::<Address>().unwrap_err(),
            AddressError::Long(long)
        );
    }
}
