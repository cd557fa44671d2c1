use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use tokio::sync::Notify;

use super::first_of;

/// When an attempt ends.
#[derive(Debug, Clone, Copy)]
enum Ends {
    AtOnce,
    Never,
    /// When the last attempt begins.
    WithLast,
}

/// Runs up to three attempts. Returns the one that was taken, and how many were begun.
async fn attempts(ends: [Ends; 3]) -> (usize, usize) {
    let begun = Cell::new(0);
    let last = Notify::new();
    let attempt = || {
        let index = begun.replace(begun.get() + 1);
        if index == 2 {
            last.notify_one();
        }
        let last = &last;
        async move {
            match ends[index] {
                Ends::AtOnce => {}
                Ends::Never => pending().await,
                Ends::WithLast => last.notified().await,
            }
            index
        }
    };
    let taken = first_of(attempt, &[Duration::ZERO; 2]).await;
    (taken, begun.get())
}

#[tokio::test]
async fn a_lost_attempt_to_connect_does_not_use_up_the_timeout() {
    let table = [
        ([Ends::AtOnce, Ends::Never, Ends::Never], (0, 1)),
        ([Ends::Never, Ends::AtOnce, Ends::Never], (1, 2)),
        ([Ends::Never, Ends::Never, Ends::AtOnce], (2, 3)),
        // A slow attempt is kept while further ones run.
        ([Ends::WithLast, Ends::Never, Ends::Never], (0, 3)),
    ];
    for (ends, expected) in table {
        assert_eq!(attempts(ends).await, expected, "{ends:?}");
    }
}
