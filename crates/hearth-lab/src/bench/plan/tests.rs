//! Every option of every benchmark changes what is done, or is refused by its name.

use super::super::options::Args;
use super::of;
use clap::{CommandFactory, Parser};
use std::collections::BTreeSet;

#[derive(Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(flatten)]
    args: Args,
}

/// Options that are tried together at most.
const TOGETHER: usize = 3;

/// An option with a value that it does not have by itself.
type Given = (String, Option<&'static str>);

/// Values to try an option with; a switch has none.
fn values(bench: &str, option: &str) -> &'static [&'static str] {
    match option {
        "store" if bench == "logging" => &["posix"],
        "store" => &["posix", "gluster", "model:service_us=100"],
        "policy" if bench == "bank-faults" => &["bank:paper"],
        "policy" => &["single", "bank"],
        "class" => &["S", "A"],
        "mode" => &["epio"],
        "dumps" => &["5"],
        "ranks" => &["9"],
        "mpi" => &["mpich"],
        "link" => &["200mbit"],
        "disk" => &["100MiB"],
        "clients" => &["3"],
        "schedules" => &["5"],
        "seed" => &["7"],
        "replicas" => &["none", "sync:2"],
        "quick" | "json" => &[],
        _ => panic!("no value to try --{option} with"),
    }
}

fn benches() -> Vec<clap::Command> {
    Cli::command().get_subcommands().cloned().collect()
}

fn options_of(bench: &clap::Command) -> BTreeSet<String> {
    let named = bench.get_arguments().filter_map(|arg| arg.get_long());
    let own = named.filter(|long| *long != "help");
    own.map(str::to_owned).collect()
}

/// A run's plan in words, or why there is none.
fn plan(bench: &str, given: &[Given]) -> Result<String, String> {
    let words = given.iter().flat_map(|(option, value)| {
        let value = value.map(str::to_owned);
        [Some(format!("--{option}")), value].into_iter().flatten()
    });
    let start = ["bench", bench].map(str::to_owned);
    let cli = Cli::try_parse_from(start.into_iter().chain(words));
    let cli = cli.map_err(|error| error.to_string())?;
    let plan = of(&cli.args).map_err(|failure| failure.to_string())?;
    Ok(format!("{plan:?}"))
}

/// All sets of these options with each of their values, of so many at most.
fn sets(bench: &str, options: &[String], most: usize) -> Vec<Vec<Given>> {
    let Some((first, rest)) = options.split_first().filter(|_| most > 0) else {
        return vec![Vec::new()];
    };
    let mut all = sets(bench, rest, most);
    let with: Vec<Vec<Given>> = sets(bench, rest, most - 1);
    for way in ways(bench, first) {
        for set in &with {
            all.push([&set[..], std::slice::from_ref(&way)].concat());
        }
    }
    all
}

/// True if a refusal names one of the options, and says what to type.
fn helps(refusal: &str, given: &[Given]) -> bool {
    let names = |(option, _): &Given| refusal.contains(&format!("--{option}"));
    let hints = ["hint:", "type --", "--help"];
    given.iter().any(names) && hints.iter().any(|hint| refusal.contains(hint))
}

/// All ways to give an option.
fn ways(bench: &str, option: &str) -> Vec<Given> {
    let tried = match values(bench, option) {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let given = |value| (option.to_owned(), value);
    tried.into_iter().map(given).collect()
}

#[test]
fn each_option_changes_the_plan_or_is_refused_by_name() {
    for bench in benches() {
        let name = bench.get_name();
        let options: Vec<String> = options_of(&bench).into_iter().collect();
        for others in sets(name, &options, TOGETHER - 1) {
            let Ok(without) = plan(name, &others) else {
                continue;
            };
            let is_new = |option: &&String| others.iter().all(|(known, _)| known != *option);
            for option in options.iter().filter(is_new) {
                let with = ways(name, option).into_iter().map(|way| {
                    let given = [&others[..], &[way]].concat();
                    let with = plan(name, &given);
                    let refusal = with.as_ref().err();
                    assert!(
                        refusal.is_none_or(|words| helps(words, &given)),
                        "{name} {given:?}: {refusal:?}"
                    );
                    with
                });
                // One of the values may be that which it has by itself.
                let plans: BTreeSet<Result<String, String>> = with.collect();
                let changes = plans.iter().any(|with| with.as_ref() != Ok(&without));
                assert!(changes, "{name} {others:?}: --{option} changes nothing");
            }
        }
    }
}

#[test]
fn an_option_of_another_benchmark_is_refused_by_name() {
    let benches = benches();
    let all: BTreeSet<String> = benches.iter().flat_map(options_of).collect();
    assert!(all.contains("clients") && all.contains("link"), "{all:?}");
    for bench in &benches {
        let name = bench.get_name();
        for option in all.difference(&options_of(bench)) {
            let value = values(name, option).first().copied();
            let given = [(option.clone(), value)];
            let refusal = plan(name, &given).expect_err("it would be ignored");
            assert!(helps(&refusal, &given), "{name}: {refusal}");
        }
    }
}
