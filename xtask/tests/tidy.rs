//! Every check, over this repository: one test each, so that a failure has a name.

use xtask::{CHECKS, Repo, check_named};

fn assert_tidy(name: &str) {
    let check = check_named(name).expect("the test names a check");
    let verdict = (check.run)(&Repo::here().expect("the repository can be read"));
    let findings: Vec<String> = verdict.findings.iter().map(ToString::to_string).collect();
    assert!(
        findings.is_empty(),
        "{name} fires:\n{}",
        findings.join("\n")
    );
}

macro_rules! one_test_each {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            assert_tidy($name);
        })*

        #[test]
        fn every_check_has_a_test() {
            let names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}

one_test_each! {
    crates_use_only_what_the_table_allows: "graph",
    nothing_shipped_has_the_laboratory: "product",
    crates_say_what_they_are: "describe",
    pure_crates_are_pure: "purity",
    unsafe_code_is_listed_and_argued: "unsafety",
    functions_and_files_are_short: "length",
    forbidden_words_are_absent: "words",
    links_lead_somewhere: "links",
    promises_are_cited: "promises",
    invariants_are_stated_once: "ids",
    exported_types_have_a_name_each: "names",
    sentences_are_plain: "prose",
    new_commits_have_plain_subjects: "commits",
}
