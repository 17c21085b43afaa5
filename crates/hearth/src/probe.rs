//! Measures the behaviour of a store.
//!
//! Each client of the store is a process ([`hand`]) that is told one operation at a time ([`client`]).
//! [`alone`] asks one of them, [`between`] two, and [`verdict`] says what the answers mean. All files
//! of probes are in one hidden directory of the store, which goes at the end.
//!
//! Bounds: [`SPAN_MAX`] for everything, a few seconds for each operation. A client that does not
//! answer is given up, and what it should have shown is unknown.

mod alone;
mod between;
mod client;
mod hand;
pub(crate) mod known;
mod op;
mod sys;
mod value;
pub(crate) mod verdict;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Client, Miss};
pub(crate) use hand::serve;
use hearth_set::failure::Failure;
use hearth_set::mountinfo;
use op::Op;
pub(crate) use value::{Findings, Value};

/// Longest measurement of one store.
const SPAN_MAX: Duration = Duration::from_secs(26);

/// For what is removed at the end.
const CLEAN_UP_MAX: Duration = Duration::from_secs(4);

/// Somebody else who uses the same store.
#[derive(Clone, Debug)]
pub(crate) enum Other {
    /// Another mount of it on this machine.
    Mount(PathBuf),
    /// A host that has it at the same path.
    Host(String),
}

/// Measures what a store does, as seen by a client at `store` and by others.
pub(crate) fn measure(store: &Path, others: &[Other]) -> Result<Findings, Failure> {
    let end = Instant::now() + SPAN_MAX;
    let mut one = Client::here(store, end)?;
    let hidden = format!(".hearth-doctor-{}", std::process::id());
    one.run(&Op::MakeDir(hidden.clone())).map_err(|miss| {
        Failure::new(format!("cannot measure `{}`", store.display()))
            .cause(format!("no directory can be made there: {miss}"))
    })?;
    let _probe_directory = ProbeDirectory {
        store,
        name: &hidden,
    };
    one.go_below(&hidden);
    let mut findings = Findings::default();
    kind(&mut one, store, &mut findings);
    let mut clients = Vec::new();
    for other in others {
        clients.push(join(other, &hidden, (store, end))?);
    }
    let numbers = match clients.is_empty() {
        true => Value::Unknown("needs a second client: --also or --hosts".to_owned()),
        false => {
            let told = between::same_numbers(&mut one, &mut clients);
            Value::so(told, "they differ")
        }
    };
    let words = "inode numbers are equal between clients";
    findings.add("inodes-equal", words, numbers);
    alone::measure(&mut one, &mut findings);
    if let Some(other) = clients.first_mut() {
        between::measure(&mut one, other, &mut findings);
    }
    Ok(findings)
}

/// Removes what probes made, by a client of its own: the others may hang.
struct ProbeDirectory<'a> {
    store: &'a Path,
    name: &'a str,
}

impl Drop for ProbeDirectory<'_> {
    fn drop(&mut self) {
        let client = Client::here(self.store, Instant::now() + CLEAN_UP_MAX);
        let Ok(mut client) = client else { return };
        // Names that another client has just removed may still be listed here.
        for _ in 0..2 {
            if client.run(&Op::Clear(self.name.to_owned())).is_ok() {
                return;
            }
        }
        let left = self.store.join(self.name);
        hearth_client::say!("warning: `{}` could not be removed", left.display());
    }
}

fn kind(one: &mut Client, store: &Path, findings: &mut Findings) {
    let mount = mountinfo::holding(store).ok().flatten();
    let kind = mount.map_or_else(|| "unknown".to_owned(), |mount| mount.kind);
    let magic = one.number(&Op::Magic(".".to_owned()));
    let words = match magic {
        Ok(magic) => format!("{kind} ({magic:#x})"),
        Err(_) => kind,
    };
    findings.add("type", "type", Value::Is(words));
}

/// A client that sees the directory of probes.
fn join(other: &Other, hidden: &str, (store, end): (&Path, Instant)) -> Result<Client, Failure> {
    let (mut client, place) = match other {
        Other::Mount(dir) => (Client::here(dir, end)?, dir.display().to_string()),
        Other::Host(host) => (Client::on(host, store, end)?, host.clone()),
    };
    match between::wait_for(&mut client, hidden) {
        Ok(_) => {
            client.go_below(hidden);
            Ok(client)
        }
        Err(miss) => {
            let cause = match miss {
                Miss::Silent => "no client answers there".to_owned(),
                Miss::Error(_) => format!("what is made in the store does not show there: {miss}"),
            };
            Err(Failure::new(format!("cannot measure the store by `{place}`")).cause(cause))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_have_one_name_each() {
        let mut findings = Findings::default();
        assert_eq!(
            findings.value("type"),
            Value::Unknown("not measured".to_owned())
        );
        findings.add("type", "type", Value::Is("ext4".to_owned()));
        assert_eq!(findings.value("type").to_string(), "ext4");
        assert_eq!(findings.all().len(), 1);
    }
}
