//! The hosts that have the store of a set: every agent's, or some, through which the others reach it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Agents whose hosts have the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct StoreAt {
    /// Their numbers, in order.
    pub agents: Vec<u32>,
    /// The port at which they listen for the others, on several hosts.
    pub port: Option<u16>,
}

impl FromStr for StoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreAt, String> {
        let (agents, port) = match text.split_once(':') {
            Some((agents, port)) => {
                let port = port.parse().map_err(|_| format!("`{port}` is no port"))?;
                (agents, Some(port))
            }
            None => (text, None),
        };
        let number = |word: &str| {
            let number = word.parse::<u32>();
            number.map_err(|_| format!("`{word}` is no agent's number"))
        };
        let agents: Result<Vec<u32>, String> = agents.split(',').map(number).collect();
        let mut agents = agents?;
        agents.sort_unstable();
        agents.dedup();
        Ok(StoreAt { agents, port })
    }
}

impl fmt::Display for StoreAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agents: Vec<String> = self.agents.iter().map(u32::to_string).collect();
        f.write_str(&agents.join(","))?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl From<StoreAt> for String {
    fn from(at: StoreAt) -> String {
        at.to_string()
    }
}

impl TryFrom<String> for StoreAt {
    type Error = String;

    fn try_from(text: String) -> Result<StoreAt, String> {
        text.parse()
    }
}

impl StoreAt {
    /// Whether an agent's host has the store.
    pub fn has(&self, node: u32) -> bool {
        self.agents.contains(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_printed_as_they_are_typed() {
        for text in ["0", "0,3:7100"] {
            assert_eq!(text.parse::<StoreAt>().unwrap().to_string(), text);
        }
        for text in ["", "a", "0:port", "0,,1"] {
            assert!(text.parse::<StoreAt>().is_err(), "{text}");
        }
    }
}
