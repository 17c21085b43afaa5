//! Jobs that a real Slurm runs where `hearth place` says, by what the agents of its nodes hold.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/slurm.rs"]
mod slurm;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fixture::{Fixture, finish, program, skip, skipped, text, well};
use slurm::{PROGRAMS, Slurm};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const BYTES: u64 = 1 << 20;

/// A Slurm of three nodes, and an agent for each of them.
struct SlurmCluster {
    slurm: Slurm,
    fixture: Fixture,
}

impl SlurmCluster {
    /// None if it cannot be had here; the reason is told.
    fn start(test: &str) -> Option<SlurmCluster> {
        if skipped(test, &PROGRAMS) {
            return None;
        }
        let fixture = Fixture::new();
        match Slurm::start(&fixture.dir("slurm"), &NODES) {
            Ok(slurm) => {
                let cluster = SlurmCluster { slurm, fixture };
                let store = cluster.store();
                cluster.said(&[
                    "hearth", "up", "--agents", "3", "--policy", "local", "--store", &store,
                ]);
                Some(cluster)
            }
            Err(why) => {
                skip(test, &why);
                None
            }
        }
    }

    fn store(&self) -> String {
        self.fixture.store().display().to_string()
    }

    fn command(&self, words: &[&str]) -> Command {
        let named = if words[0] == "hearth" {
            program()
        } else {
            PathBuf::from(words[0])
        };
        let mut command = self.slurm.command(named, &words[1..]);
        command.env("HEARTH_DIR", self.fixture.path("control"));
        command
    }

    /// The output of a command within the cluster; it has to succeed.
    fn said(&self, words: &[&str]) -> String {
        let output = finish(&mut self.command(words));
        well(&output);
        text(&output.stdout)
    }

    /// Has a node write a file of the store, which its agent holds from then on.
    fn write(&self, node: usize, file: &str) {
        let (store, bytes) = (self.store(), BYTES.to_string());
        let script = r#"head -c "$1" /dev/zero > "$2""#;
        let words = [
            "hearth", "run", "--store", &store, "--", "sh", "-c", script, "sh", &bytes,
        ];
        let mut command = self.command(&[&words[..], &[&format!("{store}/{file}")]].concat());
        well(&finish(
            command.env("OMPI_COMM_WORLD_LOCAL_RANK", node.to_string()),
        ));
    }

    /// A script that says where it runs and reads a file through the agent there.
    fn script(&self, job: &str, file: &str) -> String {
        let (store, hearth) = (self.store(), program());
        let path = self.fixture.dir("jobs").join(format!("{job}.sh"));
        let text = format!(
            "#!/bin/sh\n#SBATCH --job-name={job}\nnode=$SLURMD_NODENAME\necho $node\n\
             export OMPI_COMM_WORLD_LOCAL_RANK=$((${{node#n}} - 1))\n\
             {hearth} run --store {store} -- cat {store}/{file} | wc -c\n",
            hearth = hearth.display()
        );
        fs::write(&path, text).expect("our own directory");
        path.display().to_string()
    }

    /// The output of `hearth place` about the scripts.
    fn placed(&self, options: &[&str]) -> String {
        let jobs = self.fixture.path("jobs").display().to_string();
        let place = ["hearth", "place", &jobs, "--nodes", "n1,n2,n3"];
        self.said(&[&place[..], options].concat()).trim().to_owned()
    }

    /// Submits a script with an option, and waits for its end; where it ran, and the bytes it read.
    fn ran(&self, script: &str, option: &str) -> (String, u64) {
        let out = format!("{script}.out");
        let mut words = vec!["sbatch", "--wait", "--output", &out];
        words.extend(Some(option).filter(|option| !option.is_empty()));
        words.push(script);
        self.said(&words);
        let out = fs::read_to_string(&out).expect("the job has an output");
        let mut words = out.split_whitespace();
        let (node, bytes) = (words.next(), words.next());
        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
        (node.expect(&out).to_owned(), bytes.expect(&out))
    }

    /// Bytes that came to programs of all nodes from other nodes and from the store.
    fn moved(&self) -> u64 {
        let lines = self.said(&["hearth", "status", "--json"]);
        let counters = lines.lines().map(|line| {
            let agent: serde_json::Value = serde_json::from_str(line).expect("one object a line");
            let of = |key: &str| agent["node"]["counters"][key].as_u64().expect("a number");
            of("peer_bytes") + of("store_read_bytes")
        });
        counters.sum()
    }

    /// Takes a node's only processor until the answer is dropped.
    fn occupy(&self, node: &str) -> Busy {
        let fifo = self.fixture.path(&format!("busy-{node}"));
        well(&finish(Command::new("mkfifo").arg(&fifo)));
        let wait = format!("cat {}", fifo.display());
        self.said(&[
            "sbatch",
            "--nodelist",
            node,
            "--output=/dev/null",
            "--wrap",
            &wait,
        ]);
        // Opening it waits for the job's own opening: from then on the node is busy.
        Busy(fs::File::options().write(true).open(fifo).expect("a pipe"))
    }
}

/// A job that runs until this is dropped.
struct Busy(#[expect(dead_code, reason = "closing it ends the job")] fs::File);

#[test]
fn slurm_runs_jobs_where_their_bytes_are() {
    let Some(cluster) = SlurmCluster::start("slurm_runs_jobs_where_their_bytes_are") else {
        return;
    };
    let jobs = [("first", "c", 2), ("second", "a", 0), ("third", "b", 1)];
    for (_, file, node) in jobs {
        cluster.write(node, file);
    }
    let scripts = jobs.map(|(job, file, _)| cluster.script(job, file));
    let before = cluster.moved();
    for ((job, _, node), script) in jobs.iter().zip(&scripts) {
        let option = cluster.placed(&["--seats", "slurm", "--as", "nodelist", "--job", job]);
        assert_eq!(option, format!("--nodelist={}", NODES[*node]));
        let ran = cluster.ran(script, &option);
        assert_eq!(ran, (NODES[*node].to_owned(), BYTES), "{job}");
    }
    assert_eq!(
        cluster.moved(),
        before,
        "every job found its bytes on its node"
    );
    no_job_waits_for_a_busy_node(&cluster, &scripts[0]);
    ranks_run_in_the_order_of_the_hostfile(&cluster);
    cluster.said(&["hearth", "down"]);
}

/// The node of the first job is busy. With each form of the output, the job runs at once, elsewhere.
fn no_job_waits_for_a_busy_node(cluster: &SlurmCluster, script: &str) {
    let busy = cluster.occupy("n3");
    let of_first = |form: &str| ["--as", form, "--job", "first"].map(str::to_owned);
    let placed = |form: &str, more: &[&str]| {
        let words = of_first(form);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cluster.placed(&[&words[..], more].concat())
    };
    let option = placed("nodelist", &["--seats", "slurm"]);
    assert_eq!(
        option, "",
        "n3 takes no job now, and nobody else has the bytes"
    );
    assert_ne!(cluster.ran(script, &option).0, "n3");
    let preferred = placed("prefer", &[]);
    assert_eq!(preferred, "--prefer=n3");
    assert_ne!(cluster.ran(script, &preferred).0, "n3");
    drop(busy);
}

fn ranks_run_in_the_order_of_the_hostfile(cluster: &SlurmCluster) {
    for (node, file) in [(1, "part-0"), (0, "part-1"), (2, "part-2")] {
        cluster.write(node, file);
    }
    let (jobs, now) = (
        cluster.fixture.path("ranks"),
        cluster.fixture.path("now.json"),
    );
    fs::write(&jobs, "job solve ranks 3 reads part-{rank}\n").expect("our own directory");
    let words = [
        "srun",
        "--nodelist=n2",
        program().to_str().expect("its path is text"),
    ]
    .map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let told = cluster.said(
        &[
            &words[..],
            &["place", "--nodes", "n1,n2,n3", "--as", "residency"],
        ]
        .concat(),
    );
    fs::write(&now, told).expect("our own directory");
    let [jobs, now] = [jobs, now].map(|path| path.display().to_string());
    let place = [
        "hearth",
        "place",
        &jobs,
        "--residency",
        &now,
        "--as",
        "hostfile",
    ];
    let hosts = cluster.said(&place);
    assert_eq!(hosts, "n2\nn1\nn3\n");
    let hostfile = cluster.fixture.path("hosts");
    fs::write(&hostfile, hosts).expect("our own directory");
    let say = "echo $SLURM_PROCID $SLURMD_NODENAME";
    let mut ranks = cluster.command(&["srun", "-n3", "--distribution=arbitrary", "sh", "-c", say]);
    let output = finish(ranks.env("SLURM_HOSTFILE", hostfile));
    well(&output);
    let mut ran: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["0 n2", "1 n1", "2 n3"]);
}
