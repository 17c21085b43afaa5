//! The options of a mount.

use std::time::Duration;

/// How a mount behaves.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// How long the kernel may keep attributes of files without asking again.
    pub attr_ttl: Duration,
    /// How long it may keep names and directories. Zero where other agents change them too.
    pub name_ttl: Duration,
    /// Whether users other than the mounting one may enter.
    pub others: OtherUsers,
    /// Under whose rights the store is used.
    pub identity: Identity,
    /// The owners that files appear to have.
    pub ids: ShownOwners,
    /// The good size of one request that cached files tell (`st_blksize`), in bytes; as the store says, if not told.
    /// The C library and many programs make their buffers that large.
    pub request_bytes: Option<u32>,
    /// The store's client believes in names, attributes and bytes that others have changed, as that of GlusterFS does.
    pub client_lags: bool,
    /// Bytes that were acknowledged outlive an agent that is killed, as they do with replicas: a file whose bytes were not
    /// in the store then syncs and closes without an error in the next agent.
    pub written_survives: bool,
    /// The source that `mount(8)` shows.
    pub fs_name: String,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            attr_ttl: Duration::from_secs(1),
            name_ttl: Duration::from_secs(1),
            others: OtherUsers::Refused,
            identity: Identity::SingleUser,
            ids: ShownOwners::AsStored,
            request_bytes: None,
            client_lags: false,
            written_survives: false,
            fs_name: "hearth".to_owned(),
        }
    }
}

/// Whether users other than the mounting one may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherUsers {
    /// Only the mounting user, as FUSE has it by default.
    Refused,
    /// Everybody (`allow_other`).
    Allowed,
}

/// Under whose rights the store is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Those of this process: the store judges every request as coming from it.
    SingleUser,
    /// Those of each caller. Needs root; the kernel checks permissions as well.
    AsCaller,
}

/// The owners that files appear to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownOwners {
    /// Owners and groups as the store has them.
    AsStored,
    /// Everything belongs to whoever asks: for a mount inside a user namespace that does not map
    /// the store's owners.
    Mine,
}

/// The way of an unmount when programs still use the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    /// Fail.
    Refuse,
    /// Take the mount out of the tree now; it ends when its last user leaves.
    Detach,
}
