//! The list of hosts of a set, as people give it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use hearth_client::words::counted;

use hearth_set::failure::{Failure, OrFail};

/// How entries are written.
const FORM: &str = "hosts are written as NAME:PORT, each once, with commas between them";

/// The places at which agents listen. Fails where agents could not find each other, before any of them waits for the others.
pub(crate) fn resolve(hosts: &[String], node: u32) -> Result<Vec<SocketAddr>, Failure> {
    if node as usize >= hosts.len() {
        let count = counted(hosts.len(), "host");
        return Err(Failure::new(format!(
            "--node {node} is not in the list of {count}: places are counted from 0"
        ))
        .hint("give each host its own place in the list: --node 0 on the first"));
    }
    let members: Vec<SocketAddr> = hosts
        .iter()
        .map(|host| find(host))
        .collect::<Result<_, _>>()?;
    for (at, member) in members.iter().enumerate() {
        if let Some(first) = members[..at].iter().position(|other| other == member) {
            return Err(twice((hosts, first, at), *member));
        }
    }
    Ok(members)
}

fn find(host: &str) -> Result<SocketAddr, Failure> {
    let what = || format!("cannot use `{host}` in --hosts");
    let refuse = |cause: &str| Err(Failure::new(what()).cause(cause).hint(FORM));
    let Some((name, port)) = host.rsplit_once(':') else {
        return refuse(if host.is_empty() {
            "an entry is empty"
        } else {
            "it names no port"
        });
    };
    match (name.is_empty(), port.parse::<u16>()) {
        (true, _) => return refuse("it names no host"),
        (_, Err(_)) => return refuse("its port is no number from 1 to 65535"),
        (_, Ok(0)) => return refuse("others cannot find an agent at port 0"),
        (false, Ok(_)) => {}
    }
    let mut found = host
        .to_socket_addrs()
        .or_fail(|| format!("cannot find host `{host}`"))
        .map_err(|failure| failure.hint(FORM))?;
    let Some(found) = found.next() else {
        return refuse("the name has no address");
    };
    match found.ip() {
        ip if ip.is_unspecified() => refuse("others cannot find an agent at that address"),
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(found),
    }
}

/// Two agents cannot listen at one place; the others would wait for the second.
fn twice((hosts, first, second): (&[String], usize, usize), member: SocketAddr) -> Failure {
    let (one, other) = (&hosts[first], &hosts[second]);
    let failure = match one == other {
        true => Failure::new(format!("`{one}` is in --hosts twice")),
        false => Failure::new(format!(
            "`{one}` and `{other}` in --hosts are both {member}"
        )),
    };
    failure
        .cause(format!(
            "they are agents {first} and {second}, and one place has one agent"
        ))
        .hint("name each host once; two agents of one host need two ports")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(hosts: &str, node: u32) -> String {
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        resolve(&hosts, node)
            .map_or_else(|failure| failure.to_string(), |found| format!("{found:?}"))
    }

    #[test]
    fn a_list_that_agents_could_not_meet_by_is_refused() {
        for (hosts, node, words) in [
            (
                "127.0.0.1:7,127.0.0.2:7,127.0.0.1:7",
                0,
                "`127.0.0.1:7` is in --hosts twice",
            ),
            ("127.0.0.1:7,127.1:7", 0, "are both 127.0.0.1:7"),
            (
                "127.0.0.1:7,127.0.0.1:8",
                2,
                "--node 2 is not in the list of 2 hosts",
            ),
            ("127.0.0.1:7", 1, "--node 1 is not in the list of 1 host:"),
            ("127.0.0.1:7,", 0, "an entry is empty"),
            (",127.0.0.1:7", 0, "an entry is empty"),
            ("127.0.0.1", 0, "it names no port"),
            ("127.0.0.1:", 0, "its port is no number"),
            ("127.0.0.1:x", 0, "its port is no number"),
            ("127.0.0.1:65536", 0, "its port is no number"),
            ("127.0.0.1:-1", 0, "its port is no number"),
            ("127.0.0.1:0,127.0.0.2:7", 1, "port 0"),
            (":7", 0, "it names no host"),
            ("0.0.0.0:7,127.0.0.1:7", 1, "at that address"),
            (
                "no.such.host.invalid:7",
                0,
                "cannot find host `no.such.host.invalid:7`",
            ),
        ] {
            let said = refused(hosts, node);
            assert!(said.contains(words), "{hosts}: {said}");
            assert!(said.contains("hint: "), "{hosts}: {said}");
        }
    }

    #[test]
    fn a_good_list_is_taken_in_its_order() {
        let said = refused("127.0.0.2:7,127.0.0.1:7,127.0.0.1:8,[::1]:7", 3);
        assert_eq!(said, "[127.0.0.2:7, 127.0.0.1:7, 127.0.0.1:8, [::1]:7]");
    }
}
