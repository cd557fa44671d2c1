use std::fs;
use std::path::Path;
use std::sync::Arc;

use tamis_config::CredentialHandle;

use crate::access::{Callers, KeyDigest, MAX_CALLERS};
use crate::upstream::{Credentials as _, LocalCredentials};

fn write(folder: &Path, caller: &str, key: &str) {
    let hex = crate::exposition::hex(&<sha2::Sha256 as sha2::Digest>::digest(key));
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(caller), format!("sha256:{hex}\n")).unwrap();
}

fn names(callers: Option<&Arc<Callers>>, keys: &[&str]) -> Vec<Option<String>> {
    let name = |key: &&str| callers?.find(&KeyDigest::of(key.as_bytes())?).map(ToString::to_string);
    keys.iter().map(name).collect()
}

/// Longer than an answer is held.
fn later() {
    std::thread::sleep(super::CACHE_TIME + std::time::Duration::from_millis(50));
}

#[test]
fn every_file_is_a_caller_and_changes_are_seen() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("partners");
    let credentials = LocalCredentials::new(Some(root.path().to_owned()));
    let ask = || credentials.callers("team", "partners", None);
    assert!(ask().is_none(), "no such folder");
    write(&folder, "alice", "key-a");
    write(&folder, "bob", "key-b");
    write(&folder, ".hidden", "key-h");
    fs::create_dir(folder.join("..2026")).unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    fs::write(folder.join("plain"), "key-p").unwrap();
    fs::write(folder.join("large"), vec![b'x'; 5_000]).unwrap();
    fs::write(folder.join("binary"), [0xff, 0xfe]).unwrap();
    later();
    let callers = ask();
    let keys = ["key-a", "key-b", "key-h", "key-p", "key-c"];
    assert_eq!(callers.as_ref().map(|c| c.len()), Some(2));
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(names(callers.as_ref(), &keys), [some("alice"), some("bob"), None, None, None]);
    assert!(Arc::ptr_eq(&callers.unwrap(), &ask().unwrap()), "within a second the same");

    // Another key under the same name and length, moved into place with an old time.
    write(&folder, ".new", "key-c");
    fs::rename(folder.join(".new"), folder.join("alice")).unwrap();
    fs::remove_file(folder.join("bob")).unwrap();
    later();
    assert_eq!(names(ask().as_ref(), &keys), [None, None, None, None, some("alice")]);

    fs::remove_dir_all(&folder).unwrap();
    later();
    assert!(ask().is_none());
    fs::create_dir(&folder).unwrap();
    later();
    assert!(ask().is_some_and(|callers| callers.is_empty()), "nobody, but it is there");
}

#[test]
fn files_at_rest_are_read_once() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("partners");
    write(&folder, "alice", "key-a");
    let file = fs::File::options().write(true).open(folder.join("alice")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let credentials = LocalCredentials::new(Some(root.path().to_owned()));
    let first = credentials.callers("", "partners", None).unwrap();
    later();
    assert!(Arc::ptr_eq(&first, &credentials.callers("", "partners", None).unwrap()));
}

#[test]
fn names_stay_in_the_folder_and_handles_are_for_clusters() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "alice", "key-a");
    write(&root.path().join("partners"), "alice", "key-a");
    let credentials = LocalCredentials::new(Some(root.path().join("partners")));
    for secret in ["", ".", "..", "../partners", "/etc"] {
        assert!(credentials.callers("", secret, None).is_none(), "{secret}");
    }
    let credentials = LocalCredentials::new(Some(root.path().to_owned()));
    assert!(credentials.callers("", "partners", None).is_some());
    let handle = CredentialHandle("u.1.all".to_owned());
    assert!(credentials.callers("", "partners", Some(&handle)).is_none());
    assert!(LocalCredentials::new(None).callers("", "partners", None).is_none());
}

#[test]
fn too_many_are_none() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("partners");
    fs::create_dir(&folder).unwrap();
    for number in 0..=MAX_CALLERS {
        fs::write(folder.join(number.to_string()), "").unwrap();
    }
    let credentials = LocalCredentials::new(Some(root.path().to_owned()));
    assert!(credentials.callers("", "partners", None).is_none());
}
