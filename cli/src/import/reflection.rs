//! Asks a gRPC server for its descriptors, by `grpc.reflection.v1` or `v1alpha`.
//!
//! The requests of a round are known before it: a call sends all of them, and then reads all answers.

use anyhow::{Context as _, bail};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use reqwest::header::HeaderMap;
use reqwest::{Body, Client, StatusCode};

use super::api::{TIMEOUT, asking};
use super::descriptors::{MAX_BYTES, Question, Reflected};
use super::line;

/// The services, which differ by name only.
const VERSIONS: [&str; 2] = ["v1", "v1alpha"];
/// Bytes before a message: whether it is compressed, and its length.
const HEAD: usize = 5;
/// The status of a method that a server does not have.
const UNIMPLEMENTED: u32 = 12;
/// The statuses `PERMISSION_DENIED` and `UNAUTHENTICATED`.
const REFUSED: [u32; 2] = [7, 16];
const REMEDY: &str = "give its .proto files or a descriptor set instead";

/// What came of a call.
enum Called {
    Answers(Vec<Vec<u8>>),
    /// The server does not have the method.
    Unimplemented,
}

/// Returns the descriptor set of a server: the files of the services that it lists, and those that they import.
///
/// # Errors
/// The server cannot be reached, has no reflection, or its answers are not descriptors.
pub(super) fn reflect(url: &str, headers: HeaderMap) -> anyhow::Result<Vec<u8>> {
    let client = asking(headers, TIMEOUT).http2_prior_knowledge().no_gzip().no_brotli().no_zstd().build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = async {
        for version in VERSIONS {
            if let Some(set) = ask(&client, url, version).await? {
                return Ok(set);
            }
        }
        bail!("the server has no reflection; {REMEDY}")
    };
    runtime.block_on(async {
        // Each call has a bound of its own, and so have all of them.
        let asked = tokio::time::timeout(TIMEOUT, asked).await;
        asked.with_context(|| format!("the server did not describe itself within {} s", TIMEOUT.as_secs()))?
    })
}

/// Returns the descriptor set, or none if the server does not have this version of reflection.
async fn ask(client: &Client, url: &str, version: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let url = format!("{}/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", url.trim_end_matches('/'));
    let mut reflected = Reflected::default();
    let mut read = 0;
    loop {
        let questions = reflected.questions();
        if questions.is_empty() {
            return reflected.descriptor_set().map(Some);
        }
        match call(client, &url, &questions, &mut read).await? {
            Called::Answers(answers) => reflected.take(&questions, &answers)?,
            Called::Unimplemented => return Ok(None),
        }
    }
}

/// Asks the questions, and returns as many answers. `read`: bytes of answers so far.
async fn call(client: &Client, url: &str, questions: &[Question], read: &mut usize) -> anyhow::Result<Called> {
    let body: Vec<u8> = questions.iter().flat_map(|question| framed(&question.message())).collect();
    let request = client.post(url).header(CONTENT_TYPE, "application/grpc").header("te", "trailers");
    let response = request.body(body).send().await.context("cannot ask the server for its descriptors")?;
    let (head, mut body) = http::Response::<Body>::from(response).into_parts();
    match head.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(Called::Unimplemented),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(refused(&head.status.to_string())),
        status => bail!("the server answered {status} in place of gRPC; check the address, or {REMEDY}"),
    }
    let mut status = status(&head.headers);
    let (mut buffer, mut answers) = (Vec::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.context("cannot read the descriptors of the server")?;
        match frame.into_data() {
            Ok(data) => {
                *read += data.len();
                anyhow::ensure!(*read <= MAX_BYTES, "the descriptors have more than {MAX_BYTES} bytes; {REMEDY}");
                buffer.extend_from_slice(&data);
            }
            Err(other) => status = other.into_trailers().ok().as_ref().and_then(self::status).or(status),
        }
    }
    match status {
        Some((0, _)) => {}
        Some((UNIMPLEMENTED, _)) => return Ok(Called::Unimplemented),
        Some((code, message)) if REFUSED.contains(&code) => return Err(refused(&said(code, &message))),
        Some((code, message)) => bail!("the server refused reflection: {}; {REMEDY}", said(code, &message)),
        None => bail!("the server did not answer with gRPC; check the address, or {REMEDY}"),
    }
    let mut rest = &buffer[..];
    while let Some((message, others)) = unframed(rest)? {
        answers.push(message.to_vec());
        rest = others;
    }
    let (got, expected) = (answers.len(), questions.len());
    anyhow::ensure!(got == expected, "the server gave {got} answers to {expected} requests of reflection; {REMEDY}");
    Ok(Called::Answers(answers))
}

fn refused(why: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "the server refused reflection: {why}; name the variable that has a credential with --bearer-env or --header-env"
    )
}

fn said(code: u32, message: &str) -> String {
    if message.is_empty() { format!("status {code}") } else { format!("status {code}, {}", line(message)) }
}

/// Returns the status of a call, and its message as it was sent.
fn status(headers: &HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().unwrap_or(2);
    let message = headers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    Some((code, message.chars().take(200).collect()))
}

fn framed(message: &[u8]) -> Vec<u8> {
    // A question is a name.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), message].concat()
}

/// Returns the first message of a body, and what follows it; none at its end.
fn unframed(body: &[u8]) -> anyhow::Result<Option<(&[u8], &[u8])>> {
    if body.is_empty() {
        return Ok(None);
    }
    let message = body.split_first_chunk::<HEAD>().and_then(|([mark, length @ ..], rest)| {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        // No coding was offered.
        rest.split_at_checked(length).filter(|_| *mark == 0)
    });
    message.map(Some).with_context(|| format!("the server did not answer with gRPC; check the address, or {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_messages() {
        let body = [framed(b"one"), framed(b"")].concat();
        let (first, rest) = unframed(&body).expect("is valid").expect("is there");
        assert_eq!((first, unframed(rest).expect("is valid")), (&b"one"[..], Some((&b""[..], &b""[..]))));
        for bad in [&b"\0\0\0\0"[..], b"\0\0\0\0\x02a", b"\x01\0\0\0\0", b"<html>", b"\0\xff\xff\xff\xffa"] {
            let error = unframed(bad).expect_err("is not valid").to_string();
            assert!(error.contains("did not answer with gRPC"), "{bad:?}: {error}");
        }
    }
}
