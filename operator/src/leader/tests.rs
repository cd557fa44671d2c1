//! Table tests of the decisions about a Lease.

use std::time::Duration;

use jiff::Timestamp;

use super::clock::Moment;
use super::decide::{Action, Observed, Record, decide};

const OWN: Duration = Duration::from_secs(15);

fn at(seconds: u64) -> Moment {
    Moment::at(Duration::from_secs(seconds))
}

fn held(holder: &str, duration: Option<u64>) -> Option<Record> {
    let holder = Some(holder.to_owned());
    Some(Record { holder, duration: duration.map(Duration::from_secs), ..Record::default() })
}

#[test]
fn decides_by_holder_and_time() {
    use Action::{Create, Renew, Take, Wait};
    let left = |seconds| Wait(Duration::from_secs(seconds));
    let cases = [
        ("no lease", None, false, 100, Create),
        ("the lease was deleted", None, true, 100, Create),
        ("released", Some(Record::default()), false, 100, Take),
        ("another's, seen now", held("b", Some(15)), false, 100, left(15)),
        ("another's, seen before", held("b", Some(15)), false, 114, left(1)),
        ("another's, at its end", held("b", Some(15)), false, 115, Take),
        ("another's, of its own length", held("b", Some(40)), false, 130, left(10)),
        ("another's, without a length", held("b", None), false, 110, left(5)),
        ("another's, without an end", held("b", Some(1 << 40)), false, 100, left(300)),
        ("another's, though this candidate led", held("b", Some(15)), true, 110, left(5)),
        ("its own", held("a", Some(15)), true, 110, Renew),
        ("its identity, but not known to be held", held("a", Some(15)), false, 110, left(5)),
        ("its identity, but expired", held("a", Some(15)), false, 120, Take),
        ("a length of zero", held("b", Some(0)), false, 100, Take),
    ];
    for (what, record, leads, now, expected) in cases {
        let observed = Observed { record, since: at(100) };
        assert_eq!(decide(&observed, leads, "a", OWN, at(now)), expected, "{what}");
    }
}

#[test]
fn time_counts_from_the_last_change_that_was_seen() {
    let renewed = |second| {
        let renewed = Timestamp::from_second(second).ok();
        held("b", Some(15)).map(|record| Record { renewed, ..record })
    };
    let first = Observed::then(None, renewed(1), at(100));
    let same = Observed::then(Some(&first), renewed(1), at(110));
    assert_eq!(same.since, at(100), "nothing has changed");
    // The holder's clock is hours ahead: only the change matters.
    let next = Observed::then(Some(&same), renewed(9_000), at(112));
    assert_eq!(next.since, at(112));
    let gone = Observed::then(Some(&next), None, at(113));
    assert_eq!((gone.record, gone.since), (None, at(113)));
}

#[test]
fn a_record_names_its_holder_and_the_times() {
    let time = |second| Timestamp::from_second(second).unwrap_or_default();
    let first = Record::default().held_by("a", OWN, time(1));
    let second = first.held_by("a", OWN, time(2));
    assert_eq!(
        (second.acquired, second.renewed, second.transitions),
        (Some(time(1)), Some(time(2)), first.transitions)
    );
    let stolen = second.held_by("b", OWN, time(3));
    assert_eq!((stolen.acquired, stolen.transitions), (Some(time(3)), first.transitions + 1));
    let released = stolen.released();
    assert_eq!((released.holder.as_deref(), released.transitions), (None, stolen.transitions));
    assert_eq!(Record::of(Some(&stolen.spec())), stolen, "writing and reading gives the same record");
}

#[test]
fn an_empty_holder_means_released() {
    let mut spec = Record::default().spec();
    spec.holder_identity = Some(String::new());
    assert_eq!(Record::of(Some(&spec)).holder, None);
}
