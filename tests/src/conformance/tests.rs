//! When a scenario counts as held.

use super::Expected::{Except, Outside, Passes, Skipped};
use super::*;

fn checks(statuses: &[(&str, &str)]) -> Vec<Check> {
    let check = |(id, status): &(&str, &str)| Check {
        id: (*id).to_owned(),
        status: (*status).to_owned(),
        message: String::new(),
    };
    statuses.iter().map(check).collect()
}

#[test]
fn a_scenario_needs_a_successful_check() {
    type Row<'a> = (&'a str, Option<Expected>, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let except = Some(Except(&["a"], "reason"));
    let table: &[Row<'_>] = &[
        ("not listed", None, &[("a", "SUCCESS")], &["not in the list"]),
        ("passes", Some(Passes), &[("a", "SUCCESS"), ("b", "INFO"), ("c", "SKIPPED")], &[]),
        ("fails", Some(Passes), &[("a", "SUCCESS"), ("b", "FAILURE")], &["FAILURE b"]),
        ("warns", Some(Passes), &[("a", "SUCCESS"), ("b", "WARNING")], &["WARNING b"]),
        ("passes without a check", Some(Passes), &[], &["no check succeeds"]),
        ("passes by skipping", Some(Passes), &[("a", "SKIPPED"), ("b", "INFO")], &["no check succeeds"]),
        ("fails as listed", except, &[("a", "FAILURE"), ("b", "SUCCESS")], &[]),
        ("fails as listed, and nothing succeeds", except, &[("a", "FAILURE")], &["no check succeeds"]),
        ("holds, against the list", except, &[("a", "SUCCESS")], &["a holds now"]),
        ("skips as listed", Some(Skipped("reason")), &[("a", "SKIPPED")], &[]),
        ("runs, against the list", Some(Skipped("reason")), &[("a", "SUCCESS")], &["a check succeeds now"]),
        ("fails where it is to skip", Some(Skipped("reason")), &[("a", "FAILURE")], &["FAILURE a"]),
        ("is outside", Some(Outside("reason")), &[("a", "FAILURE")], &[]),
        ("is no longer outside", Some(Outside("reason")), &[("a", "SUCCESS")], &["passes now"]),
    ];
    for (what, expected, statuses, wanted) in table {
        let found = deviations_of("s", *expected, &checks(statuses));
        assert_eq!(found.len(), wanted.len(), "{what}: {found:?}");
        for (line, part) in found.iter().zip(*wanted) {
            assert!(line.contains(part), "{what}: {line}");
        }
    }
}
