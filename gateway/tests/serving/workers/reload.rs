//! A reload reaches the connections of all workers before it is acknowledged.

use serde_json::json;
use tamis_config::{Access, ExpositionDocument};

use crate::support::{at_workers, until};
use crate::wire::{Era, OTHERS, TestEnv, Wire};

at_workers!(
    an_acknowledged_reload_holds_on_every_connection,
    calls_in_flight_keep_the_configuration_that_they_started_with,
    a_withdrawn_key_is_refused_on_every_connection
);

/// The exposition `api` in a version that shows in each answer.
fn version(env: &TestEnv, number: usize) -> ExpositionDocument {
    let filter = format!(r#"{{"patches":[{{"op":"add","path":"/version","value":{number}}}]}}"#);
    env.document("api", Some(&filter))
}

/// The version that filtered the answer to a call.
async fn seen(env: &TestEnv, wire: &mut Wire, era: Era) -> usize {
    let (status, answer) = wire.call(&env.running, "api", era).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    answer["result"]["structuredContent"]["version"].as_u64().unwrap_or_else(|| panic!("{answer}")) as usize
}

async fn an_acknowledged_reload_holds_on_every_connection(workers: usize) {
    let env = TestEnv::new(workers, Default::default()).await;
    let mut wires = env.wires(workers, 2).await;
    for number in 1..=20 {
        env.apply([version(&env, number)]);
        for (wire, era) in wires.iter_mut().zip([Era::Legacy, Era::Modern].into_iter().cycle()) {
            assert_eq!(seen(&env, wire, era).await, number);
        }
    }
}

async fn calls_in_flight_keep_the_configuration_that_they_started_with(workers: usize) {
    let env = TestEnv::new(workers, Default::default()).await;
    let mut wires = env.wires(workers, 2).await;
    env.apply([version(&env, 1)]);
    for removes in [false, true] {
        let before = if removes { 2 } else { 1 };
        let held = env.upstream.hold().await;
        let era = if removes { Era::Legacy } else { Era::Modern };
        let calls = wires.iter_mut().map(|wire| seen(&env, wire, era));
        let reloading = async {
            until("all are in flight", || env.upstream.open() == 2 * workers).await;
            env.apply((!removes).then(|| version(&env, 2)));
            drop(held);
        };
        let (answered, ()) = tokio::join!(futures_util::future::join_all(calls), reloading);
        assert_eq!(answered, vec![before; 2 * workers]);
    }
    for wire in &mut wires {
        let (status, answer) = wire.call(&env.running, "api", Era::Modern).await.unwrap();
        assert_eq!((status, &answer["error"]["code"]), (404, &json!(-32000)), "{answer}");
    }
}

async fn a_withdrawn_key_is_refused_on_every_connection(workers: usize) {
    let env = TestEnv::new(workers, Default::default()).await;
    let mut wires = env.wires(workers, 2).await;
    let mut document = env.document("api", None);
    document.access = Some(Access::ApiKeys { secret: OTHERS.to_owned(), handle: None });
    env.apply([document]);
    for wire in &mut wires {
        assert_eq!(wire.call(&env.running, "api", Era::Modern).await.unwrap().0, 401);
    }
}
