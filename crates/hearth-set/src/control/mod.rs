//! The messages between commands and agents: a line of JSON each way over a socket in the job's directory, one request
//! per connection.
//!
//! While an agent works on a request it says so every second ([`ControlReply::Working`]), so that a caller
//! may give up on silence alone, however long the work takes.

mod caller;
mod hand;
mod line;
mod listener;

pub use caller::{CallError, Peer, ask, call, call_within, connect};
pub use hand::{hand_over, take_over};
pub use listener::{Answerer, ControlAnswer, Listener};

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// An agent that says nothing for so long does not answer.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How often an agent says that it is still at work.
const WORKING_SPAN: Duration = Duration::from_secs(1);

/// A command's request to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Say how you are.
    Status,
    /// Say which bytes of which files are at an agent's node: yours, or another's that you ask.
    Residency {
        /// Its number in the job.
        agent: u32,
    },
    /// Bring every dirty byte to the store.
    Flush,
    /// Have the agents of other hosts do the same.
    FlushOthers,
    /// Mount the store.
    Mount {
        /// Its path.
        at: PathBuf,
    },
    /// Take a mount away.
    Unmount {
        /// Its path.
        at: PathBuf,
        /// The treatment of a mount in use.
        busy: Busy,
    },
    /// Say how a command can come to see the store through you: [`MountAccess`].
    Enter,
    /// Serve the mount behind the device that comes with this, and keep the namespaces that come
    /// after it.
    Attach {
        /// The owners that its files are shown with.
        ids: Ids,
        /// The number of the mount's connection, if it is known.
        connection: Option<u32>,
    },
    /// End.
    Stop,
    /// End, as all agents of the set do: nobody is left who would go on.
    StopWithAll,
}

/// The treatment of a mount in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Busy {
    /// Leave it.
    Refuse,
    /// Take it out of the tree; who is inside stays inside.
    Detach,
}

/// The owners of files as a mount shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ids {
    /// Owners and groups as the store has them.
    AsStored,
    /// Everything belongs to whoever asks.
    Mine,
}

/// An agent's reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlReply {
    /// Not done yet.
    Working,
    /// Done.
    Done(Value),
    /// Not done, and why.
    Failed(Failure),
}

/// How a command comes to see the store through an agent. An agent serves one mount, so that the kernel's copies are
/// coherent; later commands share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountAccess {
    /// Nobody has mounted it yet: mount it, then [`ControlRequest::Attach`].
    Make,
    /// It is mounted in the namespaces that come with this: mounts, and users if they are not ours.
    Join,
    /// It is mounted there.
    Bind(PathBuf),
}
