//! Logging to standard error, for people or as one JSON object per line.

use std::fmt::Display;
use std::io::IsTerminal;

use clap::{ColorChoice, ValueEnum};
use tamis_crds::{Diagnostic, Severity};
use tamis_gateway::AuditLog;
use tracing_subscriber::EnvFilter;

use crate::note;

/// Options of every subcommand.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// The format of log lines and findings on standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Human, help_heading = "Logging")]
    log_format: LogFormat,
    /// The minimum level to log: off, error, warn, info, debug, trace, or directives such as `info,tamis_gateway=debug`
    /// [default: info; less for demo].
    #[arg(long, global = true, env = "RUST_LOG", value_parser = directives, help_heading = "Logging")]
    log_level: Option<String>,
    /// Whether to colour messages for people. `auto` colours on a terminal unless `NO_COLOR` is set.
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Logging")]
    color: ColorChoice,
}

impl LogArgs {
    /// Returns whether people read standard error.
    pub(crate) fn is_human(&self) -> bool {
        matches!(self.log_format, LogFormat::Human)
    }

    /// Returns whether to colour output to `stream`.
    pub(crate) fn colours(&self, stream: &impl IsTerminal) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }

    /// Returns how a gateway writes audit records: in the format of the other log lines. Colours are only for terminals,
    /// and left to the library.
    pub(crate) fn audit_log(&self) -> AuditLog {
        match (self.log_format, self.colours(&std::io::stderr())) {
            (LogFormat::Json, _) => AuditLog::Json,
            (LogFormat::Human, false) => AuditLog::Text,
            (LogFormat::Human, true) => AuditLog::Events,
        }
    }

    /// Reports findings on standard error, one line or one JSON event each.
    pub(crate) fn report<'a>(&self, findings: impl IntoIterator<Item = &'a Diagnostic>) {
        let ansi = self.colours(&std::io::stderr());
        for finding in findings {
            if self.is_human() {
                note!("{}", Coloured(finding, ansi));
            } else {
                event(finding);
            }
        }
    }

    /// Reports why the command failed.
    pub(crate) fn fail(&self, error: &anyhow::Error) {
        if self.is_human() {
            note!("tamis: {error:#}");
        } else {
            tracing::error!("{error:#}");
        }
    }
}

/// Logs a finding, with its parts as fields.
pub(crate) fn event(finding: &Diagnostic) {
    let Diagnostic { severity, file, line, column, field, message, remedy, reason } = finding;
    match severity {
        Severity::Error => tracing::error!(%file, line, column, field, remedy, %reason, "{message}"),
        Severity::Warning => tracing::warn!(%file, line, column, field, remedy, %reason, "{message}"),
    }
}

/// A finding for people: the place in bold and, if enabled, the severity in colour.
pub(crate) struct Coloured<'a>(pub(crate) &'a Diagnostic, pub(crate) bool);

impl Display for Coloured<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(finding, true) = self else { return write!(f, "{}", self.0) };
        let colour = match finding.severity {
            Severity::Error => "31",
            Severity::Warning => "33",
        };
        let Diagnostic { severity, file, line, column, .. } = finding;
        let statement = finding.statement();
        write!(f, "\x1b[1m{file}:{line}:{column}:\x1b[0m \x1b[1;{colour}m{severity}:\x1b[0m {statement}")
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Rejects a misspelt level. The library would take it for the name of a module, enable that module, and silence everything
/// else.
fn directives(text: &str) -> Result<String, String> {
    let accepted = || format!("write one of {}, or directives such as info,tamis_gateway=debug", LEVELS.join(", "));
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    for directive in text.split(',').map(str::trim) {
        // `[span]` and `target=level` are unambiguous.
        let level = match directive.rsplit_once('=') {
            Some((_, level)) if !directive.ends_with(']') => level.trim(),
            _ if directive.starts_with('[') || directive.is_empty() => continue,
            _ => directive,
        };
        if !is_level(level) {
            return Err(format!("`{level}` is not a level; {}", accepted()));
        }
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|_| format!("cannot be read; {}", accepted()))
}

/// Starts logging to standard error, by default at `level`. Call it once.
pub(crate) fn init(args: &LogArgs, level: &str) {
    // An empty RUST_LOG counts as unset.
    let filter = args.log_level.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or(level);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        // The library would report a closed standard error on standard error, and panic.
        .log_internal_errors(false)
        .with_ansi(args.colours(&std::io::stderr()));
    match args.log_format {
        LogFormat::Human => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_misspelt_is_refused_with_the_right_ones() {
        for good in [
            "off",
            "info",
            "INFO",
            "",
            "info,audit=off",
            "tamis_gateway=debug",
            "warn,tamis::serve=info",
            "[call]=debug",
        ] {
            assert!(directives(good).is_ok(), "{good}");
        }
        for bad in ["infoo", "warning", "tamis_gateway", "info,debugg", "tamis_gateway=loud", "3", "verbose"] {
            let said = directives(bad).expect_err(bad);
            assert!(said.contains("off, error, warn, info, debug, trace"), "{bad}: {said}");
        }
    }

    #[test]
    fn colours_change_no_word() {
        let file = "a.yaml".into();
        let start = tamis_crds::yaml::Position::START;
        for finding in [
            Diagnostic::error(&file, start, "spec.a", "is wrong", "fix it"),
            Diagnostic::warning(&file, start, "", "is odd", ""),
        ] {
            assert_eq!(Coloured(&finding, false).to_string(), finding.to_string());
            let mut plain = Coloured(&finding, true).to_string();
            for code in ["\x1b[1m", "\x1b[0m", "\x1b[1;31m", "\x1b[1;33m"] {
                plain = plain.replace(code, "");
            }
            assert_eq!(plain, finding.to_string());
        }
    }
}
