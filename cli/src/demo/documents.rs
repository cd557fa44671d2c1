//! The documents of the demo: those of `examples/`, with the sample upstream in place of the real APIs.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;

/// The manifests. They are always written, since the port of the sample upstream may differ each time.
const MANIFESTS: [(&str, &str); 3] = [
    ("github.yaml", include_str!("../../../examples/quickstart/github.yaml")),
    ("notion.yaml", include_str!("../../../examples/notion/notion.yaml")),
    ("slack.yaml", include_str!("../../../examples/slack/slack.yaml")),
];

/// Filters and expositions. Existing files keep the user's edits.
const AUDIENCES: [(&str, &str); 6] = [
    ("github-internal.yaml", include_str!("../../../examples/quickstart/github-internal.yaml")),
    ("github-partner.yaml", include_str!("../../../examples/quickstart/github-partner.yaml")),
    ("notion-internal.yaml", include_str!("../../../examples/notion/notion-internal.yaml")),
    ("notion-partner.yaml", include_str!("../../../examples/notion/notion-partner.yaml")),
    ("slack-internal.yaml", include_str!("../../../examples/slack/slack-internal.yaml")),
    ("slack-partner.yaml", include_str!("../../../examples/slack/slack-partner.yaml")),
];

/// The real APIs, and the prefix of their paths at the sample upstream.
const UPSTREAMS: [(&str, &str); 3] =
    [("https://api.github.com", ""), ("https://api.notion.com", ""), ("https://slack.com/api", "/api")];

/// Writes the documents to `dir`, which is created if it does not exist.
pub(super) fn write(dir: &Path, upstream: SocketAddr) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (name, text) in MANIFESTS {
        let path = dir.join(name);
        fs::write(&path, pointed_at(text, upstream)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for (name, text) in AUDIENCES {
        let path = dir.join(name);
        let written = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => file.write_all(text.as_bytes()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn pointed_at(manifest: &str, upstream: SocketAddr) -> String {
    UPSTREAMS.iter().fold(manifest.to_owned(), |text, (real, prefix)| {
        text.replace(&format!("baseUrl: {real}\n"), &format!("baseUrl: http://{upstream}{prefix}\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_manifest_still_points_at_the_real_api() {
        let upstream: SocketAddr = "127.0.0.1:4000".parse().expect("an address");
        for (name, text) in MANIFESTS {
            let text = pointed_at(text, upstream);
            assert!(text.contains("baseUrl: http://127.0.0.1:4000"), "{name}");
            assert!(!text.contains("https://"), "{name}");
        }
    }

    #[test]
    fn what_a_user_edited_is_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        write(dir.path(), at(1)).expect("writes");
        fs::write(dir.path().join("github-partner.yaml"), "# mine").expect("edits");
        write(dir.path(), at(2)).expect("writes again");
        assert_eq!(fs::read_to_string(dir.path().join("github-partner.yaml")).expect("reads"), "# mine");
        let manifest = fs::read_to_string(dir.path().join("slack.yaml")).expect("reads");
        assert!(manifest.contains("baseUrl: http://127.0.0.1:2/api\n"));
    }
}
