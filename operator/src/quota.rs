//! Quotas: how much of the operator, the API server and the gateways one namespace may use. Pure.

use std::fmt;

use crate::cluster_state::Held;

/// The quotas of each namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Expositions that have a document.
    pub expositions: usize,
    /// Bytes of the documents of its expositions, compressed, as the API holds them: a filter set counts once for each
    /// exposition that uses it.
    pub document_bytes: usize,
    /// Bytes of the Secrets that its expositions use, in base64, in each group.
    pub credential_bytes: usize,
    /// Bytes of its ServiceManifests, ToolsFilters, CustomTools, Prompts and Resources, as JSON. The operator keeps them compressed.
    pub source_bytes: usize,
}

impl Quotas {
    /// The defaults: enough for ten thousand expositions in one namespace. Four namespaces that use all of it fit into an
    /// operator's 512 MiB, and eight into a group's credentials.
    pub const DEFAULT: Self =
        Self { expositions: 20_000, document_bytes: 32 << 20, credential_bytes: 900 << 10, source_bytes: 32 << 20 };
}

impl Default for Quotas {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A quota that is used up, with its limit. `Display` names the quota and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Expositions(usize),
    DocumentBytes(usize),
    CredentialBytes(usize),
    SourceBytes(usize),
}

impl Exceeded {
    /// Describes which quota is used up.
    pub(crate) fn what(self) -> String {
        let (name, limit) = match self {
            Self::Expositions(limit) => ("expositions", limit),
            Self::DocumentBytes(limit) => ("document-bytes", limit),
            Self::CredentialBytes(limit) => ("credential-bytes", limit),
            Self::SourceBytes(limit) => ("source-bytes", limit),
        };
        format!("the namespace's quota `{name}` ({limit}) is used up")
    }

    /// Describes the remedy.
    pub(crate) fn remedy(self) -> String {
        let less = match self {
            Self::Expositions(_) => "delete some of its expositions",
            Self::DocumentBytes(_) => "use smaller filter sets, or fewer expositions of large ones",
            Self::CredentialBytes(_) => "remove callers, or Secrets that are used by its expositions",
            Self::SourceBytes(_) => {
                "delete or shorten some of its ServiceManifests, ToolsFilters, CustomTools, Prompts and Resources"
            }
        };
        format!("{less}, or ask for a larger quota")
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.remedy())
    }
}

/// The size of a document before and after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentSize {
    /// Bytes of the document that is replaced. `None` for a new document.
    pub(crate) before: Option<usize>,
    /// Bytes of the document.
    pub(crate) bytes: usize,
}

impl Quotas {
    /// Grants a document to a namespace whose documents take up `held`, and adds the document to it. A document that is
    /// not larger than the one it replaces is always granted: it takes nothing, and it may tighten what is served.
    pub(crate) fn grant(&self, held: &mut Held, size: DocumentSize) -> Result<(), Exceeded> {
        let DocumentSize { before, bytes } = size;
        if before.is_none() && held.documents >= self.expositions {
            return Err(Exceeded::Expositions(self.expositions));
        }
        let after = held.bytes.saturating_sub(before.unwrap_or(0)) + bytes;
        if bytes > before.unwrap_or(0) && after > self.document_bytes {
            return Err(Exceeded::DocumentBytes(self.document_bytes));
        }
        held.documents += usize::from(before.is_none());
        held.bytes = after;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTAS: Quotas = Quotas { expositions: 3, document_bytes: 100, credential_bytes: 0, source_bytes: 0 };

    #[test]
    fn growth_counts_against_the_quotas_and_shrinking_is_always_granted() {
        let held = |documents, bytes| Held { documents, bytes };
        let table = [
            ("the first", held(0, 0), None, 10, Ok(held(1, 10))),
            ("up to the limit", held(2, 90), None, 10, Ok(held(3, 100))),
            ("one byte more", held(2, 90), None, 11, Err(Exceeded::DocumentBytes(100))),
            ("one exposition more", held(3, 30), None, 1, Err(Exceeded::Expositions(3))),
            ("one of them grows", held(3, 90), Some(10), 20, Ok(held(3, 100))),
            ("one of them grows too far", held(3, 90), Some(10), 21, Err(Exceeded::DocumentBytes(100))),
            ("one shrinks where the quota was lowered", held(9, 900), Some(200), 199, Ok(held(9, 899))),
            ("one stays as long as it is", held(9, 900), Some(200), 200, Ok(held(9, 900))),
        ];
        for (what, mut held, before, bytes, expected) in table {
            let before_it = held;
            let granted = QUOTAS.grant(&mut held, DocumentSize { before, bytes });
            assert_eq!(granted.map(|()| held), expected, "{what}");
            assert!(granted.is_ok() || held == before_it, "{what}: a refused document counts for nothing");
        }
    }

    #[test]
    fn a_message_names_the_quota() {
        for (exceeded, name) in [
            (Exceeded::Expositions(1), "`expositions` (1)"),
            (Exceeded::DocumentBytes(2), "`document-bytes` (2)"),
            (Exceeded::CredentialBytes(3), "`credential-bytes` (3)"),
            (Exceeded::SourceBytes(4), "`source-bytes` (4)"),
        ] {
            assert!(exceeded.to_string().contains(name), "{exceeded}");
        }
    }
}
