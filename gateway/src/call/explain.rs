//! Explains a call that failed upstream: to the caller, in metrics and in the log.

use std::borrow::Cow;

use bytes::Bytes;
use tamis_config::{CredentialRef, ServiceTool};
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
        UpstreamError::Tool { .. } | UpstreamError::Rpc { .. } => Ok(200),
        UpstreamError::NotReady(error) => category(error),
        UpstreamError::Timeout { .. } => Err(NoStatus::Timeout),
        UpstreamError::TooLarge { .. } => Err(NoStatus::TooLarge),
        UpstreamError::Exhausted { .. } => Err(NoStatus::Exhausted),
        UpstreamError::Malformed(_) | UpstreamError::CredentialReturned => Err(NoStatus::Malformed),
        UpstreamError::Unreachable { .. } => Err(NoStatus::Unreachable),
        _ => Err(NoStatus::NotSent),
    }
}

/// Returns the text that explains a failed call to its caller. Under `Enforced` it holds nothing of the upstream's
/// answer.
pub(super) fn explain(active: &mut ActiveCall<'_>, declared: &ServiceTool, error: &UpstreamError) -> String {
    let advisory = active.exposition.enforcement == Enforcement::Advisory;
    active.outcome = match error {
        UpstreamError::Argument { .. } => Outcome::InvalidArguments,
        UpstreamError::Timeout { .. } => Outcome::Timeout,
        UpstreamError::Credential(_) | UpstreamError::CredentialUse(_) => Outcome::Error,
        _ => Outcome::UpstreamError,
    };
    let mut message = match error {
        UpstreamError::Argument { .. } => return format!("Invalid arguments: {error}"),
        UpstreamError::Status { status, mapped, body } => {
            active.status = *status;
            active.output = Some(body.clone());
            let message = match mapped {
                Some(mapped) => format!("The upstream answered {status}: {mapped}"),
                None => format!("The upstream answered {status}."),
            };
            with_excerpt(message, advisory.then_some(body))
        }
        UpstreamError::Tool { body: said } | UpstreamError::Rpc { message: said, .. } => {
            active.status = 200;
            active.output = Some(said.clone());
            with_excerpt(format!("{}.", capitalised(&error.to_string())), advisory.then_some(said))
        }
        UpstreamError::NotReady(inner) => {
            let why = match &**inner {
                UpstreamError::Malformed(_) if !advisory => "its answer could not be read".to_owned(),
                inner => inner.to_string(),
            };
            let message = format!("The upstream is not ready for calls, and the call was not sent: {why}.");
            with_excerpt(message, inner.body().filter(|_| advisory))
        }
        UpstreamError::Withheld(why) => format!(
            "The tool was not called: {why}. The operator of the gateway can review and accept the change with \
             `tamis import mcp --update`."
        ),
        UpstreamError::Malformed(_) if !advisory => "The upstream's answer could not be read.".to_owned(),
        UpstreamError::Credential(credential) => {
            let event = "credential is not available";
            withheld(active, Some(credential), event, "The gateway has no credential for the upstream.")
        }
        UpstreamError::CredentialUse(credential) => {
            let event = "credential may not be used for this request";
            withheld(active, Some(credential), event, "The gateway may not use its credential for this request.")
        }
        UpstreamError::CredentialReturned => {
            let event = "answer withheld: it contains the credential that it was called with";
            withheld(active, None, event, "The upstream's answer was withheld: it contains a credential.")
        }
        other => format!("{}.", capitalised(&other.to_string())),
    };
    let executed = matches!(
        error,
        UpstreamError::Timeout { sent: true }
            | UpstreamError::Unreachable { sent: true, .. }
            | UpstreamError::TooLarge { .. }
            | UpstreamError::Malformed(_)
            | UpstreamError::CredentialReturned
    );
    if executed && declared.risk.mutating {
        message.push_str(" The call may have been executed: do not repeat it without checking.");
    }
    message
}

/// Logs an error of a credential. Returns the text for the caller, which does not name the credential.
fn withheld(active: &ActiveCall<'_>, credential: Option<&CredentialRef>, event: &'static str, text: &str) -> String {
    let (secret, key) = (credential.map(|c| c.name.as_str()), credential.map(|c| c.key.as_str()));
    tracing::error!(exposition = %active.exposition.id, tool = active.tool, secret, key, "{event}");
    text.to_owned()
}

/// Appends the beginning of what the upstream said, if the caller may see that.
fn with_excerpt(mut message: String, said: Option<&Bytes>) -> String {
    if let Some(said) = said.filter(|said| !said.is_empty()) {
        message.push('\n');
        message.push_str(&excerpt(said));
    }
    message
}

/// Returns the beginning of an error body, as text.
fn excerpt(body: &[u8]) -> Cow<'_, str> {
    if body.len() <= ERROR_BODY {
        return String::from_utf8_lossy(body);
    }
    let mut text = String::from_utf8_lossy(&body[..ERROR_BODY]).into_owned();
    text.push_str("...");
    Cow::Owned(text)
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
