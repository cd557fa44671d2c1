//! Parses and validates arguments, and converts those of an alias. Long work runs outside the serving threads.

use std::time::Instant;

use bytes::Bytes;
use tamis_config::ExpositionId;

use crate::arguments::Arguments;
use crate::compute::NotRun;
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::mcp::arguments::{self, InvalidArguments, ValidationError};
use crate::offload::Work;
use crate::service::Service;

/// Maximum bytes of arguments that are parsed on the serving thread.
const LIGHT_BYTES: usize = 4 << 10;
/// Maximum steps of a validation on the serving thread. A longer one starts over outside it.
const LIGHT_STEPS: u64 = 4_000;

/// Why the arguments of a call cannot be used. Nothing was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArgumentsError {
    /// The arguments are not valid.
    Invalid(InvalidArguments),
    /// The deadline of the call passed.
    Overdue,
}

impl From<InvalidArguments> for ArgumentsError {
    fn from(invalid: InvalidArguments) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<NotRun> for ArgumentsError {
    fn from(_: NotRun) -> Self {
        // The memory for arguments is already reserved, so `Exhausted` does not occur.
        Self::Overdue
    }
}

/// Parses the arguments of a call.
///
/// # Errors
/// [`ArgumentsError`].
pub(crate) async fn read(
    gateway: &Gateway,
    exposition: &ExpositionId,
    raw: Option<&Bytes>,
    deadline: Instant,
) -> Result<Arguments, ArgumentsError> {
    let Some(raw) = raw else { return Ok(Arguments::default()) };
    if raw.len() <= LIGHT_BYTES {
        return Ok(read_text(raw)?);
    }
    let raw = raw.clone();
    Ok(gateway.offload(exposition).run(Work::Arguments, deadline, None, move |_| read_text(&raw)).await??)
}

fn read_text(raw: &[u8]) -> Result<Arguments, InvalidArguments> {
    let text = std::str::from_utf8(raw).map_err(|error| InvalidArguments(error.to_string()))?;
    arguments::read(Some(text))
}

/// Validates arguments. Returns the tool behind an alias, if the tool is one, and the arguments of the tool that is
/// called.
///
/// # Errors
/// [`ArgumentsError`].
pub(crate) async fn validate(
    gateway: &Gateway,
    exposition: &Exposition,
    tool: &str,
    arguments: Arguments,
    deadline: Instant,
) -> Result<(Option<String>, Arguments), ArgumentsError> {
    let bytes: usize = arguments.iter().map(|(_, value)| value.len()).sum();
    if bytes <= LIGHT_BYTES {
        match validate_now(&exposition.service, tool, &arguments, Some(LIGHT_STEPS)) {
            Ok(Some((tool, made))) => return Ok((Some(tool), made)),
            Ok(None) => return Ok((None, arguments)),
            Err(ValidationError::Invalid(invalid)) => return Err(invalid.into()),
            Err(ValidationError::Heavy) => {}
        }
    }
    let (service, tool) = (std::sync::Arc::clone(&exposition.service), tool.to_owned());
    let work = move |_: &dyn Fn() -> bool| match validate_now(&service, &tool, &arguments, None) {
        Ok(Some((tool, made))) => Ok((Some(tool), made)),
        Ok(None) => Ok((None, arguments)),
        Err(ValidationError::Invalid(invalid)) => Err(invalid),
        // A validation without a step limit always completes.
        Err(ValidationError::Heavy) => Err(InvalidArguments("cannot be validated".to_owned())),
    };
    Ok(gateway.offload(&exposition.id).run(Work::Arguments, deadline, None, work).await??)
}

/// Validates arguments on this thread, each validation in at most `steps`.
fn validate_now(
    service: &Service,
    tool: &str,
    arguments: &Arguments,
    steps: Option<u64>,
) -> Result<Option<(String, Arguments)>, ValidationError> {
    arguments::validate(&service.contracts[tool].schema, arguments, steps)?;
    let resolved = service.upstream.resolve_alias(tool, arguments);
    let Some((called, made)) = resolved.map_err(|error| InvalidArguments(error.to_string()))? else { return Ok(None) };
    // The schema of the tool behind an alias validates the arguments that the alias makes.
    arguments::validate(&service.contracts[called].schema, &made, steps)?;
    Ok(Some((called.to_owned(), made)))
}
