//! A network of one namespace for each agent, whose ways can be cut one by one. Needs root and `ip`.

use std::io;
use std::process::Command;
use std::time::Duration;

use super::process::bounded;

const SUBNET: &str = "10.78.0";
const MOST: Duration = Duration::from_secs(20);

/// The namespaces; they go with this value.
#[derive(Debug)]
pub(crate) struct Net {
    tag: String,
    hosts: usize,
}

/// Which packets of a host are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Those to it.
    In,
    /// Those from it.
    Out,
    /// All.
    Both,
}

impl Net {
    /// Builds one; its names begin with this process's number.
    pub(crate) fn new(hosts: usize) -> io::Result<Net> {
        let net = Net {
            tag: format!("lab{}", std::process::id()),
            hosts,
        };
        let switch = net.name("switch");
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "br0", "up"])?;
        for host in 0..hosts {
            let name = net.host(host);
            let port = format!("port{host}");
            ip(&["netns", "add", &name])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&[
                "-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "eth0",
                "netns", &name,
            ])?;
            ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"])?;
            ip(&[
                "-n",
                &name,
                "addr",
                "add",
                &format!("{}/24", address(host)),
                "dev",
                "eth0",
            ])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        }
        Ok(net)
    }

    fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.tag)
    }

    fn host(&self, host: usize) -> String {
        self.name(&host.to_string())
    }

    /// The address on which each host listens.
    pub(crate) fn addresses(&self) -> Vec<String> {
        (0..self.hosts)
            .map(|host| format!("{}:7000", address(host)))
            .collect()
    }

    /// A command that runs the program after it on a host. Mounts are seen outside.
    pub(crate) fn command(&self, host: usize) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.host(host)));
        command
    }

    /// Cuts a host off from all others; the routes it takes away are kept in the table as holes.
    pub(crate) fn cut(&self, host: usize, cut: Cut) -> io::Result<()> {
        self.routes(host, cut, "add")
    }

    /// Takes such a cut back.
    pub(crate) fn heal(&self, host: usize, cut: Cut) -> io::Result<()> {
        self.routes(host, cut, "del")
    }

    fn routes(&self, host: usize, cut: Cut, what: &str) -> io::Result<()> {
        for other in (0..self.hosts).filter(|other| *other != host) {
            if cut != Cut::In {
                ip(&[
                    "-n",
                    &self.host(host),
                    "route",
                    what,
                    "blackhole",
                    &address(other),
                ])?;
            }
            if cut != Cut::Out {
                ip(&[
                    "-n",
                    &self.host(other),
                    "route",
                    what,
                    "blackhole",
                    &address(host),
                ])?;
            }
        }
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in 0..self.hosts {
            let _ = ip(&["netns", "del", &self.host(host)]);
        }
        let _ = ip(&["netns", "del", &self.name("switch")]);
    }
}

fn address(host: usize) -> String {
    format!("{SUBNET}.{}", host + 1)
}

fn ip(args: &[&str]) -> io::Result<()> {
    let done = bounded(Command::new("ip").args(args), MOST)?;
    match done.code {
        Some(0) => Ok(()),
        _ => Err(io::Error::other(format!(
            "ip {}: {}",
            args.join(" "),
            done.err
        ))),
    }
}
