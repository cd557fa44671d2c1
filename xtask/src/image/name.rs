//! The name of an image, in the short form and in full. Pure.

use std::str::FromStr;

use anyhow::{Error, Result, ensure};

/// `[registry/]repository:tag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    repository: String,
    tag: String,
}

impl Name {
    pub(crate) fn new(repository: &str, tag: &str) -> Self {
        Self { repository: repository.to_owned(), tag: tag.to_owned() }
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the name as written, which `docker images` shows.
    pub(crate) fn familiar(&self) -> String {
        format!("{}:{}", self.repository, self.tag)
    }

    /// Returns the name with the registry that engines and the kubelet add by default. containerd uses this name.
    pub(crate) fn full(&self) -> String {
        let first = self.repository.split('/').next().unwrap_or_default();
        let names_registry = self.repository.contains('/') && (first == "localhost" || first.contains(['.', ':']));
        let registry = match (names_registry, self.repository.contains('/')) {
            (true, _) => "",
            (false, true) => "docker.io/",
            (false, false) => "docker.io/library/",
        };
        format!("{registry}{}", self.familiar())
    }
}

impl FromStr for Name {
    type Err = Error;

    /// `latest` where there is no tag.
    fn from_str(text: &str) -> Result<Self> {
        let (repository, tag) = match text.rsplit_once(':') {
            // A colon before a slash precedes a registry's port.
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (text, "latest"),
        };
        let is_part = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-:".contains(c))
        };
        ensure!(repository.split('/').all(is_part), "`{repository}` is no name of an image, write one like tamis:1.0");
        let is_tag = !tag.is_empty() && tag.len() <= 128 && !tag.starts_with(['.', '-']);
        let is_tag = is_tag && tag.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        ensure!(is_tag, "`{tag}` is no tag of an image, write one like 1.0");
        Ok(Self::new(repository, tag))
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn a_name_gets_the_registry_that_engines_add() {
        for (written, full) in [
            ("tamis:0.1.0", "docker.io/library/tamis:0.1.0"),
            ("tamis", "docker.io/library/tamis:latest"),
            ("team/tamis:x", "docker.io/team/tamis:x"),
            ("registry.example/tamis:x", "registry.example/tamis:x"),
            ("localhost:5000/tamis", "localhost:5000/tamis:latest"),
            ("localhost/tamis:x", "localhost/tamis:x"),
        ] {
            assert_eq!(written.parse::<Name>().expect("is a name").full(), full);
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        for written in ["", "Tamis:1", "tamis:", "tamis:a b", "/tamis", "tamis//x", "tamis@sha256:0", "tamis:-x"] {
            written.parse::<Name>().expect_err(written);
        }
    }
}
