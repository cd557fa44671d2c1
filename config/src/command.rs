//! Programs as the source of a service: each call of a tool starts one.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use crate::{CredentialRef, Retry};

/// A program that is started for each call. Only `tamis serve` runs programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandSource {
    /// The program: an absolute path, or a name that is searched for in the gateway's `PATH` when the service is loaded.
    pub executable: String,
    /// The names of variables that the program gets from the gateway's environment, in addition to those that every program gets.
    /// A name that ends with `*` stands for every variable that begins so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Variables with fixed values.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env_inject: IndexMap<String, String>,
    /// Variables whose values are credentials.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub secret_env: IndexMap<String, CredentialRef>,
    /// The folder in which the program is started, an absolute path; that of the gateway without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// What one run of the program may take.
    pub limits: CommandLimits,
}

/// What one run of a program may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandLimits {
    /// Milliseconds.
    pub timeout_ms: u64,
    /// Bytes of standard output, and of standard error.
    pub output_bytes: u64,
    /// Processes and threads of the gateway's user that may be started in addition to those that run at the start.
    pub processes: u32,
    /// Bytes of private memory of each process.
    pub memory_bytes: u64,
}

/// How a call becomes a run of the program: the words of its command line. No shell reads them.
///
/// The order is `words`, positional arguments, other arguments, `last_words`. With `end_of_options` it is `words`, arguments that are
/// not positional, `last_words`, `end_of_options`, positional arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandCall {
    /// The first words after the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// How each argument is written, in the order in which they are written.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub arguments: IndexMap<String, CommandArgument>,
    /// Defaults of arguments that the caller left out.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub defaults: IndexMap<String, JsonText>,
    /// The words after the arguments: the option that makes the program print JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_words: Vec<String>,
    /// The word after which the program reads no options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_of_options: Option<String>,
    /// Whether the program gets all arguments as one JSON object on its standard input, which is empty otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json_input: bool,
    /// Exit codes that mean success.
    pub success_codes: Vec<u8>,
    /// Whether the program prints one JSON value in each line. The output is their list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ndjson: bool,
    /// Dotted path into what the program prints: what is below it is the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// When to try again. The statuses are exit codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Exit code to the text that the caller gets for it.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub error_mapping: IndexMap<u8, String>,
    /// Replaces the timeout of the source, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// How an argument is written into a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandArgument {
    /// Which words it becomes.
    pub style: CommandStyle,
    /// The option that names it, such as `--state`; none for a positional argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
}

/// Which words an argument becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandStyle {
    /// `VALUE`; a list becomes one word for each element.
    Positional,
    /// `--name VALUE`, two words; a list becomes two words for each element.
    Flag,
    /// `--name=VALUE`, one word; a list becomes one word for each element.
    Joined,
    /// `--name` if the value is true, and nothing otherwise.
    Boolean,
    /// `--name A,B`, two words.
    Comma,
    /// `--name JSON`, two words; the value as JSON, of any type.
    Json,
}
