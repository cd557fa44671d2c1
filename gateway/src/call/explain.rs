//! Explains a call that failed upstream: to the caller, in metrics and in the log.

use bytes::Bytes;
use tamis_config::ServiceTool;
use tamis_engine::Enforcement;

use super::ActiveCall;
use crate::metrics::{NoStatus, Outcome};
use crate::upstream::UpstreamError;

/// Maximum bytes of an upstream's error body that an `Advisory` caller gets.
const ERROR_BODY: usize = 8 << 10;

/// Returns the label for the metric of upstream requests.
pub(super) fn category(error: &UpstreamError) -> Result<u16, NoStatus> {
    match error {
        UpstreamError::Status { status, .. } => Ok(*status),
        UpstreamError::Tool { .. }
        | UpstreamError::Rpc { .. }
        | UpstreamError::GraphQl { .. }
        | UpstreamError::InputRequired(_) => Ok(200),
        UpstreamError::SessionEnded => Ok(404),
        UpstreamError::NotReady(error) => category(error),
        UpstreamError::Timeout { .. } => Err(NoStatus::Timeout),
        UpstreamError::TooLarge { .. } => Err(NoStatus::TooLarge),
        UpstreamError::Exhausted { .. } => Err(NoStatus::Exhausted),
        UpstreamError::Malformed(_) | UpstreamError::CredentialReturned => Err(NoStatus::Malformed),
        UpstreamError::Exit { .. } => Err(NoStatus::Exit),
        UpstreamError::Unreachable { .. } => Err(NoStatus::Unreachable),
        _ => Err(NoStatus::NotSent),
    }
}

/// Returns the outcome that a failed call counts as.
fn outcome(error: &UpstreamError) -> Outcome {
    match error {
        UpstreamError::Argument { .. } => Outcome::InvalidArguments,
        UpstreamError::Timeout { .. } => Outcome::Timeout,
        UpstreamError::Credential(_) | UpstreamError::CredentialUse(_) => Outcome::Error,
        _ => Outcome::UpstreamError,
    }
}

/// Returns the text that explains a failed call to its caller. Under `Enforced` it holds nothing of the upstream's
/// answer.
pub(super) fn explain(active: &mut ActiveCall<'_>, declared: &ServiceTool, error: &UpstreamError) -> String {
    let exposition = active.exposition;
    let advisory = exposition.enforcement == Enforcement::Advisory;
    let limit = active.limits.output;
    let allows = |text: &str| exposition.allows(text, limit);
    active.outcome = outcome(error);
    let mut message = match error {
        UpstreamError::Argument { .. } => return format!("Invalid arguments: {error}"),
        UpstreamError::Status { status, mapped, body } => {
            active.status = *status;
            active.output = Some(body.clone());
            let message = match mapped {
                Some(mapped) => format!("The upstream answered {status}: {mapped}"),
                None => format!("The upstream answered {status}."),
            };
            with_excerpt(message, advisory.then_some(body), allows)
        }
        UpstreamError::Exit { how, mapped, body } => {
            active.output = Some(body.clone());
            let message = match mapped {
                Some(mapped) => format!("The program {how}: {mapped}"),
                None => format!("The program {how}."),
            };
            with_excerpt(message, advisory.then_some(body), allows)
        }
        UpstreamError::Tool { body: said }
        | UpstreamError::Rpc { message: said, .. }
        | UpstreamError::GraphQl { errors: said } => {
            active.status = 200;
            active.output = Some(said.clone());
            with_excerpt(format!("{}.", capitalised(&error.to_string())), advisory.then_some(said), allows)
        }
        UpstreamError::NotReady(inner) => {
            let why = match &**inner {
                UpstreamError::Malformed(_) if !advisory => "its answer could not be read".to_owned(),
                inner => inner.to_string(),
            };
            let message = format!("The upstream is not ready for calls, and the call was not sent: {why}.");
            with_excerpt(message, inner.body().filter(|_| advisory), allows)
        }
        UpstreamError::Withheld(why) => format!(
            "The tool was not called: {why}. The operator of the gateway can review and accept the change with \
             `tamis import mcp --update`."
        ),
        UpstreamError::Malformed(_) if !advisory => "The upstream's answer could not be read.".to_owned(),
        other => other_text(active, other),
    };
    let executed = matches!(
        error,
        UpstreamError::Timeout { sent: true }
            | UpstreamError::Unreachable { sent: true, .. }
            | UpstreamError::TooLarge { .. }
            | UpstreamError::Malformed(_)
            | UpstreamError::GraphQl { .. }
            | UpstreamError::CredentialReturned
    );
    if executed && declared.risk.mutating {
        message.push_str(" The call may have been executed: do not repeat it without checking.");
    }
    message
}

/// Returns a text block, as JSON, that tells an `Advisory` caller which errors came with the data: as much of them as `allows`
/// accepts. None if it accepts not even that there were errors.
pub(super) fn errors_block(errors: &Bytes, allows: impl Fn(&str) -> bool) -> Option<Bytes> {
    const WARNING: &str = "Warning: the upstream reported errors, so that parts of the data may be missing.";
    let text = with_excerpt(WARNING.to_owned(), Some(errors), &allows);
    allows(&text).then(|| text_block(&text))
}

/// Returns a text block of an answer, as JSON.
pub(super) fn text_block(text: &str) -> Bytes {
    format!("{{\"type\":\"text\",\"text\":{}}}", tamis_engine::json::encode(text)).into()
}

/// Returns the text that explains a failed read to its caller: one line, without data of the upstream.
pub(super) fn explain_read(active: &mut ActiveCall<'_>, error: &UpstreamError) -> String {
    active.outcome = outcome(error);
    match error {
        UpstreamError::Status { status, mapped: _, body } => {
            active.status = *status;
            active.output = Some(body.clone());
            format!("The upstream answered {status}.")
        }
        UpstreamError::Rpc { code, message } => {
            active.status = 200;
            active.output = Some(message.clone());
            format!("The upstream answered with error {code}.")
        }
        other => other_text(active, other),
    }
}

/// Returns the text for an error that holds nothing of the upstream's answer. An error of a credential is logged: its text
/// does not name the credential.
fn other_text(active: &ActiveCall<'_>, error: &UpstreamError) -> String {
    let (credential, event, text) = match error {
        UpstreamError::Credential(credential) => {
            (Some(credential), "credential is not available", "The gateway has no credential for the upstream.")
        }
        UpstreamError::CredentialUse(credential) => (
            Some(credential),
            "credential may not be used for this request",
            "The gateway may not use its credential for this request.",
        ),
        UpstreamError::CredentialReturned => (
            None,
            "answer withheld: it contains the credential that it was called with",
            "The upstream's answer was withheld: it contains a credential.",
        ),
        other => return format!("{}.", capitalised(&other.to_string())),
    };
    let (secret, key) = (credential.map(|c| c.name.as_str()), credential.map(|c| c.key.as_str()));
    tracing::error!(exposition = %active.exposition.id, tool = active.tool, secret, key, "{event}");
    text.to_owned()
}

/// Appends the beginning of what the upstream said, if the caller may see that: as much of it as `allows` accepts
/// together with the message.
fn with_excerpt(message: String, said: Option<&Bytes>, allows: impl Fn(&str) -> bool) -> String {
    let Some(said) = said.filter(|said| !said.is_empty()) else { return message };
    let is_whole = said.len() <= ERROR_BODY;
    let said = String::from_utf8_lossy(&said[..said.len().min(ERROR_BODY)]);
    let shown = |end: usize| {
        let dots = if is_whole && end == said.len() { "" } else { "..." };
        format!("{message}\n{}{dots}", &said[..end])
    };
    let all = shown(said.len());
    if allows(&all) {
        return all;
    }
    // A longer text may have fewer tokens, so what is returned is a text that was accepted.
    let (mut accepted, mut fits, mut exceeds) = (None, 0, said.len());
    loop {
        let middle = said.floor_char_boundary(usize::midpoint(fits, exceeds));
        let middle = if middle > fits { middle } else { said.ceil_char_boundary(fits + 1) };
        if middle >= exceeds {
            return accepted.unwrap_or(message);
        }
        let text = shown(middle);
        if allows(&text) {
            (accepted, fits) = (Some(text), middle);
        } else {
            exceeds = middle;
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(said: &[u8], most: usize) -> String {
        with_excerpt("Failed.".to_owned(), Some(&Bytes::copy_from_slice(said)), |text| text.len() <= most)
    }

    #[test]
    fn an_excerpt_is_as_long_as_allowed() {
        let long = "x".repeat(ERROR_BODY + 1);
        for (said, most, expected) in [
            ("no such item", 100, "Failed.\nno such item"),
            ("no such item", 20, "Failed.\nno such item"),
            ("no such item", 19, "Failed.\nno such ..."),
            ("no such item", 12, "Failed.\nn..."),
            // The message itself is not cut.
            ("no such item", 11, "Failed."),
            ("no such item", 0, "Failed."),
            ("", 100, "Failed."),
            // Between characters.
            ("\u{e4}\u{f6}\u{fc}\u{df}", 15, "Failed.\n\u{e4}\u{f6}..."),
            ("\u{e4}\u{f6}\u{fc}\u{df}", 14, "Failed.\n\u{e4}..."),
            (&long, usize::MAX, &format!("Failed.\n{}...", &long[1..])),
            (&long, 108, &format!("Failed.\n{}...", &long[..97])),
        ] {
            assert_eq!(excerpt(said.as_bytes(), most), expected, "{} bytes in {most}", said.len());
        }
        assert_eq!(with_excerpt("Failed.".to_owned(), None, |_| true), "Failed.");
    }

    #[test]
    fn every_excerpt_within_a_limit_was_accepted() {
        let said = "\u{1f600}a\u{e4}".repeat(40);
        for most in 0..said.len() + 20 {
            let text = excerpt(said.as_bytes(), most);
            assert!(text.len() <= most.max(7), "{most}: {text}");
            // Another character would not have fitted.
            assert!(text == "Failed." || text.ends_with(&said) || text.len() + 4 > most, "{most}: {text}");
        }
    }
}
