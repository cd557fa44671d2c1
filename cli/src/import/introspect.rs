//! Asks a GraphQL API for its schema.

use anyhow::{Context as _, bail};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::api::{self, TIMEOUT, asking};
use super::line;

/// What of introspection a server has: parts of it are younger than others.
const ABOUT: &str = "query about { types: __type(name: \"__Type\") { fields { name } } }";

/// The largest depth of lists and non-null types, as clients ask for it.
const REFERENCE: &str = "fragment reference on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { \
     kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } }";

/// What a server says about its introspection.
#[derive(Debug, Default, Deserialize)]
struct About {
    types: Option<Fields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    fields: Vec<Field>,
}

#[derive(Debug, Deserialize)]
struct Field {
    name: String,
}

impl About {
    fn has(&self, name: &str) -> bool {
        self.types.iter().flat_map(|types| &types.fields).any(|field| field.name == name)
    }
}

#[derive(Debug, Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(default)]
    errors: Vec<Mistake>,
}

#[derive(Debug, Deserialize)]
struct Mistake {
    #[serde(default)]
    message: String,
}

/// Returns the result of an introspection query.
///
/// # Errors
/// The server cannot be reached, refuses introspection, or does not answer as GraphQL does.
pub(super) fn introspect(url: &str, headers: HeaderMap) -> anyhow::Result<Vec<u8>> {
    let client = asking(headers, TIMEOUT).build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let about = post(&client, url, ABOUT).await?;
        let about: About = serde_json::from_str(data(&about)?).context("the answer about introspection")?;
        let schema = post(&client, url, &query(&about)).await?;
        data(&schema)?;
        Ok(schema)
    })
}

fn query(about: &About) -> String {
    let and = |name: &str| if about.has(name) { format!(" {name}") } else { String::new() };
    format!(
        "query introspection {{ __schema {{ queryType {{ name }} mutationType {{ name }} subscriptionType {{ name }} types {{ \
         kind name description{}{} fields(includeDeprecated: true) {{ name description args {{ ...input }} type {{ ...reference }} \
         isDeprecated }} inputFields {{ ...input }} interfaces {{ name }} enumValues(includeDeprecated: true) {{ name description \
         isDeprecated }} possibleTypes {{ name }} }} }} }} fragment input on __InputValue {{ name description type {{ ...reference }} \
         defaultValue }} {REFERENCE}",
        and("specifiedByURL"),
        and("isOneOf"),
    )
}

/// Sends a query, and returns the answer, as [`api::body`] reads it.
async fn post(client: &Client, url: &str, query: &str) -> anyhow::Result<Vec<u8>> {
    let body = json!({ "query": query }).to_string();
    let request = client.post(url).header(CONTENT_TYPE, "application/json").header("accept", "application/json");
    let response = request.body(body).send().await.context("cannot ask the API for its schema")?;
    let status = response.status();
    let bytes = api::body(response, "schema", "cannot read the answer of the API").await?;
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            bail!(
                "the API answered {status}; name the variable that has a credential with --bearer-env or --header-env"
            )
        }
        status if status.is_redirection() => bail!("the API answered {status}; name the URL that it redirects to"),
        _ => Ok(bytes),
    }
}

/// Returns `data` of an answer.
fn data(answer: &[u8]) -> anyhow::Result<&str> {
    let remedy = "give the schema as a file or an address";
    let Ok(Answer { data, errors }) = serde_json::from_slice(answer) else {
        bail!("the API did not answer with JSON of GraphQL; check --base-url, or {remedy}");
    };
    match (data, errors.first()) {
        (Some(data), None) if data.get() != "null" => Ok(data.get()),
        (_, Some(Mistake { message })) => bail!("the API refused introspection: {}; {remedy}", line(message)),
        _ => bail!("the API answered without data; {remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_server_knows_is_asked_for() {
        let about = |names: &[&str]| {
            let fields = names.iter().map(|name| Field { name: (*name).to_owned() }).collect();
            query(&About { types: Some(Fields { fields }) })
        };
        assert!(about(&["isOneOf", "specifiedByURL"]).contains("description specifiedByURL isOneOf fields"));
        assert!(about(&["kind"]).contains("description fields"));
    }

    #[test]
    fn answers_without_a_schema_say_why() {
        let cases = [
            ("<html>", "did not answer with JSON of GraphQL"),
            ("[]", "answered without data"),
            ("{}", "answered without data"),
            (r#"{"data":null}"#, "answered without data"),
            (r#"{"data":null,"errors":[{"message":"introspection\nis off"}]}"#, "refused introspection: introspection"),
            (r#"{"errors":[{}]}"#, "refused introspection"),
        ];
        for (answer, expected) in cases {
            let error = data(answer.as_bytes()).expect_err(answer).to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{answer}: {error}");
        }
        assert_eq!(data(br#"{"data":{"a":1.10}}"#).expect("has data"), r#"{"a":1.10}"#);
    }
}
