//! The plan of a round, all of it from its seed and the options of the caller.

use clap::ValueEnum as _;

use super::check::{Level, Promise};
use super::net::Cut;
use super::worker::{KINDS, Kind, Maps, Way};
use crate::random::Random;

/// The fault that strikes the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nemesis {
    /// No fault.
    None,
    /// Busy processes take the processors.
    Load,
    /// An agent is killed.
    Kill,
    /// An agent is killed and started again.
    Restart,
    /// An agent stands still for some seconds.
    Stop(u64),
    /// An agent's network is cut.
    Cut(Cut),
    /// The store is full for a while.
    Full,
    /// Calls of the store fail.
    Fail,
    /// The laboratory itself takes confirmed bytes from the store; its checkers must see it.
    Lie,
}

impl Nemesis {
    /// True if an agent that others take for dead lives and may go on by itself: nothing stops it (S35).
    fn goes_on_alone(self) -> bool {
        matches!(self, Nemesis::Cut(_) | Nemesis::Stop(6..))
    }
}

/// All of them by name, but for the lie.
pub(crate) const NEMESES: [(&str, Nemesis); 12] = [
    ("none", Nemesis::None),
    ("load", Nemesis::Load),
    ("kill", Nemesis::Kill),
    ("restart", Nemesis::Restart),
    ("stop-3", Nemesis::Stop(3)),
    ("stop-10", Nemesis::Stop(10)),
    ("stop-30", Nemesis::Stop(30)),
    ("cut-in", Nemesis::Cut(Cut::In)),
    ("cut-out", Nemesis::Cut(Cut::Out)),
    ("cut-both", Nemesis::Cut(Cut::Both)),
    ("full", Nemesis::Full),
    ("fail", Nemesis::Fail),
];

/// The name of the lie.
pub(crate) const LIE: &str = "lie";

/// One round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) policy: String,
    pub(crate) level: String,
    pub(crate) nemesis: Nemesis,
    pub(crate) nemesis_name: String,
    /// Options of `hearth up`.
    pub(crate) options: Vec<String>,
    pub(crate) nodes: usize,
    /// The agent that the nemesis is after.
    pub(crate) target: usize,
    /// Beside each agent: how its programs reach the cache, and whether they map files.
    pub(crate) programs: Vec<(usize, Way, Maps)>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) page: u64,
    pub(crate) promise: Promise,
}

/// Choices that the caller left to the seed.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) policies: Vec<String>,
    pub(crate) levels: Vec<String>,
    pub(crate) nemeses: Vec<String>,
    /// Work of the programs; the seed chooses it if there is none.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) nodes: usize,
    /// Seconds of work before and after each fault.
    pub(crate) seconds: u64,
    /// Busy processes beside every round.
    pub(crate) load: usize,
    /// Options of `hearth up` for every round.
    pub(crate) extra: Vec<String>,
}

impl Plan {
    /// The round of a seed.
    pub(crate) fn of(seed: u64, choices: &Choices) -> Plan {
        let mut random = Random::of(seed, 1);
        let given = |name: &str| value_of(&choices.extra, name);
        let fitting = fitting(&choices.policies, given("--membership"));
        let policy = *random.pick(&fitting);
        let policy = given("--policy").unwrap_or(policy).to_owned();
        let nemesis_name = random.pick(&choices.nemeses).clone();
        let mut nemesis = nemesis_of(&nemesis_name).unwrap_or(Nemesis::None);
        if policy == "bank" && matches!(nemesis, Nemesis::Cut(_)) {
            // The daemon that all share would be behind the cut as well.
            nemesis = Nemesis::Kill;
        }
        let level = random.pick(&choices.levels).as_str();
        let level = level_for(&policy, given("--semantics").unwrap_or(level));
        let mut random = Random::of(seed, 2);
        let page = *random.pick(&[16_u64, 64, 256]) << 10;
        let mut options: Vec<String> = ["--policy", &policy, "--semantics", &level, "--page-size"]
            .map(str::to_owned)
            .to_vec();
        options.push(format!("{}KiB", page >> 10));
        options.extend(["--pool".into(), "64MiB".into()]);
        more_options(&mut random, &policy, &level, nemesis, &mut options);
        if given("--membership").is_none() && Random::of(seed, 3).chance(33) {
            options.extend(["--membership", "static"].map(str::to_owned));
        }
        // An option that was asked for takes the place of the seed's.
        let mut options: Vec<String> = options
            .chunks(2)
            .filter(|pair| given(&pair[0]).is_none())
            .flatten()
            .cloned()
            .collect();
        options.extend(choices.extra.iter().cloned());
        let mut kinds = match random.chance(60) {
            true => KINDS.to_vec(),
            false => vec![*random.pick(&KINDS), *random.pick(&KINDS)],
        };
        if !choices.kinds.is_empty() {
            kinds.clone_from(&choices.kinds);
        }
        Plan {
            seed,
            promise: promise(&policy, &level, nemesis, &options),
            level,
            nemesis,
            nemesis_name,
            options,
            nodes: choices.nodes,
            target: random.below(choices.nodes as u64) as usize,
            programs: programs(&mut random, choices.nodes, &policy),
            kinds,
            page,
            policy,
        }
    }

    /// The round in words.
    pub(crate) fn words(&self) -> String {
        let ways: Vec<String> = self
            .programs
            .iter()
            .map(|(node, way, maps)| {
                let maps = if *maps == Maps::Reads { "+map" } else { "" };
                let way = if *way == Way::Run { "run" } else { "mount" };
                format!("{node}:{way}{maps}")
            })
            .collect();
        format!(
            "seed {} policy {} level {} nemesis {} (agent {}) programs {} kinds {:?} options {}",
            self.seed,
            self.policy,
            self.level,
            self.nemesis_name,
            self.target,
            ways.join(" "),
            self.kinds,
            self.options.join(" ")
        )
    }

    /// The command that runs the round again.
    pub(crate) fn again(&self, choices: &Choices) -> String {
        let mut words = format!(
            "hearth-lab torture --rounds 1 --seed {} --policy {} --level {} --nemesis {} --agents {} --seconds {}",
            self.seed, self.policy, self.level, self.nemesis_name, self.nodes, choices.seconds
        );
        if choices.load > 0 {
            words += &format!(" --load {}", choices.load);
        }
        for kind in choices
            .kinds
            .iter()
            .filter_map(|kind| kind.to_possible_value())
        {
            words += &format!(" --kind {}", kind.get_name());
        }
        if !choices.extra.is_empty() {
            words += &format!(" -- {}", choices.extra.join(" "));
        }
        words
    }
}

/// The policies that such sets can have: where members may change there are no daemons. All, if none fits.
fn fitting<'a>(policies: &'a [String], membership: Option<&str>) -> Vec<&'a str> {
    let all = || policies.iter().map(String::as_str);
    let fits = |policy: &&str| membership != Some("embedded") || !policy.starts_with("bank");
    let fitting: Vec<&str> = all().filter(fits).collect();
    match fitting.is_empty() {
        true => all().collect(),
        false => fitting,
    }
}

/// A nemesis by its name.
pub(crate) fn nemesis_of(name: &str) -> Option<Nemesis> {
    if name == LIE {
        return Some(Nemesis::Lie);
    }
    NEMESES
        .iter()
        .find(|(of, _)| *of == name)
        .map(|(_, nemesis)| *nemesis)
}

/// The value of an option, as `--name value` or `--name=value`: the last one, if it is given several times.
fn value_of<'a>(options: &'a [String], name: &str) -> Option<&'a str> {
    let joined = |word: &'a String| word.strip_prefix(name)?.strip_prefix('=');
    let value = |at: usize| match options[at] == name {
        true => options.get(at + 1).map(String::as_str),
        false => joined(&options[at]),
    };
    (0..options.len()).rev().find_map(value)
}

/// The promises of a set that is started with these options.
fn promise(policy: &str, level: &str, nemesis: Nemesis, options: &[String]) -> Promise {
    let replicas = value_of(options, "--replicas");
    Promise {
        level: strength(level),
        close_brings: policy != "local" && value_of(options, "--close") != Some("buffered"),
        write_brings: matches!(policy, "hint" | "bank" | "none"),
        pages_are_whole: policy != "none",
        outlives: replicas.is_some_and(|word| word.starts_with("sync")) && !nemesis.goes_on_alone(),
        calls_are_one: value_of(options, "--atomic") == Some("call"),
    }
}

/// Levels below `posix` change something under two policies alone.
fn level_for(policy: &str, level: &str) -> String {
    let is_weak = strength(level) != Level::Strict;
    if is_weak && !matches!(policy, "home" | "local") {
        "posix".into()
    } else {
        level.into()
    }
}

fn strength(level: &str) -> Level {
    match level {
        "cto" => Level::Opened,
        "mpi" => Level::Synced,
        "commit" => Level::Own,
        _ => Level::Strict,
    }
}

/// Options that a seed adds: whether close waits for nothing, and whether replicas are kept.
fn more_options(
    random: &mut Random,
    policy: &str,
    level: &str,
    nemesis: Nemesis,
    options: &mut Vec<String>,
) {
    let mut add = |words: &[&str]| options.extend(words.iter().map(|word| (*word).to_owned()));
    let (buffered, tier, replicas, whole, transport) = (
        random.chance(25),
        random.chance(30),
        random.chance(40),
        random.chance(15),
        random.below(3),
    );
    match nemesis {
        // Agents of one host would talk past the network that is cut.
        Nemesis::Cut(_) => add(&["--transport", "tcp"]),
        _ => add(&["--transport", ["unix", "tcp", "shm"][transport as usize]]),
    }
    if buffered {
        add(&["--close", "buffered"]);
    }
    let is_local = policy == "local";
    if is_local && tier {
        add(&["--tier", "TIER"]);
    }
    if is_local && replicas && level == "posix" {
        add(&["--replicas", "sync:1"]);
    }
    if whole && matches!(policy, "home" | "home:plus" | "single" | "local") && level == "posix" {
        add(&["--atomic", "call"]);
    }
    if nemesis == Nemesis::Fail {
        let first = 20 + random.below(60);
        let last = first + 1 + random.below(40);
        let sync = 3 + random.below(10);
        let plan = format!("fault:write:eio@{first}-{last};sync:eio@{sync}");
        add(&["--backing", &plan]);
    }
}

/// Two programs beside each agent: the first in its mount, the second by chance under `hearth run`.
fn programs(random: &mut Random, nodes: usize, policy: &str) -> Vec<(usize, Way, Maps)> {
    let mut programs = Vec::new();
    for node in 0..nodes {
        for second in [false, true] {
            let way = if second && random.chance(60) {
                Way::Run
            } else {
                Way::Mount
            };
            let maps = if random.chance(40) && policy != "none" {
                Maps::Reads
            } else {
                Maps::None
            };
            programs.push((node, way, maps));
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 40;

    /// The rounds of some seeds with options of the caller.
    fn choices(policy: &str, extra: &[&str]) -> Choices {
        Choices {
            policies: vec![policy.into()],
            levels: vec!["posix".into()],
            nemeses: vec!["kill".into()],
            kinds: Vec::new(),
            nodes: 3,
            seconds: 1,
            load: 0,
            extra: extra.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    fn plans(policy: &str, extra: &[&str]) -> Vec<Plan> {
        let choices = choices(policy, extra);
        (0..SEEDS).map(|seed| Plan::of(seed, &choices)).collect()
    }

    #[test]
    fn sets_whose_members_change_have_no_daemons() {
        let policies = ["bank", "home"].map(str::to_owned);
        let drawn = |membership| {
            let choices = Choices {
                policies: policies.to_vec(),
                extra: vec!["--membership".to_owned(), String::from(membership)],
                ..choices("home", &[])
            };
            let has_bank = |seed| Plan::of(seed, &choices).policy == "bank";
            (0..SEEDS).any(has_bank)
        };
        assert!(!drawn("embedded"));
        assert!(drawn("static"));
    }

    /// True if a promise is made in all rounds, whichever form the option has.
    fn always(policy: &str, name: &str, value: &str, is_so: impl Fn(&Plan) -> bool) -> bool {
        let joined = format!("{name}={value}");
        let given = |plan: &Plan| value_of(&plan.options, name) == Some(value);
        let once = |plan: &Plan| plan.options.iter().filter(|o| o.starts_with(name)).count() == 1;
        let all = [plans(policy, &[name, value]), plans(policy, &[&joined])].concat();
        all.iter()
            .all(|plan| given(plan) && once(plan) && is_so(plan))
    }

    #[test]
    fn replicas_of_the_caller_say_whether_bytes_outlive_a_death() {
        let outlives = |plan: &Plan| plan.promise.outlives;
        assert!(always("local", "--replicas", "sync:1", outlives));
        assert!(always("local", "--replicas", "none", |plan| !outlives(
            plan
        )));
    }

    #[test]
    fn the_close_of_the_caller_says_whether_it_brings_bytes() {
        let brings = |plan: &Plan| plan.promise.close_brings;
        assert!(always("home", "--close", "flushed", brings));
        assert!(always("home", "--close", "buffered", |plan| !brings(plan)));
    }

    #[test]
    fn the_level_of_the_caller_is_checked() {
        let level = |level| move |plan: &Plan| plan.promise.level == level;
        assert!(always("home", "--semantics", "cto", level(Level::Opened)));
        assert!(always("hint", "--semantics", "cto", level(Level::Strict)));
    }

    #[test]
    fn the_policy_of_the_caller_is_checked() {
        let writes = |plan: &Plan| plan.promise.write_brings && plan.policy == "hint";
        assert!(always("home", "--policy", "hint", writes));
    }
}
