//! The script of a fault store.
//!
//! ```text
//! plan   = rule *( ";" rule )
//! rule   = op ":" action
//! op     = "read" | "write" | "sync" | "truncate"
//! action = ERRNO "@" when [ "," "after=" BYTES ]   fail; a write first writes BYTES for real
//!        | "stall" "@" when                        block until released
//!        | "budget=" BYTES                         (write) ENOSPC once so many bytes are written
//!        | "volatile"                              (write) a crash takes back what is not synced
//! when   = N | N "-" M | N "-"                     the Nth such call, up to the Mth, or for ever
//! ```
//!
//! For example `write:enospc@3; sync:eio@1; read:stall@2; write:eio@5-8,after=4096`.

use std::fmt;
use std::str::FromStr;

use hearth_client::Errno;
use rustix::io::Errno as Sys;

/// Faults, and the calls at which they occur. Rules are tried in order; the first that fits a call
/// applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) op: Op,
    pub(super) action: Action,
}

/// Kinds of calls; each is numbered for itself, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
    Sync,
    Truncate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Fail {
        errno: ErrnoName,
        when: When,
        after: u64,
    },
    Stall {
        when: When,
    },
    Budget(u64),
    Volatile,
}

/// The calls `first` to `last` of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct When {
    first: u64,
    last: u64,
}

/// An error number that has a name in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ErrnoName(&'static str, Sys);

const ERRNOS: [ErrnoName; 14] = [
    ErrnoName("eacces", Sys::ACCESS),
    ErrnoName("eagain", Sys::AGAIN),
    ErrnoName("ebadf", Sys::BADF),
    ErrnoName("edquot", Sys::DQUOT),
    ErrnoName("efbig", Sys::FBIG),
    ErrnoName("eintr", Sys::INTR),
    ErrnoName("einval", Sys::INVAL),
    ErrnoName("eio", Sys::IO),
    ErrnoName("enospc", Sys::NOSPC),
    ErrnoName("enotconn", Sys::NOTCONN),
    ErrnoName("eperm", Sys::PERM),
    ErrnoName("erofs", Sys::ROFS),
    ErrnoName("estale", Sys::STALE),
    ErrnoName("etimedout", Sys::TIMEDOUT),
];

const OPS: [(&str, Op); 4] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("sync", Op::Sync),
    ("truncate", Op::Truncate),
];

/// Why a text is not a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The plan has no rule.
    #[error("fault plan is empty: expected rules such as `write:enospc@3`")]
    Empty,
    /// Not `op:action`.
    #[error("fault rule `{0}` is not `op:action`")]
    NoAction(String),
    /// No such kind of call.
    #[error("fault rule `{rule}`: unknown call `{op}`: expected read, write, sync or truncate")]
    UnknownOp {
        /// The whole rule.
        rule: String,
        /// The word that stands where the call should.
        op: String,
    },
    /// No such action, or no such error number.
    #[error(
        "fault rule `{rule}`: unknown action `{action}`: expected an error such as eio or enospc, \
         stall, budget=BYTES or volatile"
    )]
    UnknownAction {
        /// The whole rule.
        rule: String,
        /// The word that stands where the action should.
        action: String,
    },
    /// The action does not say to which calls it applies.
    #[error("fault rule `{0}` does not say when: add `@N`, `@N-M` or `@N-`")]
    NoWhen(String),
    /// The calls are not counted from 1, or end before they begin.
    #[error("fault rule `{rule}`: `@{when}` is not `@N`, `@N-M` or `@N-` with N from 1")]
    BadWhen {
        /// The whole rule.
        rule: String,
        /// The text after the `@`.
        when: String,
    },
    /// Not a number of bytes.
    #[error("fault rule `{rule}`: `{bytes}` is not a number of bytes")]
    BadBytes {
        /// The whole rule.
        rule: String,
        /// The word that stands where the number should.
        bytes: String,
    },
    /// The action makes sense for writes alone.
    #[error("fault rule `{0}`: budget, volatile and after are for writes")]
    WritesOnly(String),
}

impl ErrnoName {
    pub(super) fn errno(self) -> Errno {
        Errno(self.1.raw_os_error())
    }
}

impl When {
    pub(super) fn covers(self, call: u64) -> bool {
        (self.first..=self.last).contains(&call)
    }
}

impl FromStr for FaultPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let rules = text
            .split(';')
            .map(str::trim)
            .filter(|rule| !rule.is_empty());
        let rules = rules
            .map(parse_rule)
            .collect::<Result<Vec<Rule>, PlanError>>()?;
        if rules.is_empty() {
            Err(PlanError::Empty)
        } else {
            Ok(Self { rules })
        }
    }
}

fn parse_rule(rule: &str) -> Result<Rule, PlanError> {
    let (op, action) = rule
        .split_once(':')
        .ok_or_else(|| PlanError::NoAction(rule.to_owned()))?;
    let known = OPS.into_iter().find(|(name, _)| *name == op.trim());
    let (_, op) = known.ok_or_else(|| PlanError::UnknownOp {
        rule: rule.to_owned(),
        op: op.trim().to_owned(),
    })?;
    let action = parse_action(rule, action.trim())?;
    match action {
        Action::Fail { after: 0, .. } | Action::Stall { .. } => {}
        Action::Fail { .. } | Action::Budget(_) | Action::Volatile if op == Op::Write => {}
        Action::Fail { .. } | Action::Budget(_) | Action::Volatile => {
            return Err(PlanError::WritesOnly(rule.to_owned()));
        }
    }
    Ok(Rule { op, action })
}

fn parse_action(rule: &str, action: &str) -> Result<Action, PlanError> {
    if action == "volatile" {
        return Ok(Action::Volatile);
    }
    if let Some(bytes) = action.strip_prefix("budget=") {
        return Ok(Action::Budget(parse_bytes(rule, bytes)?));
    }
    let (what, when) = action.split_once('@').unwrap_or((action, ""));
    let (when, after) = when.split_once(",after=").unwrap_or((when, "0"));
    let errno = ERRNOS.into_iter().find(|errno| errno.0 == what);
    match errno {
        Some(errno) => {
            let (when, after) = (parse_when(rule, when)?, parse_bytes(rule, after)?);
            Ok(Action::Fail { errno, when, after })
        }
        None if what == "stall" => Ok(Action::Stall {
            when: parse_when(rule, when)?,
        }),
        None => {
            let action = what.to_owned();
            Err(PlanError::UnknownAction {
                rule: rule.to_owned(),
                action,
            })
        }
    }
}

fn parse_when(rule: &str, when: &str) -> Result<When, PlanError> {
    if when.is_empty() {
        return Err(PlanError::NoWhen(rule.to_owned()));
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let parsed = match when.split_once('-') {
        None => number(when).map(|only| When {
            first: only,
            last: only,
        }),
        Some((first, "")) => number(first).map(|first| When {
            first,
            last: u64::MAX,
        }),
        Some((first, last)) => number(first)
            .zip(number(last))
            .map(|(first, last)| When { first, last }),
    };
    parsed
        .filter(|when| when.first >= 1 && when.first <= when.last)
        .ok_or_else(|| PlanError::BadWhen {
            rule: rule.to_owned(),
            when: when.to_owned(),
        })
}

fn parse_bytes(rule: &str, bytes: &str) -> Result<u64, PlanError> {
    let error = || PlanError::BadBytes {
        rule: rule.to_owned(),
        bytes: bytes.to_owned(),
    };
    bytes.parse().map_err(|_| error())
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rule) in self.rules.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            write!(f, "{separator}{rule}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = OPS
            .iter()
            .find(|(_, op)| *op == self.op)
            .map(|(name, _)| *name);
        write!(f, "{}:", op.expect("every call has a name"))?;
        match self.action {
            Action::Fail {
                errno,
                when,
                after: 0,
            } => write!(f, "{}@{when}", errno.0),
            Action::Fail { errno, when, after } => write!(f, "{}@{when},after={after}", errno.0),
            Action::Stall { when } => write!(f, "stall@{when}"),
            Action::Budget(bytes) => write!(f, "budget={bytes}"),
            Action::Volatile => f.write_str("volatile"),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self {
                first,
                last: u64::MAX,
            } => write!(f, "{first}-"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_printed_as_it_is_written() {
        let plans = [
            "write:enospc@3",
            "write:enospc@3;sync:eio@1;read:stall@2;write:budget=1048576",
            "truncate:erofs@2-5;write:eio@7-,after=4096;write:volatile",
        ];
        for text in plans {
            assert_eq!(text.parse::<FaultPlan>().unwrap().to_string(), text);
        }
        let spaced: FaultPlan = " write: eio@1 ; ;sync:eio@2;".parse().unwrap();
        assert_eq!(spaced.to_string(), "write:eio@1;sync:eio@2");
    }

    #[test]
    fn what_is_wrong_with_a_plan_is_said() {
        let cases = [
            (
                "",
                "fault plan is empty: expected rules such as `write:enospc@3`",
            ),
            ("write", "fault rule `write` is not `op:action`"),
            (
                "erase:eio@1",
                "fault rule `erase:eio@1`: unknown call `erase`: expected read, write, sync or truncate",
            ),
            (
                "read:boom@1",
                "fault rule `read:boom@1`: unknown action `boom`: expected an error such as eio or \
                 enospc, stall, budget=BYTES or volatile",
            ),
            (
                "read:eio",
                "fault rule `read:eio` does not say when: add `@N`, `@N-M` or `@N-`",
            ),
            (
                "read:eio@0",
                "fault rule `read:eio@0`: `@0` is not `@N`, `@N-M` or `@N-` with N from 1",
            ),
            (
                "read:stall@5-4",
                "fault rule `read:stall@5-4`: `@5-4` is not `@N`, `@N-M` or `@N-` with N from 1",
            ),
            (
                "write:budget=1k",
                "fault rule `write:budget=1k`: `1k` is not a number of bytes",
            ),
            (
                "read:budget=10",
                "fault rule `read:budget=10`: budget, volatile and after are for writes",
            ),
            (
                "sync:eio@1,after=3",
                "fault rule `sync:eio@1,after=3`: budget, volatile and after are for writes",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(text.parse::<FaultPlan>().unwrap_err().to_string(), message);
        }
    }
}
