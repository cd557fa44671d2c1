//! Credentials that are known by handles: never another generation's value, never a name.

use std::collections::BTreeMap;

use serde_json::json;
use tamis_config::{CredentialGrant, CredentialHandle, CredentialRef};

use super::support::{Server, TOKEN, arguments, bounds, context, document, room, upstream};
use crate::upstream::{CredentialScope, Credentials, Handles, Secret, UpstreamError};

/// What a gateway of a cluster holds. Whoever asks it by a name gets what must not be sent.
#[derive(Debug)]
struct Shards(BTreeMap<CredentialHandle, &'static str>);

impl Credentials for Shards {
    fn get(&self, _: &str, _: &CredentialRef) -> Option<Secret> {
        Some(Secret::new("by-name"))
    }

    fn by_handle(&self, handle: &CredentialHandle) -> Option<Secret> {
        self.0.get(handle).map(|value| Secret::new(value))
    }
}

fn grant(handle: &str, uses: &[&str]) -> CredentialGrant {
    let uses = uses.iter().map(|line| line.parse().unwrap()).collect();
    CredentialGrant { handle: CredentialHandle(handle.to_owned()), uses }
}

fn handles(entries: &[(&str, &str)]) -> Result<Handles, String> {
    let each = |(name, handle): &(&str, &str)| ((*name).to_owned(), grant(handle, &["127.0.0.1 bearer"]));
    Handles::new(&entries.iter().map(each).collect())
}

#[tokio::test]
async fn each_generation_has_its_own_value() {
    let server = Server::start(|_, _| "{}").await;
    let auth = json!({"type": "bearer", "credential": {"name": "github", "key": "token"}});
    let upstream = upstream(&document(&server.url(), Some(auth), json!({}))).unwrap();
    let store = Shards([(CredentialHandle("u.1.a".into()), "old"), (CredentialHandle("u.2.b".into()), "new")].into());
    for (entries, sent) in [
        (&[("github/token", "u.1.a")][..], Some("old")),
        (&[("github/token", "u.2.b")], Some("new")),
        (&[("other/token", "u.1.a"), ("github/other", "u.1.a"), ("github/token", "u.2.b")], Some("new")),
        // A value that is gone, and a credential that the document forgot: nothing is sent.
        (&[("github/token", "u.3.c")], None),
        (&[("other/token", "u.1.a")], None),
    ] {
        let handles = handles(entries).unwrap();
        let scope = CredentialScope { store: &store, namespace: "team", handles: &handles };
        let before = server.seen().len();
        let answered = upstream.call("call", &arguments("{}"), context(bounds(), scope, &mut room())).await;
        match sent {
            Some(value) => {
                answered.unwrap();
                let seen = server.seen();
                assert_eq!(seen[before].header("authorization"), Some(format!("Bearer {value}").as_str()));
            }
            None => {
                assert!(matches!(answered, Err(UpstreamError::Credential(_))), "{entries:?}");
                assert_eq!(server.seen().len(), before);
            }
        }
    }
}

#[test]
fn an_entry_names_a_secret_and_a_key() {
    assert_eq!(handles(&[("github", "u.1.a")]).unwrap_err(), "credentials.github: not name/key");
    assert_eq!(handles(&[]).unwrap(), Handles::default());
}

/// A store with one value, and an exposition that may use it as these lines say.
fn scoped<'a>(store: &'a Shards, handles: &'a Handles) -> CredentialScope<'a> {
    CredentialScope { store, namespace: "team", handles }
}

#[tokio::test]
async fn a_credential_goes_only_where_its_owner_lets_it() {
    let server = Server::start(|_, _| "{}").await;
    let port = server.address.port();
    let store = Shards([(CredentialHandle("u.1.a".into()), TOKEN)].into());
    let auth = |auth: serde_json::Value| {
        let mut auth = auth;
        auth["credential"] = json!({"name": "github", "key": "token"});
        auth
    };
    let (bearer, body) = (auth(json!({"type": "bearer"})), auth(json!({"type": "body", "name": "text"})));
    let query = auth(json!({"type": "query", "name": "q"}));
    for (auth, path, uses, sent) in [
        (&bearer, "/a", vec!["127.0.0.1 bearer".to_owned()], true),
        (&bearer, "/a", vec![format!("127.0.0.1:{port} bearer")], true),
        (&bearer, "/a", vec!["127.0.0.1:1 bearer".to_owned()], false),
        (&bearer, "/a", vec!["127.0.0.2 bearer".to_owned()], false),
        (&bearer, "/a", vec!["127.0.0.1 basic".to_owned()], false),
        (&bearer, "/a", vec![], false),
        (&query, "/a", vec!["127.0.0.1 query key".to_owned()], false),
        (&query, "/a", vec!["127.0.0.1 query q".to_owned()], true),
        (&body, "/markdown", vec!["127.0.0.1 body token /login".to_owned()], false),
        (&body, "/markdown", vec!["127.0.0.1 body text /login".to_owned()], false),
        (&body, "/login", vec!["127.0.0.1 body text /login".to_owned()], true),
        (&body, "/{id}/login", vec!["127.0.0.1 body text /7/login".to_owned()], true),
        (&body, "/{id}/login", vec!["127.0.0.1 body text /8/login".to_owned()], false),
        (&body, "/{id}/login", vec!["127.0.0.1 body text /*/login".to_owned()], true),
    ] {
        let tool = json!({
            "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}},
            "call": {"http": {"method": "POST", "path": path}},
        });
        let upstream = upstream(&document(&server.url(), Some(auth.clone()), tool)).unwrap();
        let uses: Vec<_> = uses.iter().map(String::as_str).collect();
        let handles = Handles::new(&[("github/token".to_owned(), grant("u.1.a", &uses))].into()).unwrap();
        let before = server.seen().len();
        let answered = upstream
            .call("call", &arguments(r#"{"id": 7}"#), context(bounds(), scoped(&store, &handles), &mut room()))
            .await;
        assert_eq!(answered.is_ok(), sent, "{path} {uses:?}: {answered:?}");
        assert_eq!(server.seen().len() - before, usize::from(sent), "{path} {uses:?}");
        if let Err(error) = answered {
            assert!(matches!(error, UpstreamError::CredentialUse(_)), "{error:?}");
            assert!(!error.sent() && error.category() == "credential_use");
        }
    }
}

#[tokio::test]
async fn a_redirect_takes_a_body_credential_to_no_other_path() {
    let server = Server::start(|seen, _| match seen.target() {
        "/login" => (http::StatusCode::TEMPORARY_REDIRECT, [("location", "/markdown")], ""),
        _ => (http::StatusCode::OK, [("location", "")], "{}"),
    })
    .await;
    let store = Shards([(CredentialHandle("u.1.a".into()), TOKEN)].into());
    let auth = json!({"type": "body", "name": "text", "credential": {"name": "github", "key": "token"}});
    let tool = json!({"call": {"http": {"method": "POST", "path": "/login"}}});
    let upstream = upstream(&document(&server.url(), Some(auth), tool)).unwrap();
    for (uses, requests) in [
        (&["127.0.0.1 body text /login"][..], 1),
        (&["127.0.0.1 body text /login", "127.0.0.1 body text /markdown"], 2),
    ] {
        let handles = Handles::new(&[("github/token".to_owned(), grant("u.1.a", uses))].into()).unwrap();
        let before = server.seen().len();
        let answered =
            upstream.call("call", &arguments("{}"), context(bounds(), scoped(&store, &handles), &mut room())).await;
        assert_eq!(answered.is_ok(), requests == 2, "{answered:?}");
        assert_eq!(server.seen().len() - before, requests);
    }
}
