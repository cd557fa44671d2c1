use std::collections::BTreeSet;
use std::sync::mpsc as std_mpsc;

use super::*;

fn rank(is_stalled: bool, work: usize) -> Rank {
    Rank { is_stalled, work }
}

#[test]
fn the_worker_with_the_least_to_do_gets_the_connection() {
    let table = [
        // Equals take turns.
        (vec![rank(false, 0); 3], 0, 0),
        (vec![rank(false, 0); 3], 1, 1),
        (vec![rank(false, 0); 3], 5, 2),
        (vec![rank(false, 3), rank(false, 2)], 0, 1),
        // A stalled worker only if all are.
        (vec![rank(true, 0), rank(false, 950)], 0, 1),
        (vec![rank(true, 7), rank(true, 1)], 0, 1),
        (vec![rank(true, 7)], 3, 0),
    ];
    for (ranks, start, expected) in table {
        assert_eq!(least(ranks.iter().copied(), start), expected, "{ranks:?} from {start}");
    }
}

#[tokio::test]
async fn connections_are_spread_and_each_stays_on_its_thread() {
    let workers = Workers::start(NonZero::new(3).unwrap());
    let assigned: Vec<Assigned> = (0..6).map(|_| workers.assign()).collect();
    let mut numbers = Vec::new();
    for assigned in &assigned {
        let on = assigned.runtime().spawn(async {
            let first = current();
            tokio::task::yield_now().await;
            (first, tokio::spawn(async { current() }).await.unwrap())
        });
        let (first, spawned) = on.await.unwrap();
        assert_eq!(first, spawned);
        numbers.push(first);
    }
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 3, "{numbers:?}");
    assert!(numbers.iter().all(|number| (1..=3).contains(number)), "{numbers:?}");
    assert_eq!(current(), 0);
    drop(assigned);
    assert!(workers.workers.iter().all(|worker| worker.load.rank() == rank(false, 0)));
    workers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_held_up_is_reported_and_gets_no_connections() {
    let workers = Workers::start(NonZero::new(2).unwrap());
    let (release, held) = std_mpsc::channel::<()>();
    let stuck = workers.assign();
    stuck.runtime().spawn(async move { held.recv() });
    let reports = AtomicUsize::new(0);
    let other = async {
        while reports.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // One of them would be the stuck worker's by its turn.
        for _ in 0..4 {
            let assigned = workers.assign();
            assert!(!Arc::ptr_eq(assigned.load(), stuck.load()));
            assigned.runtime().spawn(async {}).await.unwrap();
        }
        release.send(()).unwrap();
        while stuck.load().rank().is_stalled {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = workers.watch(|| _ = reports.fetch_add(1, Ordering::Relaxed)) => {}
        () = other => {}
    }
    assert_eq!(reports.load(Ordering::Relaxed), 1);
    workers.stop().await;
}

#[tokio::test]
async fn stopping_ends_every_thread_and_drops_its_tasks() {
    let workers = Workers::start(NonZero::new(2).unwrap());
    let (sender, mut dropped) = mpsc::channel::<()>(1);
    for _ in 0..2 {
        let sender = sender.clone();
        workers.assign().runtime().spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
    }
    drop(sender);
    workers.stop().await;
    assert_eq!(dropped.recv().await, None);
}
