//! The names of the tokenizers in documents, on the command line and in reports.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Vocabulary;

/// A tokenizer, by its name.
// The text below is part of the custom resources' schema.
/// What counts tokens: `o200k_base` or `cl100k_base`, vocabularies of OpenAI with exact counts, or `estimate`, a token
/// for 3.5 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerName {
    /// The vocabulary of OpenAI's models since GPT-4o.
    #[default]
    O200kBase,
    /// The vocabulary of GPT-4 and GPT-3.5.
    Cl100kBase,
    /// A token for 3.5 bytes, rounded up.
    Estimate,
}

impl TokenizerName {
    /// All names, the default first.
    pub const ALL: [Self; 3] = [Self::O200kBase, Self::Cl100kBase, Self::Estimate];

    /// Returns the name as documents spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::O200kBase => "o200k_base",
            Self::Cl100kBase => "cl100k_base",
            Self::Estimate => "estimate",
        }
    }

    /// Returns the vocabulary that the tokenizer counts with; none for `estimate`.
    #[must_use]
    pub const fn vocabulary(self) -> Option<Vocabulary> {
        match self {
            Self::O200kBase => Some(Vocabulary::O200kBase),
            Self::Cl100kBase => Some(Vocabulary::Cl100kBase),
            Self::Estimate => None,
        }
    }
}

impl fmt::Display for TokenizerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TokenizerName {
    type Err = UnknownTokenizer;

    fn from_str(text: &str) -> Result<Self, UnknownTokenizer> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| UnknownTokenizer(text.to_owned()))
    }
}

/// A name that no tokenizer has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tokenizer `{0}`; use o200k_base, cl100k_base or estimate")]
pub struct UnknownTokenizer(String);

#[cfg(test)]
mod tests {
    use super::{TokenizerName, Vocabulary};

    #[test]
    fn a_name_reads_the_same_everywhere() {
        for name in TokenizerName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
            assert_eq!(serde_json::to_string(&name).expect("is text"), format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<TokenizerName>(&format!("\"{name}\"")).expect("is a name"), name);
            assert_eq!(name.vocabulary().map_or(TokenizerName::Estimate, Vocabulary::name), name);
        }
        assert_eq!(TokenizerName::default(), TokenizerName::ALL[0]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_all_names() {
        let error = "claude".parse::<TokenizerName>().expect_err("is no name").to_string();
        assert_eq!(error, "unknown tokenizer `claude`; use o200k_base, cl100k_base or estimate");
        assert!(TokenizerName::ALL.iter().all(|name| error.contains(name.as_str())));
    }
}
