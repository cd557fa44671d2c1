//! One tenant against another in one cluster: a real API server, a real operator and a real gateway. The attacker has
//! all rights in a namespace of its own, the victim publishes through the same group. Each attack lasts half a minute;
//! meanwhile the victim's calls are answered, its edits are served, and the keys that it revokes are refused. Neither
//! the operator nor the gateway ends. Latencies and memory are printed, not judged: they depend on the machine.

mod attack;
mod victim;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, eventually};

use attack::Attacker;
use victim::{Edits, Victim};

/// The duration of each attack.
const ATTACKED: Duration = Duration::from_secs(30);
/// Long enough for a slow machine that does other things too; what takes it has failed.
const SOON: Duration = Duration::from_secs(90);

/// A condition of one of the attacker's objects.
async fn condition(env: &TestEnv, kind: &str, name: &str, type_: &str) -> Result<Option<(String, String)>> {
    let args = ["get", kind, name, "-n", attack::NAMESPACE, "-o", "json"];
    let object: Value = serde_json::from_str(&env.cluster.kubectl(&args, None).await?)?;
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(found.map(|condition| (text(&condition["reason"]), text(&condition["message"]))))
}

/// Waits until an object of the attacker's says why it is refused.
async fn is_refused(env: &TestEnv, kind: &str, name: &str, reason: &str, text: &str) -> Result<()> {
    let last = std::cell::RefCell::new(None);
    let found = eventually("the refusal", SOON, async || {
        let found = condition(env, kind, name, "Ready").await?;
        last.borrow_mut().clone_from(&found);
        Ok(found.filter(|(said, message)| said == reason && message.contains(text)))
    });
    found.await.map(drop).with_context(|| format!("{kind}/{name}: wanted {reason} {text}, had {:?}", last.borrow()))
}

/// Lets the victim work during an attack, and prints a report.
async fn work_under_attack(env: &mut TestEnv, victim: &mut Victim, what: &str, attack: Attacker) -> Result<Edits> {
    let edits = victim.work(env, ATTACKED).await.with_context(|| format!("during: {what}"))?;
    let said = attack.end().await.with_context(|| what.to_owned())?;
    env.operator.process.check()?;
    env.gateway.process.check()?;
    let megabytes = |bytes: Option<u64>| bytes.map_or(0, |bytes| bytes >> 20);
    eprintln!(
        "{what}: {edits}; {said}; operator {} MB, gateway {} MB",
        megabytes(env.operator.process.memory()),
        megabytes(env.gateway.process.memory())
    );
    ensure!(edits.count() > 0, "{what}: the victim got nothing done");
    Ok(edits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_cannot_hold_up_another() -> Result<()> {
    let mut env = TestEnv::start().await?;
    attack::prepare(&env).await?;
    let mut victim = Victim::begin(&env).await?;
    let quiet = victim.work(&env, ATTACKED).await?;
    eprintln!("quiet: {quiet}; operator {:?} bytes", env.operator.process.memory());

    let attacker = Attacker::fills_the_credentials(&env);
    work_under_attack(&mut env, &mut victim, "300 Secrets of callers", attacker).await?;
    is_refused(&env, "exposition", "keys-299", "QuotaExceeded", "`credential-bytes`").await?;
    let full = victim.adds_a_key(&env).await?;
    ensure!(full, "a namespace within its quota has no room");

    let attacker = Attacker::repeats_a_description(&env);
    work_under_attack(&mut env, &mut victim, "5,000 tools that repeat 190 kB each", attacker).await?;
    is_refused(&env, "customtools", "many", "TooLarge", "tools exceed the limit").await?;

    let attacker = Attacker::edits_a_large_set(&env);
    work_under_attack(
        &mut env,
        &mut victim,
        "a set of 900 kB edited for 100 expositions, 30 more of them unused",
        attacker,
    )
    .await?;

    let attacker = Attacker::edits_for_many(&env);
    work_under_attack(&mut env, &mut victim, "six edits a second for 1,000 expositions", attacker).await?;

    // Nothing was restarted, and the victim's objects say so.
    let ready = env.condition_is("exposition", "guarded", "Programmed", "True", "Programmed").await?;
    ensure!(!ready.is_empty(), "{}", json!(ready));
    victim.end().await
}
