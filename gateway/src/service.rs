//! A loaded service: its upstream and, for each tool, the contract that validates arguments. All expositions of the
//! service share it, and equal services are held once.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::carrier::Unreadable;
use tamis_config::{Call, Digest, PaginationKind, ServiceDocument, ServiceTool, reads};
use tamis_engine::JsonText;
use tamis_schema::{Patterns, Schema};

use crate::mcp::encode;
use crate::mcp::headers::{ParamHeader, param_headers};
use crate::upstream::{Client, Listed, Upstream};

/// One service.
#[derive(Debug)]
pub(crate) struct Service {
    /// The document that it was loaded from.
    pub(crate) document: Arc<ServiceDocument>,
    /// The digest of the document.
    pub(crate) digest: Digest,
    /// The upstream that is called.
    pub(crate) upstream: Upstream,
    /// The contract of each tool, in the order of the document.
    pub(crate) contracts: IndexMap<String, Contract>,
    /// The member of a modern `_meta` that names the server.
    pub(crate) server_meta: Arc<str>,
    /// `{"name":..,"version":..}`.
    pub(crate) server_info: String,
}

/// The arguments that a tool takes.
#[derive(Debug)]
pub(crate) struct Contract {
    /// The input schema, compiled.
    pub(crate) schema: Schema,
    /// Arguments that headers repeat.
    pub(crate) param_headers: Vec<ParamHeader>,
    /// Names of the schema's properties.
    pub(crate) arguments: Vec<String>,
    /// SHA-256 of everything that a list shows of the tool, except what an exposition adds.
    pub(crate) listed: [u8; 32],
}

impl Service {
    /// Compiles a document.
    ///
    /// # Errors
    /// Names the tool and its problem.
    pub(crate) fn load(digest: &Digest, document: &Arc<ServiceDocument>, client: &Arc<Client>) -> Result<Self, String> {
        if !reads(document.format_version) {
            return Err(format!("service {}: {}", document.name, Unreadable::TooNew(document.format_version)));
        }
        let upstream = Upstream::new(document, Arc::clone(client)).map_err(|e| e.to_string())?;
        Self::over(upstream, digest, document)
    }

    /// Compiles the tools that the followed server of this service lists now.
    ///
    /// # Errors
    /// Names the tool and its problem.
    pub(crate) fn derived(&self, listed: &Listed) -> Result<Self, String> {
        let document = ServiceDocument { tools: listed.tools.clone(), ..ServiceDocument::clone(&self.document) };
        let (digest, document) = (document.digest(), Arc::new(document));
        let upstream = self.upstream.derived(&document).map_err(|e| e.to_string())?;
        Self::over(upstream, &digest, &document)
    }

    fn over(upstream: Upstream, digest: &Digest, document: &Arc<ServiceDocument>) -> Result<Self, String> {
        let mut patterns = Patterns::default();
        let contracts = document
            .tools
            .iter()
            .map(|(name, tool)| {
                let contract = Contract::compile(tool, &mut patterns);
                contract.map(|c| (name.clone(), c)).map_err(|e| format!("tool {name}: input schema: {e}"))
            })
            .collect::<Result<_, _>>()?;
        let server_info = encode::server_info(&document.name, &document.version);
        Ok(Self {
            document: Arc::clone(document),
            digest: digest.clone(),
            upstream,
            contracts,
            server_meta: encode::server_meta(&server_info),
            server_info,
        })
    }

    /// Returns whether a header may have to repeat an argument of a tool.
    pub(crate) fn has_param_headers(&self) -> bool {
        self.contracts.values().any(|contract| !contract.param_headers.is_empty())
    }
}

impl Contract {
    fn compile(tool: &ServiceTool, patterns: &mut Patterns) -> Result<Self, String> {
        let schema = declared_input(tool)?;
        let compiled = tamis_schema::compile(&schema.to_string(), patterns)
            .map_err(|problems| problems.first().map(ToString::to_string).unwrap_or_default())?;
        let arguments = argument_names(&schema);
        let annotations = match &tool.call {
            Call::Mcp(call) => call.annotations.as_ref().map(JsonText::as_str),
            Call::Http(_) | Call::Grpc(_) | Call::Alias(_) | Call::Command(_) => None,
        };
        let listed = json!([tool.title, tool.description, schema, tool.risk, annotations]).to_string();
        let listed = Sha256::digest(listed).into();
        Ok(Self { schema: compiled, param_headers: param_headers(&schema), arguments, listed })
    }
}

/// Returns the names of the arguments that an input schema declares.
pub(crate) fn argument_names(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the input schema. If the gateway fetches pages and the manifest does not declare the argument for the next
/// page, that argument is added.
pub(crate) fn declared_input(tool: &ServiceTool) -> Result<Value, String> {
    let mut schema: Value = serde_json::from_str(tool.input_schema.as_str()).map_err(|e| e.to_string())?;
    let Some(object) = schema.as_object_mut() else { return Err("must be an object".to_owned()) };
    object.entry("type").or_insert_with(|| json!("object"));
    if let Some(pagination) = &tool.pagination {
        let entry = match pagination.kind {
            PaginationKind::Cursor => json!({"type": "string", "description": "Goes on where `_pagination.next` says"}),
            PaginationKind::Offset => {
                json!({"type": "integer", "minimum": 0, "description": "Goes on where `_pagination.next` says"})
            }
        };
        if let Some(properties) = object.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
            properties.entry(pagination.kind.argument()).or_insert(entry);
        }
    }
    Ok(schema)
}
