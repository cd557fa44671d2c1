//! Drives rmcp's client; the line protocol is in `clients/README.md`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rmcp::model::{
    CallToolRequestParams, ClientRequest, PingRequest, ProtocolVersion, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, RoleClient};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::Notify;

/// Notifications that a list has changed.
#[derive(Default)]
struct Changes {
    tools: Notify,
    prompts: Notify,
    resources: Notify,
}

#[derive(Clone, Default)]
struct Handler(Arc<Changes>);

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.tools.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.prompts.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.resources.notify_one();
    }
}

type Client = RunningService<RoleClient, Handler>;

#[tokio::main]
async fn main() -> Result<()> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let changes = Arc::new(Changes::default());
    let mut client: Option<Client> = None;
    while let Some(line) = input.next_line().await? {
        let command: Value = serde_json::from_str(&line)?;
        let answer = if command["op"] == "connect" {
            match connect(&command, Handler(Arc::clone(&changes))).await {
                Ok((connected, hello)) => {
                    client = Some(connected);
                    Ok(hello)
                }
                Err(error) => Err(error),
            }
        } else {
            act(client.as_ref().context("not connected")?, &command, &changes).await
        };
        match answer {
            Ok(value) => println!("{}", json!({ "ok": value })),
            Err(error) => println!("{}", json!({ "error": describe(&error) })),
        }
    }
    if let Some(client) = client {
        client.cancel().await?;
    }
    Ok(())
}

async fn connect(command: &Value, handler: Handler) -> Result<(Client, Value)> {
    let lifecycle = if command["mode"] == "legacy" {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::LATEST], legacy_version: None }
    };
    let client = match (command["url"].as_str(), command["command"].as_array()) {
        (Some(url), _) => {
            let transport = StreamableHttpClientTransport::from_uri(url);
            serve_client_with_lifecycle(handler, transport, lifecycle).await?
        }
        (None, Some(words)) => {
            let mut words = words.iter().filter_map(Value::as_str);
            let mut program = Command::new(words.next().context("no command")?);
            program.args(words);
            serve_client_with_lifecycle(handler, TokioChildProcess::new(program)?, lifecycle).await?
        }
        (None, None) => bail!("connect needs `url` or `command`"),
    };
    let peer = client.peer_info().context("no answer to the handshake")?;
    let hello = json!({
        "protocolVersion": peer.protocol_version,
        "server": peer.server_info.as_ref().map(|server| &server.name),
        "instructions": peer.instructions,
    });
    Ok((client, hello))
}

async fn act(client: &Client, command: &Value, changes: &Arc<Changes>) -> Result<Value> {
    match command["op"].as_str().unwrap_or_default() {
        "list" => Ok(json!({ "tools": client.list_all_tools().await? })),
        "call" => Ok(serde_json::to_value(client.call_tool(call(command)).await?)?),
        "cancel" => {
            let after = Duration::from_millis(command["after"].as_u64().context("after")?);
            let answer = tokio::time::timeout(after, client.call_tool(call(command))).await;
            Ok(json!({ "cancelled": answer.is_err() }))
        }
        "watch" => {
            let modern = client.peer_info().is_some_and(|peer| peer.protocol_version >= ProtocolVersion::V_2026_07_28);
            if modern {
                let filter = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed();
                let mut events = client.listen(filter.resources_list_changed().build()).await?;
                let changes = Arc::clone(changes);
                tokio::spawn(async move {
                    while let Ok(Some(event)) = events.next().await {
                        match event {
                            ServerNotification::PromptListChangedNotification(_) => changes.prompts.notify_one(),
                            ServerNotification::ResourceListChangedNotification(_) => changes.resources.notify_one(),
                            _ => changes.tools.notify_one(),
                        }
                    }
                });
            }
            Ok(json!({}))
        }
        "changed" => {
            let within = Duration::from_secs_f64(command["timeout"].as_f64().context("timeout")?);
            let list = match command["list"].as_str() {
                Some("prompts") => &changes.prompts,
                Some("resources") => &changes.resources,
                _ => &changes.tools,
            };
            Ok(json!({ "changed": tokio::time::timeout(within, list.notified()).await.is_ok() }))
        }
        "prompts" => Ok(json!({ "prompts": client.list_all_prompts().await? })),
        "resources" => Ok(json!({ "resources": client.list_all_resources().await? })),
        "templates" => Ok(json!({ "resourceTemplates": client.list_all_resource_templates().await? })),
        "prompt" => Ok(serde_json::to_value(client.get_prompt(params(command)?).await?)?),
        "read" => Ok(serde_json::to_value(client.read_resource(params(command)?).await?)?),
        "complete" => Ok(serde_json::to_value(client.complete(params(command)?).await?)?),
        "ping" => {
            client.send_request(ClientRequest::PingRequest(PingRequest::default())).await?;
            Ok(json!({}))
        }
        other => bail!("unknown command {other}"),
    }
}

/// Returns the parameters of a request: the command without its name.
fn params<T: DeserializeOwned>(command: &Value) -> Result<T> {
    let mut params = command.clone();
    if let Some(members) = params.as_object_mut() {
        members.remove("op");
        members.retain(|_, value| !value.is_null());
    }
    Ok(serde_json::from_value(params)?)
}

fn call(command: &Value) -> CallToolRequestParams {
    let name = command["name"].as_str().unwrap_or_default().to_owned();
    let call = CallToolRequestParams::new(name);
    match command["arguments"].as_object() {
        Some(arguments) => call.with_arguments(arguments.clone()),
        None => call,
    }
}

fn describe(error: &anyhow::Error) -> Value {
    match error.downcast_ref::<ServiceError>() {
        Some(ServiceError::McpError(error)) => {
            json!({"kind": "McpError", "code": error.code, "message": error.message, "data": error.data})
        }
        _ => json!({"kind": "Error", "message": format!("{error:#}")}),
    }
}
