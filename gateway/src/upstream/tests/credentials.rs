use std::fs;

use tamis_config::CredentialRef;

use super::{Credentials, LocalCredentials, MAX_BYTES, environment_variable};

fn reference(name: &str, key: &str) -> CredentialRef {
    CredentialRef { name: name.to_owned(), key: key.to_owned() }
}

fn value(credentials: &LocalCredentials, name: &str, key: &str) -> Option<String> {
    credentials.get("default", &reference(name, key)).map(|s| s.expose().to_owned())
}

#[test]
fn variables_are_upper_case_words() {
    for (name, key, variable) in [
        ("github", "token", "TAMIS_SECRET_GITHUB_TOKEN"),
        ("my-api.v2", "api_key", "TAMIS_SECRET_MY_API_V2_API_KEY"),
        ("../x", "é", "TAMIS_SECRET____X__"),
    ] {
        assert_eq!(environment_variable(&reference(name, key)), variable);
    }
}

#[test]
fn a_file_comes_before_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut credentials = LocalCredentials::new(Some(folder.path().to_owned()));
    credentials.environment = |name| (name == "TAMIS_SECRET_GIT_HUB_TOKEN").then(|| "of the environment".to_owned());
    assert_eq!(value(&credentials, "git-hub", "token").as_deref(), Some("of the environment"));
    assert_eq!(value(&credentials, "git-hub", "other"), None);
    fs::create_dir(folder.path().join("git-hub")).unwrap();
    fs::write(folder.path().join("git-hub/token"), "of the file").unwrap();
    assert_eq!(value(&credentials, "git-hub", "token").as_deref(), Some("of the file"));
}

#[test]
fn callers_come_from_the_environment_too_and_belong_to_one_secret() {
    let digest = |key: &str| format!("sha256:{}", crate::exposition::hex(&<sha2::Sha256 as sha2::Digest>::digest(key)));
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("partners")).unwrap();
    fs::write(folder.path().join("partners/alice"), digest("key-a")).unwrap();
    let caller = |folder: Option<&std::path::Path>, secret: &str, key: &str| {
        let mut credentials = LocalCredentials::new(folder.map(ToOwned::to_owned));
        credentials.variables = || {
            let digest =
                |key: &str| format!("sha256:{}", crate::exposition::hex(&<sha2::Sha256 as sha2::Digest>::digest(key)));
            let variable = |name: &str, key: &str| (format!("TAMIS_SECRET_{name}"), digest(key));
            vec![
                variable("PARTNERS_ROBOT", "key-r"),
                variable("PARTNERS_NIGHTLY_ROBOT", "key-n"),
                variable("PARTNERS_", "key-e"),
                ("TAMIS_SECRET_PARTNERS_PLAIN".to_owned(), "key-p".to_owned()),
            ]
        };
        let callers = credentials.callers("", secret, None);
        callers.map(|callers| {
            callers.find(&crate::access::KeyDigest::of(key.as_bytes()).unwrap()).map(ToString::to_string)
        })
    };
    let named = |name: &str| Some(Some(name.to_owned()));
    for folder in [None, Some(folder.path())] {
        assert_eq!(caller(folder, "partners", "key-r"), named("robot"));
        // Two words after the name of one Secret are one word after the name of another.
        assert_eq!(caller(folder, "partners", "key-n"), Some(None));
        assert_eq!(caller(folder, "partners-nightly", "key-n"), named("robot"));
        assert_eq!(caller(folder, "partners-nightly", "key-r"), Some(None));
        assert_eq!(caller(folder, "partners", "key-e"), Some(None));
        assert_eq!(caller(folder, "others", "key-r"), None, "such a Secret is not there");
    }
    assert_eq!(caller(Some(folder.path()), "partners", "key-a"), named("alice"));
    assert_eq!(caller(None, "partners", "key-a"), Some(None));
}

#[test]
fn files_are_read_as_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = LocalCredentials::new(Some(folder.path().to_owned()));
    assert_eq!(value(&credentials, "github", "token"), None);
    fs::create_dir(folder.path().join("github")).unwrap();
    let file = folder.path().join("github/token");
    for text in ["one\n", "two\r\n", "one", "t w o"] {
        fs::write(&file, text).unwrap();
        assert_eq!(value(&credentials, "github", "token").as_deref(), Some(text.trim_end()));
        assert_eq!(value(&credentials, "github", "token").as_deref(), Some(text.trim_end()));
    }
    // At rest, it is held; a newer one is read again.
    let at = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    for (seconds, text) in [(1_000, "old"), (2_000, "new")] {
        fs::write(&file, text).unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(at(seconds)).unwrap();
        assert_eq!(value(&credentials, "github", "token").as_deref(), Some(text));
        assert_eq!(value(&credentials, "github", "token").as_deref(), Some(text));
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(value(&credentials, "github", "token"), None);
}

#[test]
fn names_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("secrets/github")).unwrap();
    fs::write(folder.path().join("outside"), "x").unwrap();
    fs::write(folder.path().join("secrets/direct"), "x").unwrap();
    fs::write(folder.path().join("secrets/github/token"), "x").unwrap();
    let credentials = LocalCredentials::new(Some(folder.path().join("secrets")));
    assert!(value(&credentials, "github", "token").is_some());
    for (name, key) in [
        ("..", "outside"),
        (".", "direct"),
        ("", "direct"),
        ("github/..", "direct"),
        ("github", "../../outside"),
        ("github", ".."),
        ("github", "token\0"),
        ("github", ""),
        ("github", "/etc/hostname"),
    ] {
        assert_eq!(value(&credentials, name, key), None, "{name} {key}");
    }
}

#[test]
fn what_is_no_credential_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("n/folder")).unwrap();
    fs::write(folder.path().join("n/large"), vec![b'x'; usize::try_from(MAX_BYTES).unwrap() + 1]).unwrap();
    fs::write(folder.path().join("n/binary"), [0xff, 0xfe]).unwrap();
    let credentials = LocalCredentials::new(Some(folder.path().to_owned()));
    for key in ["folder", "large", "binary"] {
        assert_eq!(value(&credentials, "n", key), None, "{key}");
    }
}

#[test]
fn nothing_prints_a_value() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("n")).unwrap();
    fs::write(folder.path().join("n/k"), "hush").unwrap();
    let file = fs::File::options().write(true).open(folder.path().join("n/k")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let credentials = LocalCredentials::new(Some(folder.path().to_owned()));
    assert!(value(&credentials, "n", "k").is_some());
    assert!(!format!("{credentials:?}").contains("hush"));
}
