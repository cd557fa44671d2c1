//! The configuration format and file of each client, according to its documentation of October 2026.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};

/// An MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code: .mcp.json of a project.
    ClaudeCode,
    /// Claude Desktop, which starts its servers itself.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    GeminiCli,
}

/// A server in a client's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// The name of the server in the client: letters, digits, `-` and `_`.
    pub(super) name: String,
    pub(super) transport: Transport,
}

/// How a client reaches a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Transport {
    /// At a URL, with the key from an environment variable.
    Http { url: String, key: Option<String> },
    /// As a process that the client starts.
    Stdio { command: String, args: Vec<String> },
}

impl Client {
    /// Returns the member or table that holds the servers.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor | Self::GeminiCli => "mcpServers",
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
        }
    }

    /// Returns whether the client can call URLs on this machine.
    pub(super) fn calls_urls(self) -> bool {
        match self {
            Self::ClaudeDesktop => false,
            Self::ClaudeCode | Self::Cursor | Self::Vscode | Self::Codex | Self::GeminiCli => true,
        }
    }

    /// Returns the configuration fields of a server.
    pub(super) fn fields(self, server: &Server) -> Value {
        let (url, key) = match &server.transport {
            Transport::Http { url, key } => (url, key.as_deref()),
            Transport::Stdio { command, args } if self == Self::Vscode => {
                return json!({"type": "stdio", "command": command, "args": args});
            }
            Transport::Stdio { command, args } => return json!({"command": command, "args": args}),
        };
        let mut fields = match self {
            Self::ClaudeCode | Self::Vscode => json!({"type": "http", "url": url}),
            Self::Cursor | Self::Codex | Self::ClaudeDesktop => json!({"url": url}),
            // For Gemini CLI, `url` means the older transport.
            Self::GeminiCli => json!({"httpUrl": url}),
        };
        let Some(key) = key else { return fields };
        let reference = match self {
            Self::Codex => {
                fields["bearer_token_env_var"] = json!(key);
                return fields;
            }
            Self::ClaudeCode | Self::ClaudeDesktop => format!("${{{key}}}"),
            Self::Cursor => format!("${{env:{key}}}"),
            Self::Vscode => format!("${{input:{}}}", input(key)),
            Self::GeminiCli => format!("${key}"),
        };
        fields["headers"] = json!({"Authorization": format!("Bearer {reference}")});
        fields
    }

    /// Returns additional inputs that the file needs: VS Code asks for a key and stores it.
    pub(super) fn inputs(self, servers: &[Server]) -> Vec<Value> {
        if self != Self::Vscode {
            return Vec::new();
        }
        let mut keys: Vec<&str> = servers.iter().filter_map(Server::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let ask = |key| json!({"type": "promptString", "id": input(key), "description": key, "password": true});
        keys.into_iter().map(ask).collect()
    }

    /// Returns the client's usual file. `variable` reads an environment variable.
    pub(super) fn file(self, system: &str, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let home = || variable("HOME").or_else(|| variable("USERPROFILE"));
        Some(match self {
            Self::ClaudeCode => ".mcp.json".into(),
            Self::Cursor => ".cursor/mcp.json".into(),
            Self::Vscode => ".vscode/mcp.json".into(),
            Self::GeminiCli => ".gemini/settings.json".into(),
            Self::Codex => variable("CODEX_HOME").or_else(|| Some(home()?.join(".codex")))?.join("config.toml"),
            Self::ClaudeDesktop => {
                let settings = match system {
                    "macos" => home()?.join("Library/Application Support"),
                    "windows" => variable("APPDATA")?,
                    _ => variable("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))?,
                };
                settings.join("Claude/claude_desktop_config.json")
            }
        })
    }

    /// Returns advice on where to put the printed block.
    pub(super) fn advice(self, file: &str, servers: &[Server]) -> String {
        let other = match self {
            Self::ClaudeCode => ", or run `claude mcp add --transport http NAME URL` for yourself only",
            Self::Cursor => ", or to ~/.cursor/mcp.json for all projects",
            Self::GeminiCli => ", or to ~/.gemini/settings.json for all projects",
            Self::Vscode => ", or with `MCP: Open User Configuration` for all projects",
            Self::Codex | Self::ClaudeDesktop => "",
        };
        format!("Add it to {file}, as --write does{other}. {}", self.after(servers))
    }

    /// Returns the remaining steps after the block is written.
    pub(super) fn after(self, servers: &[Server]) -> String {
        let key = servers.iter().find_map(Server::key);
        let key = match (self, key) {
            (_, None) => String::new(),
            (Self::Vscode, Some(_)) => " VS Code asks for the key once.".to_owned(),
            (_, Some(key)) => format!(" The client reads the key from {key}: set it where the client starts."),
        };
        let see = match self {
            Self::ClaudeCode => "Start `claude` in this folder and approve the server; `/mcp` shows it.",
            Self::ClaudeDesktop => "Quit and restart Claude Desktop.",
            Self::Cursor => "Restart Cursor, and turn the server on in its settings.",
            Self::Vscode => "Trust the server when VS Code asks; `MCP: List Servers` shows it.",
            Self::Codex => "`codex mcp list` shows it.",
            Self::GeminiCli => "`gemini mcp list` shows it, in a folder that is trusted.",
        };
        format!("{see}{key}")
    }
}

impl Server {
    fn key(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http { key, .. } => key.as_deref(),
            Transport::Stdio { .. } => None,
        }
    }
}

/// Returns VS Code's identifier of a key that it asks for.
fn input(key: &str) -> String {
    key.to_ascii_lowercase().replace('_', "-")
}
