use std::collections::BTreeMap;

use serde_json::json;
use tamis_config::carrier::{encode_exposition, encode_service};
use tamis_config::group_keys::RootKey;
use tamis_config::names::{exposition_object, service_object};
use tamis_config::{ExpositionId, ExpositionPayload, FORMAT_VERSION, Reason, ServiceDocument, StopDocument};

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn cache(&self) -> Cache {
        Cache::open(&self.0.path().join("cache"), "tamis-public", "public").unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("cache").join(OWN_FOLDER).join(name)
    }

    fn files(&self) -> Vec<String> {
        self.cache().names().unwrap()
    }
}

fn named(name: &str) -> String {
    exposition_object(&ExpositionId { namespace: "team".to_owned(), name: name.to_owned() })
}

fn part(service: &str) -> (String, Arc<GatewayConfigSpec>) {
    let document: ServiceDocument = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "name": service, "version": "1",
        "source": {"http": {"baseUrl": "https://a.example"}}, "tools": {},
    }))
    .unwrap();
    let spec = encode_service("public", &document).unwrap().remove(0);
    (service_object(&spec.digest, 0), Arc::new(spec))
}

fn put(name: &str, message: &str, service: Option<&str>, handles: &[&str]) -> Write {
    let id = ExpositionId { namespace: "team".to_owned(), name: name.to_owned() };
    let stop = StopDocument {
        format_version: FORMAT_VERSION,
        id,
        reason: Reason::SecretNotFound,
        message: message.to_owned(),
    };
    let spec = encode_exposition("public", &ExpositionPayload::Stop(stop)).unwrap();
    Write::Put {
        name: named(name),
        spec: Arc::new(spec),
        parts: service.map(part).into_iter().collect(),
        values: handles
            .iter()
            .map(|h| (CredentialHandle((*h).to_owned()), Secret::new(&format!("value-{h}"))))
            .collect(),
    }
}

fn flushed(folder: &Folder, writes: impl IntoIterator<Item = Write>) -> CacheWriter {
    let mut writer = CacheWriter::new(folder.cache());
    writes.into_iter().for_each(|write| writer.note(write));
    writer.flush().unwrap();
    writer
}

/// Names of the objects and the values that come back.
fn read(folder: &Folder) -> Option<(Vec<String>, BTreeMap<String, String>)> {
    let recalled = folder.cache().read().unwrap()?;
    assert_eq!(recalled.broken, Vec::<String>::new());
    let values = recalled.values.iter().map(|(handle, value)| (handle.0.clone(), value.expose().to_owned()));
    Some((recalled.objects.into_iter().map(|object| object.name).collect(), values.collect()))
}

#[test]
fn what_was_put_comes_back_once_it_was_complete() {
    let folder = Folder::new();
    let mut writer = flushed(
        &folder,
        [put("a", "1", Some("s"), &["h"]), put("b", "1", None, &[]), Write::Token(Some(Secret::new("t")))],
    );
    assert!(read(&folder).is_none(), "it may be a part");
    writer.note(Write::Complete);
    writer.flush().unwrap();
    let (objects, values) = read(&folder).unwrap();
    let mut all = vec![named("a"), named("b"), part("s").0];
    all.sort_unstable();
    assert_eq!(objects, all);
    assert_eq!(values, [("h".to_owned(), "value-h".to_owned())].into());
    assert_eq!(folder.cache().read().unwrap().unwrap().token, Some(Secret::new("t")));
    writer.note(Write::Token(None));
    writer.flush().unwrap();
    assert_eq!(folder.cache().read().unwrap().unwrap().token, None);
}

#[test]
fn the_group_s_keys_survive_a_restart() {
    let folder = Folder::new();
    let key = |byte| RootKey::new([byte; 32]);
    let keys = GroupKeys::new(key(1), key(2), 7).rotate(key(3), 8);
    let mut writer = flushed(&folder, [Write::Keys(Some(keys.clone())), Write::Complete]);
    assert_eq!(folder.cache().read().unwrap().unwrap().keys, Some(keys));
    writer.note(Write::Keys(None));
    writer.flush().unwrap();
    assert_eq!(folder.cache().read().unwrap().unwrap().keys, None);
}

#[test]
fn services_stay_as_long_as_an_exposition_needs_them() {
    let folder = Folder::new();
    let writes = [put("a", "1", Some("s"), &[]), put("b", "1", Some("s"), &[]), Write::Complete];
    let mut writer = flushed(&folder, writes);
    let service = part("s").0;
    for (write, stays) in [
        (Write::Remove(named("a")), true),
        (put("b", "2", Some("s"), &[]), true),
        (put("b", "3", Some("t"), &[]), false),
        (put("b", "4", Some("s"), &[]), true),
        (put("b", "5", None, &[]), false),
    ] {
        writer.note(write);
        writer.flush().unwrap();
        assert_eq!(folder.files().contains(&service), stays, "{:?}", folder.files());
    }
    assert!(!folder.files().contains(&part("t").0));
    // What another process left behind goes with the first complete set.
    let _ = flushed(&folder, [put("c", "1", None, &[])]);
    assert!(folder.files().contains(&named("b")));
    let _ = flushed(&folder, [put("c", "1", None, &[]), Write::Complete]);
    assert_eq!(read(&folder).unwrap().0, [named("c")]);
}

#[test]
fn a_broken_file_is_ignored_and_the_others_are_read() {
    let bytes = |name: &str, folder: &Folder| fs::read(folder.path(name)).unwrap();
    type Break = fn(Vec<u8>) -> Vec<u8>;
    let breaks: [(&str, Break); 6] = [
        ("digest", |mut bytes| {
            let last = bytes.len() - 2;
            bytes[last] ^= 1;
            bytes
        }),
        ("digest", |bytes| bytes[..bytes.len() / 2].to_owned()),
        ("group", |bytes| String::from_utf8(bytes).unwrap().replace("public/public", "public/other").into_bytes()),
        ("truncated", |bytes| bytes[..60].to_owned()),
        ("group", |_| Vec::new()),
        ("group", |_| vec![0xff; 100]),
    ];
    for (says, harm) in breaks {
        let folder = Folder::new();
        let _ = flushed(&folder, [put("a", "1", None, &["h"]), put("b", "1", None, &["i"]), Write::Complete]);
        let harmed = harm(bytes(&named("a"), &folder));
        fs::write(folder.path(&named("a")), harmed).unwrap();
        let recalled = folder.cache().read().unwrap().unwrap();
        assert_eq!(recalled.objects.iter().map(|object| &object.name).collect::<Vec<_>>(), [&named("b")]);
        assert!(recalled.broken.len() == 1 && recalled.broken[0].contains(says), "{says}: {:?}", recalled.broken);
        assert!(!recalled.broken[0].contains("value-h"));
        // It is written again.
        let _ = flushed(&folder, [put("a", "1", None, &["h"]), put("b", "1", None, &["i"]), Write::Complete]);
        assert_eq!(read(&folder).unwrap().0.len(), 2);
    }
    let folder = Folder::new();
    let _ = flushed(&folder, [put("a", "1", None, &[]), Write::Complete]);
    fs::write(folder.path(&format!(".{}", named("b"))), "half").unwrap();
    fs::create_dir(folder.path("tamis-exposition-folder")).unwrap();
    let recalled = folder.cache().read().unwrap().unwrap();
    assert_eq!((recalled.objects.len(), recalled.broken.len()), (1, 1));
}

#[test]
fn of_several_changes_the_last_is_written_and_what_is_as_it_was_is_not() {
    let folder = Folder::new();
    let mut writer = flushed(&folder, [put("a", "1", None, &[]), put("a", "2", None, &[]), Write::Complete]);
    let modified = || fs::metadata(folder.path(&named("a"))).unwrap().modified().unwrap();
    let (at, two) = (modified(), fs::read(folder.path(&named("a"))).unwrap());
    writer.note(put("a", "1", None, &[]));
    writer.note(put("a", "2", None, &[]));
    writer.flush().unwrap();
    assert_eq!((modified(), fs::read(folder.path(&named("a"))).unwrap()), (at, two));
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    fs::create_dir_all(folder.path("")).unwrap();
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let _ = flushed(&folder, [put("a", "1", None, &["h"]), Write::Complete]);
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode(&named("a"))), (0o700, 0o600));
}
