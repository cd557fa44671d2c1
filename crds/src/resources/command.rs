//! The `command` and `appleScript` sources of a `ServiceManifest`: programs that are started for each call.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use super::{ArgSpec, ArgType, ItemsSpec, Memory, Quantity, ResponseSpec, RiskSpec, SecretKeyRef};

/// A program that is started for each call. No shell reads its arguments. Only `tamis serve` runs programs, and only if the
/// GatewayGroup has `commands: {enabled: true}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandSpec {
    /// The program: an absolute path, or a name that is searched for in `PATH` when the service is loaded.
    pub executable: String,
    /// The names of environment variables that are passed to the program, in addition to `PATH`, `HOME`, `USER`, `LOGNAME`,
    /// `TMPDIR`, `LANG` and `LC_*`. A `*` at the end stands for any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Environment variables with fixed values.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env_inject: IndexMap<String, String>,
    /// Environment variables whose values are in Secrets, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub secret_env: IndexMap<String, SecretKeyRef>,
    /// The folder in which the program is started, an absolute path. Defaults to that of `tamis serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The option that makes the program print JSON; several words are separated by spaces. Defaults to `--json`; `none` for
    /// no option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_flag: Option<String>,
    /// The exit codes that mean success. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_codes: Option<Vec<u8>>,
    /// What one run of the program may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<CommandLimitsSpec>,
    /// Actions by tool name.
    pub actions: IndexMap<String, CommandActionSpec>,
}

/// What one run of a program may take.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandLimitsSpec {
    /// The longest time, with a unit. Defaults to `60s`. The timeout of the exposition applies too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub timeout: Option<String>,
    /// Bytes of standard output, and of standard error. Defaults to `16Mi`. `maxResponseBytes` of the exposition applies too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Quantity>,
    /// Processes and threads that may be started at once. Defaults to 64. Linux only, and not for root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// The private memory of each process. Defaults to `1Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

/// One tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandActionSpec {
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does. The model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the model should beware of. Appended to the description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The first words after the program, such as `[issue, list]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments by name, in the order in which they are written: positional ones, then options. Names that begin with `_` are
    /// reserved.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub args: IndexMap<String, CommandArgSpec>,
    /// The word after which the program reads no options, such as `--`. Positional arguments then come after the options, and
    /// may begin with `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_of_options: Option<String>,
    /// Replaces the `jsonFlag` of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_flag: Option<String>,
    /// Replaces the `successCodes` of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_codes: Option<Vec<u8>>,
    /// Whether the program prints one JSON value in each line. The output is their list, even for one line or none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ndjson: bool,
    /// How the output is read and filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseSpec>,
    /// How much harm a call can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskSpec>,
    /// Whether a repeated call has no further effect. Defaults to whether a call changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// When the program is run again after it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<CommandRetrySpec>,
    /// The text that the caller receives, by exit code.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub error_mapping: IndexMap<String, String>,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandArgSpec {
    /// The JSON type.
    #[serde(rename = "type")]
    pub kind: ArgType,
    /// The purpose of the argument. The model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether every call must have the argument.
    #[serde(default)]
    pub required: bool,
    /// The value that is written if a call omits the argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<JsonText>,
    /// The allowed values.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<JsonText>>,
    /// The elements of an `array`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemsSpec>,
    /// Which words the argument becomes. Defaults to `boolean` for a boolean, `json` for an object, and else `flag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<CommandArgStyle>,
    /// The option that names the argument. Defaults to `--` and the name, with `-` for `_`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
}

impl CommandArgSpec {
    /// Returns the argument without what is said of the command line.
    pub(crate) fn as_arg(&self) -> ArgSpec {
        let Self { kind, description, required, default, values, items, style: _, flag: _ } = self.clone();
        ArgSpec { kind, description, required, default, values, items, style: None }
    }
}

/// Which words an argument becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandArgStyle {
    /// `VALUE`; a list becomes one word for each element.
    Positional,
    /// `--name VALUE`, two words; a list becomes two words for each element.
    Flag,
    /// `--name=VALUE`, one word, so that the value may begin with `-`; a list becomes one word for each element.
    Joined,
    /// `--name` if the value is true, and nothing otherwise.
    Boolean,
    /// `--name A,B`, two words.
    Comma,
    /// `--name JSON`, two words; the value as JSON.
    Json,
}

/// When a program is run again after it failed. The backoff is linear.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandRetrySpec {
    /// The number of attempts, the first included: 1 to 10.
    pub max_attempts: u32,
    /// Milliseconds before the second attempt; twice that before the third. Defaults to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// The exit codes after which the program is run again.
    pub retry_on: Vec<u8>,
}

/// Scripts that `osascript` runs, on macOS. Each call starts one. The arguments are one JSON object on its standard input. Only
/// `tamis serve` runs scripts, and only if the GatewayGroup has `commands: {enabled: true}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppleScriptSpec {
    /// What one run of a script may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<CommandLimitsSpec>,
    /// Actions by tool name.
    pub actions: IndexMap<String, AppleScriptActionSpec>,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppleScriptActionSpec {
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does. The model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the model should beware of. Appended to the description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The script.
    pub inline_script: InlineScriptSpec,
    /// Arguments by name. Names that begin with `_` are reserved.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub args: IndexMap<String, ArgSpec>,
    /// How the output is read and filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseSpec>,
    /// How much harm a call can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskSpec>,
    /// Whether a repeated call has no further effect. Defaults to whether a call changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
}

/// A script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InlineScriptSpec {
    /// The language. Defaults to `jxa`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<ScriptLanguage>,
    /// The longest time of a run, with a unit. Defaults to the `timeout` of `limits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub timeout: Option<String>,
    /// The text of the script.
    pub source: String,
}

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScriptLanguage {
    /// JavaScript for Automation.
    Jxa,
    /// AppleScript.
    AppleScript,
}
