//! A real Prometheus that scrapes what a test starts and evaluates the rules of the chart, in accelerated time: one
//! real second counts as thirty. Every duration in rules and configuration is divided by [`HURRY`], so that an alert
//! which fires after a quarter of an hour does so after half a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Process, eventually};
use crate::{Port, root, starts};

/// The factor by which time passes faster for rules.
pub const HURRY: u64 = 30;
/// The oldest version that the tests run with: older ones count the ends of ranges otherwise.
const LEAST: &str = " version 3.";
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Lines of its log that a failed test shows.
const SHOWN: usize = 30;

/// `prometheus` or `promtool`: that of the path where it is new enough, else what `cargo xtask tools` built.
///
/// # Errors
/// It is not installed.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let fits = |file: &PathBuf| {
        let printed = Command::new(file).arg("--version").output();
        printed.is_ok_and(|printed| String::from_utf8_lossy(&printed.stdout).contains(LEAST))
    };
    let found = env::split_paths(&path).map(|folder| folder.join(name)).filter(|file| file.is_file()).find(fits);
    found.map_or_else(|| crate::tool(&format!("prometheus/{name}")), Ok)
}

/// Returns the path of one of the chart's rule files.
#[must_use]
pub fn rules(name: &str) -> PathBuf {
    root().join("charts/tamis/rules").join(format!("{name}.yaml"))
}

/// A scrape target.
#[derive(Debug, Clone)]
pub struct Target {
    /// The job, as the chart's monitors name it.
    pub job: &'static str,
    /// `HOST:PORT` of the admin port.
    pub address: String,
    /// Labels that the monitors would give it.
    pub labels: Vec<(&'static str, &'static str)>,
}

/// One result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// A running Prometheus; it is killed when dropped.
#[derive(Debug)]
pub struct Prometheus {
    _process: Process,
    url: String,
    client: reqwest::Client,
    _port: Port,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes these targets every second, with these files of rules in hurried time.
    ///
    /// # Errors
    /// It is not installed, ended, or is not ready in time.
    pub async fn start(targets: &[Target], names: &[&str]) -> Result<Self> {
        Self::with(jobs(targets), names).await
    }

    /// [`Prometheus::start`] with jobs of their own in place of targets.
    ///
    /// # Errors
    /// It is not installed, ended, or is not ready in time.
    pub async fn with(jobs: Vec<Value>, names: &[&str]) -> Result<Self> {
        starts::repeated("Prometheus", async || Self::attempt(&jobs, names).await).await
    }

    async fn attempt(jobs: &[Value], names: &[&str]) -> Result<Self> {
        let folder = TempDir::with_prefix("tamis-prometheus-")?;
        for name in names {
            let text = fs::read_to_string(rules(name)).with_context(|| (*name).to_owned())?;
            fs::write(folder.path().join(format!("{name}.rules")), hurried(&text))?;
        }
        let configuration = configure(folder.path(), jobs)?;
        let port = Port::reserve()?;
        let address = format!("127.0.0.1:{}", port.number());
        let mut command = Command::new(program("prometheus")?);
        command.current_dir(folder.path()).arg("--config.file").arg(&configuration);
        command.arg("--storage.tsdb.path").arg(folder.path().join("data"));
        command.args(["--web.listen-address", &address, "--log.level=warn"]);
        command.arg(format!("--query.lookback-delta={}s", 300 / HURRY));
        let mut process = Process::spawn("prometheus", &mut command, &folder.path().join("log"), SHOWN)?;
        let url = format!("http://{address}");
        process.answers(&format!("{url}/-/ready"), READY_WITHIN, |status| status.is_success()).await?;
        Ok(Self { _process: process, url, client: reqwest::Client::new(), _port: port, _folder: folder })
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let url = reqwest::Url::parse_with_params(&format!("{}/api/v1/{path}", self.url), query)?;
        let text = self.client.get(url).send().await?.text().await?;
        let mut answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(answer["status"] == "success", "{path} {query:?}: {text}");
        ensure!(answer["warnings"].is_null(), "{path} {query:?}: {}", answer["warnings"]);
        Ok(answer["data"].take())
    }

    /// The result of a query, as of now.
    ///
    /// # Errors
    /// Prometheus does not take it.
    pub async fn query(&self, query: &str) -> Result<Vec<Sample>> {
        let data = self.get("query", &[("query", query)]).await?;
        let results = data["result"].as_array().context("no result")?;
        results
            .iter()
            .map(|result| {
                let value = result["value"][1].as_str().context("no value")?.parse()?;
                let labels = result["metric"].as_object().context("no labels")?.iter();
                let labels = labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
                Ok(Sample { labels: labels.collect(), value })
            })
            .collect()
    }

    /// The sum of all results of a query.
    ///
    /// # Errors
    /// Prometheus does not take it.
    pub async fn sum(&self, query: &str) -> Result<f64> {
        Ok(self.query(query).await?.iter().map(|sample| sample.value).sum())
    }

    /// Waits until the results of a query satisfy `good`, and returns them.
    ///
    /// # Errors
    /// It has not in time; the message says what it had.
    pub async fn until(&self, query: &str, within: Duration, good: impl Fn(&[Sample]) -> bool) -> Result<Vec<Sample>> {
        let last = std::cell::RefCell::new(Vec::new());
        let asked = eventually("the results", within, async || {
            let found = self.query(query).await?;
            let good = good(&found);
            last.borrow_mut().clone_from(&found);
            Ok(good.then_some(found))
        });
        asked.await.with_context(|| format!("{query}: had {:?}", last.borrow()))
    }

    /// All rules, as Prometheus has read them.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn rules(&self) -> Result<Vec<Value>> {
        let data = self.get("rules", &[]).await?;
        let groups = data["groups"].as_array().context("no groups")?.iter();
        Ok(groups.flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect())
    }

    /// The alerts of a name that fire.
    ///
    /// # Errors
    /// Prometheus does not answer.
    pub async fn firing(&self, name: &str) -> Result<Vec<Value>> {
        let data = self.get("alerts", &[]).await?;
        let alerts = data["alerts"].as_array().cloned().unwrap_or_default();
        let fires = |alert: &Value| alert["labels"]["alertname"] == name && alert["state"] == "firing";
        Ok(alerts.into_iter().filter(fires).collect())
    }

    /// Waits until an alert fires, and returns the first.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn fires(&self, name: &str, within: Duration) -> Result<Value> {
        eventually(name, within, async || Ok(self.firing(name).await?.into_iter().next())).await
    }

    /// The names of all alerts that fire or are about to.
    ///
    /// # Errors
    /// Prometheus does not answer.
    pub async fn alerting(&self) -> Result<BTreeSet<String>> {
        let data = self.get("alerts", &[]).await?;
        let alerts = data["alerts"].as_array().cloned().unwrap_or_default();
        Ok(alerts.iter().filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
    }

    /// Every query of a dashboard of the chart has a result with a number in it; says what each had.
    ///
    /// # Errors
    /// One has none.
    pub async fn answers(&self, board: &str) -> Result<String> {
        let queries = queries(&root().join(format!("charts/tamis/dashboards/{board}.json")))?;
        ensure!(queries.len() >= 10, "only {} queries in {board}", queries.len());
        let mut said = String::new();
        for (panel, query) in queries {
            let found = self.query(&query).await.with_context(|| panel.clone())?;
            ensure!(found.iter().any(|sample| sample.value.is_finite()), "{board}: {panel}: {query} has {found:?}");
            said += &format!("{board}: {panel}: {} results, such as {:?}\n", found.len(), found[0]);
        }
        Ok(said)
    }
}

/// Writes the configuration; gives its file.
fn configure(folder: &Path, jobs: &[Value]) -> Result<PathBuf> {
    let file = folder.join("prometheus.yml");
    let configuration = json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "2s"},
        "rule_files": ["*.rules"],
        "scrape_configs": jobs,
    });
    // JSON is YAML too.
    fs::write(&file, configuration.to_string())?;
    Ok(file)
}

fn jobs(targets: &[Target]) -> Vec<Value> {
    let jobs: BTreeMap<&str, Vec<Value>> = targets.iter().fold(BTreeMap::new(), |mut jobs, target| {
        let labels: BTreeMap<_, _> = target.labels.iter().copied().collect();
        jobs.entry(target.job).or_insert_with(Vec::new).push(json!({"targets": [target.address], "labels": labels}));
        jobs
    });
    jobs.into_iter()
        // As the chart's monitors: a gateway's own `namespace` is that of an exposition.
        .map(|(job, targets)| json!({"job_name": job, "honor_labels": true, "static_configs": targets}))
        .collect()
}

/// Divides every duration of rules, or of a query, by [`HURRY`]: those in brackets, after `offset`, `interval:` and
/// `for:`. Names of metrics stay.
#[must_use]
pub fn hurried(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let markers = ["[", "offset ", "interval: ", "for: "];
    while let Some(at) = markers.iter().filter_map(|marker| Some(rest.find(marker)? + marker.len())).min() {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = match rest[digits..].chars().next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            _ => continue,
        };
        let Ok(number) = rest[..digits].parse::<u64>() else { continue };
        out.push_str(&format!("{}ms", number * unit * 1000 / HURRY));
        rest = &rest[digits + 1..];
    }
    out + rest
}

/// Every query of a dashboard: panel and query, with the dashboard's variables set to everything.
///
/// # Errors
/// The file is no dashboard.
fn queries(dashboard: &Path) -> Result<Vec<(String, String)>> {
    let board: Value = serde_json::from_str(&fs::read_to_string(dashboard)?)?;
    let panels = board["panels"].as_array().context("no panels")?;
    let mut found = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let title = panel["title"].as_str().unwrap_or_default();
            let query = target["expr"].as_str().with_context(|| format!("{title}: no expr"))?;
            let query = query.replace("$__rate_interval", "5m").replace("$__range", "1h");
            let query = ["$namespace", "$exposition", "$instance"].iter().fold(query, |q, name| q.replace(name, ".*"));
            ensure!(!query.contains('$'), "{title}: {query}");
            found.push((format!("{} {title}", target["refId"].as_str().unwrap_or_default()), hurried(&query)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::hurried;

    #[test]
    fn durations_shrink_and_names_stay() {
        for (text, wanted) in [
            ("sum_over_time(a:b:delta1m[10m]) > 1", "sum_over_time(a:b:delta1m[20000ms]) > 1"),
            ("x - x offset 1m >= 0", "x - x offset 2000ms >= 0"),
            ("interval: 1m\n  for: 15m\n", "interval: 2000ms\n  for: 30000ms\n"),
            ("rate(x[5m]) / rate(y[1h])", "rate(x[10000ms]) / rate(y[120000ms])"),
            ("a[\"b\"] offset x", "a[\"b\"] offset x"),
        ] {
            assert_eq!(hurried(text), wanted);
        }
    }
}
