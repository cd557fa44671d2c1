//! Where logs go and how they look: standard error, for people or one JSON object a line.

use std::io::IsTerminal as _;

use clap::{ColorChoice, ValueEnum};
use tracing_subscriber::EnvFilter;

/// Options that every subcommand takes.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// How log lines on standard error look.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Human, help_heading = "Logging")]
    log_format: LogFormat,
    /// Least level to log: off, error, warn, info, debug, trace, or directives such as `info,tamis_gateway=debug`
    /// [default: info; demo: less].
    #[arg(long, global = true, env = "RUST_LOG", value_parser = directives, help_heading = "Logging")]
    log_level: Option<String>,
    /// Whether to colour messages for people. `auto` colours on a terminal unless `NO_COLOR` is set.
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Logging")]
    color: ColorChoice,
}

impl LogArgs {
    /// Whether standard error is read by people.
    pub(crate) fn is_human(&self) -> bool {
        matches!(self.log_format, LogFormat::Human)
    }
}

/// The look of a log line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

fn directives(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|e| e.to_string())
}

/// Sends logs to standard error, by default those at `level`. To be called once.
pub(crate) fn init(args: &LogArgs, level: &str) {
    let ansi = match args.color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        }
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(args.log_level.as_deref().unwrap_or(level)))
        .with_writer(std::io::stderr)
        .with_ansi(ansi);
    match args.log_format {
        LogFormat::Human => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).init(),
    }
}
