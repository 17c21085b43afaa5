//! Under whose rights the store is used for a request.

use std::fs;
use std::io;
use std::marker::PhantomData;

use rustix::process::{Gid, getegid, geteuid, getgroups};
use rustix::thread::set_thread_groups;

use crate::again::RequestNumber;
use crate::errors::raw;
use crate::options::Identity;
use crate::sys::{set_fs_gid, set_fs_uid};

/// The caller of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Thread id; 0 if the caller's process namespace is not ours.
    pub(crate) tid: u32,
    /// The number of the request.
    pub(crate) request: RequestNumber,
}

impl From<&fuser::Request> for Caller {
    fn from(request: &fuser::Request) -> Caller {
        Caller {
            uid: request.uid(),
            gid: request.gid(),
            tid: request.pid(),
            request: RequestNumber::of(request),
        }
    }
}

/// The caller in full: the numbers by which the store judges rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user to the file system.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Those of the thread behind a request; its groups are read while it waits.
    pub fn of(request: &fuser::Request) -> io::Result<Credentials> {
        let caller = Caller::from(request);
        Ok(Credentials {
            uid: caller.uid,
            gid: caller.gid,
            groups: groups_of(caller)?.into_iter().map(Gid::as_raw).collect(),
        })
    }
}

/// Puts callers' identities on threads, and takes them off again.
pub struct Wardrobe {
    identity: Identity,
    own: Own,
}

#[derive(Clone)]
struct Own {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
}

impl Wardrobe {
    /// Threads get this process's identity back.
    pub fn new(identity: Identity) -> io::Result<Wardrobe> {
        let own = Own {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: getgroups()?,
        };
        Ok(Wardrobe { identity, own })
    }

    /// Whether the store judges the caller as this process.
    pub(crate) fn is_own(&self, caller: Caller) -> bool {
        match self.identity {
            Identity::SingleUser => true,
            Identity::AsCaller => caller.uid == self.own.uid && caller.gid == self.own.gid,
        }
    }

    /// This process, as a caller.
    pub(crate) fn own(&self) -> Caller {
        Caller {
            uid: self.own.uid,
            gid: self.own.gid,
            tid: 0,
            request: RequestNumber::default(),
        }
    }

    /// Makes this thread act as the caller until the guard is dropped.
    pub(crate) fn assume(&self, caller: Caller) -> io::Result<Assumed<'_>> {
        if self.is_own(caller) {
            return Ok(Assumed::nobody());
        }
        self.put_on(caller.uid, caller.gid, &groups_of(caller)?)
    }

    /// The same for somebody of whom all is known.
    pub fn assume_all(&self, whom: &Credentials) -> io::Result<Assumed<'_>> {
        let caller = Caller {
            uid: whom.uid,
            gid: whom.gid,
            tid: 0,
            request: RequestNumber::default(),
        };
        if self.is_own(caller) {
            return Ok(Assumed::nobody());
        }
        let groups: Vec<Gid> = whom.groups.iter().copied().map(Gid::from_raw).collect();
        self.put_on(whom.uid, whom.gid, &groups)
    }

    fn put_on(&self, uid: u32, gid: u32, groups: &[Gid]) -> io::Result<Assumed<'_>> {
        // The guard first: if a step fails, dropping it undoes the steps before.
        let assumed = Assumed {
            own: Some(&self.own),
            this_thread_only: PhantomData,
        };
        set_thread_groups(groups)?;
        set_fs_gid(gid)?;
        set_fs_uid(uid)?;
        Ok(assumed)
    }
}

/// While it lives, this thread acts as somebody else.
#[must_use = "dropping it gives the thread its own identity back"]
pub struct Assumed<'a> {
    own: Option<&'a Own>,
    this_thread_only: PhantomData<*const ()>,
}

impl Assumed<'_> {
    fn nobody() -> Self {
        Assumed {
            own: None,
            this_thread_only: PhantomData,
        }
    }
}

impl Drop for Assumed<'_> {
    fn drop(&mut self) {
        let Some(own) = self.own else { return };
        set_fs_uid(own.uid).expect("a thread may always become what its process is");
        set_fs_gid(own.gid).expect("a thread may always become what its process is");
        set_thread_groups(&own.groups).expect("the right to set groups is not given up");
    }
}

/// Supplementary groups, which the request itself does not carry.
fn groups_of(caller: Caller) -> io::Result<Vec<Gid>> {
    if caller.uid == 0 || caller.tid == 0 {
        return Ok(Vec::new());
    }
    let status = fs::read_to_string(format!("/proc/{}/status", caller.tid))
        .map_err(|_| raw(libc::EACCES))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .unwrap_or("");
    Ok(line
        .split_whitespace()
        .filter_map(|gid| gid.parse().ok())
        .map(Gid::from_raw)
        .collect())
}
