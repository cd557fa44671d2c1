//! Credentials that are known by handles: never another generation's value, never a name.

use std::collections::BTreeMap;

use serde_json::json;
use tamis_config::{CredentialHandle, CredentialRef};

use super::support::{Server, arguments, bounds, document, upstream};
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

fn handles(entries: &[(&str, &str)]) -> Result<Handles, String> {
    Handles::new(&entries.iter().map(|(r, h)| ((*r).to_owned(), CredentialHandle((*h).to_owned()))).collect())
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
        let answered = upstream.call("call", &arguments("{}"), bounds(), scope, None).await;
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
