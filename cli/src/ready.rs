//! `tamis ready`: waits until addresses answer. It serves as the health check of a container and as the chart's test in images
//! without a shell and without curl, such as that of Tamis.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::serve::runtime;
use crate::{note, output};

/// Timeout of one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Bytes of an unexpected answer that are shown.
const SHOWN: usize = 1024;

/// Wait until addresses answer, by default with status 200.
///
/// If the time is up, the command shows the last answer: /readyz of an operator, a gateway or `tamis serve` names what it is
/// waiting for.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis ready http://127.0.0.1:9090/readyz
  tamis ready --timeout 0 http://127.0.0.1:9090/livez
  # a gateway: the list of its expositions
  tamis ready http://tamis-public.tamis-public.svc:8080/

Exit codes:
  0  all addresses answered with the status
  1  an address did not within --timeout
  2  usage error")]
pub(crate) struct Args {
    /// The URL to request with GET
    #[arg(required = true, value_name = "URL", value_parser = url)]
    urls: Vec<reqwest::Url>,
    /// The expected status
    #[arg(long, value_name = "CODE", default_value_t = 200, value_parser = clap::value_parser!(u16).range(100..600))]
    status: u16,
    /// Seconds to wait; 0 requests once
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Requests each URL until it answers with the status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(async {
        let until = Instant::now() + Duration::from_secs(args.timeout);
        // The addresses are local, so a proxy from the environment cannot reach them.
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(ANSWER)
            .build()
            .context("no HTTP client")?;
        for url in &args.urls {
            while let Err(said) = ask(&client, url, args.status).await {
                if Instant::now() + PAUSE > until {
                    note!("tamis: {url} {said}");
                    return Ok(ExitCode::from(1));
                }
                tokio::time::sleep(PAUSE).await;
            }
            output::write(format!("{url} answers {}\n", args.status).as_bytes())?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Requests the URL once. Returns the answer as the error if it has another status.
async fn ask(client: &reqwest::Client, url: &reqwest::Url, status: u16) -> Result<(), String> {
    let mut answer = client.get(url.clone()).send().await.map_err(|error| {
        let mut text = "does not answer".to_owned();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    })?;
    if answer.status().as_u16() == status {
        return Ok(());
    }
    let mut body = Vec::new();
    while body.len() < SHOWN
        && let Ok(Some(part)) = answer.chunk().await
    {
        body.extend_from_slice(&part);
    }
    body.truncate(SHOWN);
    let body = String::from_utf8_lossy(&body);
    Err(format!("answers {}, not {status}: {}", answer.status().as_u16(), body.trim()))
}

fn url(text: &str) -> Result<reqwest::Url, String> {
    let url: reqwest::Url = text.parse().map_err(|_| "must be a URL".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("must be an HTTP URL such as http://127.0.0.1:9090/readyz".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn what_an_address_says_is_shown() {
        let waits = (StatusCode::SERVICE_UNAVAILABLE, "waiting for expositions\n");
        let router = Router::new()
            .route("/readyz", get(move || async move { waits }))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/moved", get(|| async { axum::response::Redirect::to("/livez") }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let ask = async |path: &str, status| {
            let url = url(&format!("http://{address}{path}")).expect("an URL");
            super::ask(&client, &url, status).await
        };
        assert_eq!(ask("/livez", 200).await, Ok(()));
        assert_eq!(ask("/none", 404).await, Ok(()));
        assert_eq!(ask("/readyz", 200).await, Err("answers 503, not 200: waiting for expositions".to_owned()));
        assert!(ask("/moved", 200).await.is_err(), "another address is another answer");
        serving.abort();
        let _ = serving.await;
        let said = ask("/livez", 200).await.expect_err("nothing listens");
        assert!(said.starts_with("does not answer: ") && said.contains("onnection refused"), "{said}");
    }

    #[test]
    fn only_what_can_be_asked_is_taken() {
        for bad in ["127.0.0.1:9090", "ftp://a/", "http://", "readyz", ""] {
            assert!(url(bad).is_err(), "{bad}");
        }
        assert!(url("https://[::1]:9090/readyz").is_ok());
    }
}
