//! A worker that is held up delays nothing but its own connections, and is reported.

use futures_util::future::join_all;

use crate::log::Log;
use crate::support::until;
use crate::wire::{Era, TestEnv, call};

const STALLS: &str = "tamis_worker_stalls_total";

#[tokio::test]
async fn a_worker_that_is_held_up_delays_only_its_own_connections() {
    let (log, _guard) = Log::start("info");
    let env = TestEnv::new(2, Default::default()).await;
    let mut wires = env.wires(2, 4).await;
    let (mut held, mut free) = (Vec::new(), Vec::new());
    let mut blocking = wires.remove(0);
    let stuck = env.worker(&mut blocking).await;
    for mut wire in wires {
        if env.worker(&mut wire).await == stuck { held.push(wire) } else { free.push(wire) }
    }
    assert_eq!((held.len(), free.len(), env.running.metric(STALLS).await), (3, 4, 0));

    let barrier = env.probe.hold();
    let request = call(&env.running, "held", Era::Legacy);
    let blocked = tokio::spawn(async move { blocking.ask(request).await });
    until("a worker is held up", || env.probe.held_up() == 1).await;
    let waiting: Vec<_> = held
        .into_iter()
        .zip([Era::Legacy, Era::Modern].into_iter().cycle())
        .map(|(mut wire, era)| {
            let request = call(&env.running, "api", era);
            tokio::spawn(async move { wire.ask(request).await })
        })
        .collect();
    let hits = env.upstream.hits();
    // Before it is noticed, and afterwards.
    for round in 1..=2 {
        for era in [Era::Legacy, Era::Modern] {
            let answers = join_all(free.iter_mut().map(|wire| wire.call(&env.running, "api", era))).await;
            assert!(answers.iter().all(|answer| answer.as_ref().unwrap().0 == 200), "{answers:?}");
        }
        assert_eq!(env.upstream.hits(), hits + 8 * round, "none of a connection of the worker that is held up");
        env.running.until_metric(STALLS, |stalls| stalls == 1).await;
    }
    assert_eq!(log.lines("worker held up").len(), 1, "{}", log.text());
    // By their number of connections alone, the other would get every one from the fifth.
    let mut fresh = env.open(20).await;
    let spread = env.spread(&mut fresh).await;
    assert!(spread.len() == 1 && !spread.contains_key(&stuck), "{spread:?}");
    assert!(!blocked.is_finished() && waiting.iter().all(|call| !call.is_finished()));

    drop(barrier);
    for call in waiting.into_iter().chain([blocked]) {
        let (status, answer) = call.await.unwrap().unwrap();
        assert_eq!((status, &answer["result"]["structuredContent"]["a"]), (200, &"A".into()), "{answer}");
    }
    until("the worker runs again", || log.lines("worker runs again").len() == 1).await;
    let mut more = env.open(20).await;
    assert_eq!(env.spread(&mut more).await, [(stuck, 20)].into(), "it has the fewest connections");
    assert_eq!(env.running.metric(STALLS).await, 1);
}
