use http::HeaderMap;
use http::header::{HeaderValue, RETRY_AFTER};

use super::Decision::{Stop, Wait};
use super::Failure::{Broken, Status, Unsent};
use super::*;

const LONG: Duration = Duration::from_secs(1_000);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn status(status: u16) -> Failure {
    Status { status, retry_after: None }
}

fn asked(seconds: u64) -> Failure {
    Status { status: 429, retry_after: Some(Duration::from_secs(seconds)) }
}

#[test]
fn decisions() {
    let retry = Retry { max_attempts: 3, backoff_ms: 200, retry_on: vec![429, 503] };
    let table = [
        // Linear backoff, up to the attempts in all.
        (true, 1, status(503), LONG, Wait(ms(200))),
        (true, 2, status(503), LONG, Wait(ms(400))),
        (true, 3, status(503), LONG, Stop),
        (true, 1, status(500), LONG, Stop),
        // The manifest says that these statuses are worth it, for a write too.
        (false, 1, status(503), LONG, Wait(ms(200))),
        // A write is repeated where it has not been sent.
        (false, 1, Unsent, LONG, Wait(ms(200))),
        (false, 1, Broken, LONG, Stop),
        (true, 1, Broken, LONG, Wait(ms(200))),
        // The upstream's word counts, within limits.
        (true, 1, asked(7), LONG, Wait(ms(7_000))),
        (true, 1, asked(0), LONG, Wait(ms(0))),
        (true, 1, asked(3_600), LONG, Wait(ms(120_000))),
        (true, 1, asked(7), ms(7_000), Stop),
        (true, 1, asked(7), ms(7_001), Wait(ms(7_000))),
        (true, 2, status(503), ms(400), Stop),
    ];
    for (idempotent, attempt, failure, left, decision) in table {
        assert_eq!(
            decide(Some(&retry), idempotent, attempt, failure, left),
            decision,
            "{attempt} {failure:?} {left:?}"
        );
    }
}

#[test]
fn without_a_policy_only_a_broken_connection_is_mended() {
    for (idempotent, attempt, failure, decision) in [
        (true, 1, Broken, Wait(ms(0))),
        (true, 2, Broken, Stop),
        (false, 1, Broken, Stop),
        (true, 1, Unsent, Stop),
        (true, 1, status(503), Stop),
        (true, 1, asked(1), Stop),
    ] {
        assert_eq!(decide(None, idempotent, attempt, failure, LONG), decision, "{attempt} {failure:?}");
    }
}

#[test]
fn backoff_does_not_overflow() {
    let retry = Retry { max_attempts: u32::MAX, backoff_ms: u64::MAX, retry_on: vec![] };
    assert_eq!(decide(Some(&retry), true, 4_000_000_000, Unsent, LONG), Stop);
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
    for (text, expected) in [
        ("0", Some(0)),
        ("12", Some(12)),
        (" 12 ", Some(12)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
        ("Sun, 06 Nov 1994 08:48:37 GMT", Some(0)),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{text}");
    }
    assert_eq!(retry_after(&HeaderMap::new(), now), None);
}
