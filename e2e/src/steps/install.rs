//! The installation with Helm, as `docs/helm.md` describes it, and a team that uses it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::Question;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM, TEAM, UPSTREAM};
use crate::reach::FirstTimes;

/// The namespaces of the group and of the team. They must exist before the chart, which binds roles in them.
const NAMESPACES: &str = include_str!("../../manifests/namespaces.yaml");

pub(super) async fn addons(stage: &Stage) -> Result<String> {
    stage.node.addons().await?;
    stage.node.pods_ready("kube-system", "k8s-app=kube-dns", 1).await?;
    // While an API is registered and not served, no namespace can be deleted.
    stage.node.pods_ready("kube-system", "k8s-app=metrics-server", 1).await?;
    Ok("both are ready".to_owned())
}

pub(super) async fn images(stage: &Stage) -> Result<String> {
    let megabytes = std::fs::metadata(&stage.archive)?.len() as f64 / 1e6;
    stage.node.import(&stage.archive)?;
    stage.node.image(UPSTREAM, &std::env::current_exe()?)?;
    Ok(format!("{} ({megabytes:.0} MB) and the sample API", stage.image))
}

pub(super) async fn charts(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    node.cluster().apply(NAMESPACES).await?;
    node.helm("install tamis-crds charts/tamis-crds -n tamis-system --wait").await?;
    let (repository, tag) = stage.image.split_once(':').unwrap_or((&stage.image, "latest"));
    let values = format!(
        "--set image.repository={repository} --set image.tag={tag} --set gatewayGroup.name=public \
         --set gatewayGroup.namespace={PUBLIC} --set secretNamespaces={{team-a}}"
    );
    node.helm(&format!("install tamis charts/tamis -n tamis-system --wait --timeout 3m {values}")).await?;
    // With `--wait` Helm has waited for all of it.
    node.pods_ready(SYSTEM, OPERATORS, 2).await?;
    node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    let leader = eventually("a leader", Duration::from_secs(30), async || node.leader().await.map(Some)).await?;
    node.helm("test tamis -n tamis-system").await?;
    Ok(format!("2 operators, {leader} leads; 2 gateways; `helm test` passed"))
}

pub(super) async fn team(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    node.cluster().apply(TEAM).await?;
    let took = node.is_ready("Exposition", "expositions", "watched").await?;
    node.pods_ready("team-a", "app=tracker", 1).await?;
    let question = node.watched().await?;
    // The node learns of the new Service a moment later than this program.
    let (times, first) = tokio::join!(FirstTimes::observe(node), FirstAnswer::wait(&question));
    let first = first?;
    Ok(format!("Ready after {took:.1?}; then {}; {first}", times?))
}

/// The first answer of a new API, and what callers got before.
struct FirstAnswer {
    after: Duration,
    /// Each error, with the time at which it was first seen.
    before: Vec<(Duration, String)>,
}

impl FirstAnswer {
    async fn wait(question: &Question) -> Result<Self> {
        let began = Instant::now();
        let mut before: Vec<(Duration, String)> = Vec::new();
        loop {
            let error = match question.once().await {
                Ok(_) => return Ok(Self { after: began.elapsed(), before }),
                Err(error) => reason(&format!("{error:#}")).to_owned(),
            };
            ensure!(
                began.elapsed() < Duration::from_secs(60),
                "no call is answered; before: {before:?}; last: {error}"
            );
            if !before.iter().any(|(_, seen)| *seen == error) {
                before.push((began.elapsed(), error));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl std::fmt::Display for FirstAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a call was answered after {:.1?}", self.after)?;
        for (index, (at, error)) in self.before.iter().enumerate() {
            write!(f, "{}{error} (after {at:.1?})", if index == 0 { "; before: " } else { ", " })?;
        }
        Ok(())
    }
}

/// Returns the text of the tool result in an error, or the whole error.
fn reason(error: &str) -> &str {
    let text = error.split_once(r#""text":""#).and_then(|(_, rest)| rest.split_once('"'));
    text.map_or(error, |(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn an_error_is_shortened_to_the_text_of_its_result() {
        let result =
            r#"200: {"result":{"content":[{"type":"text","text":"It could not be reached."}],"isError":true}}"#;
        assert_eq!(reason(result), "It could not be reached.");
        assert_eq!(reason("no answer within 2s"), "no answer within 2s");
    }
}
