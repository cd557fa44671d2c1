//! Published MCP clients, each controlled by a driver in `clients/` over a line protocol.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::{node, root, tool};

/// A published client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// Python `mcp` 1.x.
    Python1,
    /// Python `mcp` 2.x.
    Python2,
    /// `@modelcontextprotocol/sdk` 1.x.
    TypeScript1,
    /// `@modelcontextprotocol/client` 2.x.
    TypeScript2,
    /// `rmcp`.
    Rmcp,
}

/// The protocol era of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// `initialize`, up to 2025-11-25.
    Legacy,
    /// `server/discover`, from 2026-07-28.
    Modern,
}

/// Every client in every era that it supports.
pub const CLIENTS: &[(Sdk, Era)] = &[
    (Sdk::Python1, Era::Legacy),
    (Sdk::Python2, Era::Legacy),
    (Sdk::Python2, Era::Modern),
    (Sdk::TypeScript1, Era::Legacy),
    (Sdk::TypeScript2, Era::Legacy),
    (Sdk::TypeScript2, Era::Modern),
    (Sdk::Rmcp, Era::Legacy),
    (Sdk::Rmcp, Era::Modern),
];

/// What a client connects to.
#[derive(Debug, Clone)]
pub enum Target {
    /// A streamable HTTP endpoint.
    Url(String),
    /// A program that the client starts and talks to over standard input and output.
    Command(Vec<String>),
}

/// The server's answer to the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The version agreed on.
    pub protocol_version: String,
    /// The server's name.
    pub server: Option<String>,
    /// The server's instructions.
    pub instructions: Option<String>,
}

/// An error as the client reports it to its caller: the server's or its own.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The JSON-RPC code, if the error has one.
    pub code: Option<i64>,
    /// The whole error, for messages of failed tests.
    pub error: Value,
}

/// A connected client.
#[derive(Debug)]
pub struct Client {
    name: String,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// The server's answer to the handshake.
    pub hello: Hello,
    _process: Child,
}

impl Client {
    /// Starts a client and connects it.
    ///
    /// # Errors
    /// The client is not installed, or the connection fails.
    pub async fn connect(sdk: Sdk, era: Era, target: &Target) -> Result<Self> {
        Self::connect_with(sdk, era, target, None).await
    }

    /// Starts a client that answers every elicitation with this content, and connects it. The driver of `rmcp` cannot do that.
    ///
    /// # Errors
    /// The client is not installed, or the connection fails.
    pub async fn connect_eliciting(sdk: Sdk, era: Era, target: &Target, content: &Value) -> Result<Self> {
        Self::connect_answering(sdk, era, target, &json!({"elicits": content})).await
    }

    /// Starts a client that answers what servers ask, and connects it. `answers` has the members `elicits`, a content, `samples`, a
    /// text, and `roots`, a list. Not every driver has all of them: see `clients/README.md`.
    ///
    /// # Errors
    /// The client is not installed, or the connection fails.
    pub async fn connect_answering(sdk: Sdk, era: Era, target: &Target, answers: &Value) -> Result<Self> {
        Self::connect_with(sdk, era, target, Some(answers)).await
    }

    async fn connect_with(sdk: Sdk, era: Era, target: &Target, answers: Option<&Value>) -> Result<Self> {
        let (program, arguments) = driver(sdk)?;
        let mut process = Command::new(program)
            .args(arguments)
            .current_dir(root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {sdk:?}"))?;
        let input = process.stdin.take().context("standard input")?;
        let output = BufReader::new(process.stdout.take().context("standard output")?).lines();
        let hello = Hello { protocol_version: String::new(), server: None, instructions: None };
        let mut client = Self { name: format!("{sdk:?} {era:?}"), input, output, hello, _process: process };
        let mode = match era {
            Era::Legacy => "legacy",
            Era::Modern => "auto",
        };
        let mut command = json!({"op": "connect", "mode": mode});
        for (name, answer) in answers.and_then(Value::as_object).into_iter().flatten() {
            command[name] = answer.clone();
        }
        match target {
            Target::Url(url) => command["url"] = json!(url),
            Target::Command(words) => command["command"] = json!(words),
        }
        let hello = client.must(&command).await?;
        client.hello = Hello {
            protocol_version: hello["protocolVersion"].as_str().unwrap_or_default().to_owned(),
            server: hello["server"].as_str().map(str::to_owned),
            instructions: hello["instructions"].as_str().map(str::to_owned),
        };
        Ok(client)
    }

    /// Lists all tools, in the server's order.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn list(&mut self) -> Result<Vec<Value>> {
        let mut listed = self.must(&json!({"op": "list"})).await?;
        match listed["tools"].take() {
            Value::Array(tools) => Ok(tools),
            other => bail!("{}: tools are {other}", self.name),
        }
    }

    /// Calls a tool. The outer error is the test's own, the inner one is what the client reports to its caller.
    ///
    /// # Errors
    /// The driver has exited.
    pub async fn call(&mut self, name: &str, arguments: Value) -> Result<Result<Value, Refusal>> {
        self.ask(&json!({"op": "call", "name": name, "arguments": arguments})).await
    }

    /// Calls a tool that must answer without a JSON-RPC error.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn result(&mut self, name: &str, arguments: Value) -> Result<Value> {
        self.must(&json!({"op": "call", "name": name, "arguments": arguments})).await
    }

    /// Calls a tool and asks for progress. Returns the result, and the parameters of each notification of progress without the
    /// token. The driver of `rmcp` does not have this.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn progress(&mut self, name: &str, arguments: Value) -> Result<(Value, Vec<Value>)> {
        let mut answer = self.must(&json!({"op": "progress", "name": name, "arguments": arguments})).await?;
        let progress = answer["progress"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok((answer["result"].take(), progress))
    }

    /// Calls a tool and cancels the call after `after`. Returns whether the call was still in flight.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn cancel(&mut self, name: &str, arguments: Value, after: Duration) -> Result<bool> {
        let command = json!({"op": "cancel", "name": name, "arguments": arguments, "after": after.as_millis()});
        Ok(self.must(&command).await?["cancelled"] == json!(true))
    }

    /// Lists all `prompts`, `resources` or `templates`, in the server's order.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn entries(&mut self, list: &str) -> Result<Vec<Value>> {
        let mut listed = self.must(&json!({"op": list})).await?;
        let member = if list == "templates" { "resourceTemplates" } else { list };
        match listed[member].take() {
            Value::Array(entries) => Ok(entries),
            other => bail!("{}: {list} are {other}", self.name),
        }
    }

    /// Gets a prompt. The outer error is the test's own, the inner one is what the client reports to its caller.
    ///
    /// # Errors
    /// The driver has exited.
    pub async fn prompt(&mut self, name: &str, arguments: Value) -> Result<Result<Value, Refusal>> {
        self.ask(&json!({"op": "prompt", "name": name, "arguments": arguments})).await
    }

    /// Reads a resource. The outer error is the test's own, the inner one is what the client reports to its caller.
    ///
    /// # Errors
    /// The driver has exited.
    pub async fn read(&mut self, uri: &str) -> Result<Result<Value, Refusal>> {
        self.ask(&json!({"op": "read", "uri": uri})).await
    }

    /// Completes an argument of a prompt or of a resource template.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn complete(&mut self, of: Value, argument: Value) -> Result<Value> {
        self.must(&json!({"op": "complete", "ref": of, "argument": argument})).await
    }

    /// Subscribes to changes of the lists.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn watch(&mut self) -> Result<()> {
        self.must(&json!({"op": "watch"})).await.map(drop)
    }

    /// Returns whether a change of the list of tools was announced since the last call, or is announced within this time.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn changed(&mut self, within: Duration) -> Result<bool> {
        self.list_changed("tools", within).await
    }

    /// Returns whether a change of `tools`, `prompts` or `resources` was announced since the last call, or is announced within
    /// this time.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn list_changed(&mut self, list: &str, within: Duration) -> Result<bool> {
        let command = json!({"op": "changed", "timeout": within.as_secs_f64(), "list": list});
        Ok(self.must(&command).await?["changed"] == json!(true))
    }

    /// Sends `ping`.
    ///
    /// # Errors
    /// The client reports an error.
    pub async fn ping(&mut self) -> Result<()> {
        self.must(&json!({"op": "ping"})).await.map(drop)
    }

    async fn must(&mut self, command: &Value) -> Result<Value> {
        self.ask(command).await?.map_err(|refusal| anyhow::anyhow!("{}: {command}: {}", self.name, refusal.error))
    }

    async fn ask(&mut self, command: &Value) -> Result<Result<Value, Refusal>> {
        self.input.write_all(format!("{command}\n").as_bytes()).await.with_context(|| self.name.clone())?;
        let line = tokio::time::timeout(Duration::from_secs(60), self.output.next_line())
            .await
            .with_context(|| format!("{}: no answer to {command}", self.name))??
            .with_context(|| format!("{}: ended at {command}", self.name))?;
        let mut answer: Value = serde_json::from_str(&line).with_context(|| format!("{}: {line}", self.name))?;
        Ok(match answer["error"].take() {
            Value::Null => Ok(answer["ok"].take()),
            error => Err(Refusal { code: error["code"].as_i64(), error }),
        })
    }
}

fn driver(sdk: Sdk) -> Result<(PathBuf, Vec<PathBuf>)> {
    let scripts = Path::new("tests/clients");
    Ok(match sdk {
        Sdk::Python1 => (tool("python1/bin/python")?, vec![scripts.join("python1.py")]),
        Sdk::Python2 => (tool("python2/bin/python")?, vec![scripts.join("python2.py")]),
        Sdk::TypeScript1 => (node()?, vec![scripts.join("ts1.mjs")]),
        Sdk::TypeScript2 => (node()?, vec![scripts.join("ts2.mjs")]),
        Sdk::Rmcp => (crate::binary("rmcp-driver")?, Vec::new()),
    })
}
