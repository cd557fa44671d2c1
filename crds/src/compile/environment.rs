//! The environment of programs: which variables they get, and how many words a command line has.

use indexmap::IndexMap;
use tamis_config::CredentialRef;
use tamis_config::names::CREDENTIAL_VARIABLES;

use super::auth;
use crate::definitions::MAX_WORDS;
use crate::origin::FieldPath;
use crate::resources::SecretKeyRef;
use crate::sink::DiagnosticSink;

/// The most bytes of one word of a command line.
pub(super) const MAX_WORD: usize = 4096;

/// The environment that a manifest describes.
pub(super) struct Environment<'m> {
    /// Names of variables that pass.
    pub(super) env: &'m [String],
    /// Variables with fixed values; none if the source has no such field.
    pub(super) inject: Option<&'m IndexMap<String, String>>,
    /// Variables with values of Secrets.
    pub(super) secret_env: &'m IndexMap<String, SecretKeyRef>,
    /// Whether a name may end with `*`.
    pub(super) patterns: bool,
}

impl Environment<'_> {
    /// Checks the environment, and returns the credentials.
    pub(super) fn check(&self, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> IndexMap<String, CredentialRef> {
        let Self { env, inject, secret_env, patterns } = *self;
        let injected = inject.map_or(0, IndexMap::len);
        for (field, count) in [("env", env.len()), ("envInject", injected), ("secretEnv", secret_env.len())] {
            if count > MAX_WORDS as usize {
                let message = format!("has {count} entries, more than the limit of {MAX_WORDS}");
                sink.error(&at.key(field), message, "remove some");
            }
        }
        let is_set = |name: &String| secret_env.contains_key(name) || inject.is_some_and(|all| all.contains_key(name));
        for (index, name) in env.iter().enumerate() {
            let path = at.key("env").index(index);
            let stem = name.strip_suffix('*').filter(|_| patterns);
            if stem == Some("") {
                sink.error(&path, "passes every variable", "write the beginning of their names, as in GIT_*");
            } else {
                variable(stem.unwrap_or(name), &path, sink);
            }
            if name.starts_with(CREDENTIAL_VARIABLES) {
                let remedy = "name the Secret in `secretEnv`, under the variable that the program reads";
                sink.error(&path, "is a credential of the gateway", remedy);
            }
            if env[..index].contains(name) || is_set(name) {
                sink.error(&path, "occurs twice", "remove one of them");
            }
        }
        for (name, value) in inject.into_iter().flatten() {
            let path = at.key("envInject").key(name);
            variable(name, &path, sink);
            if value.len() > MAX_WORD || value.contains('\0') {
                let message = format!("must have at most {MAX_WORD} bytes, none of them zero");
                sink.error(&path, message, "shorten it");
            }
            if secret_env.contains_key(name) {
                sink.error(&path, "occurs twice", "remove one of them");
            }
        }
        let path = at.key("secretEnv");
        let secret = |(name, secret): (&String, &SecretKeyRef)| {
            let path = path.key(name);
            variable(name, &path, sink);
            (name.clone(), auth::secret(secret, &path, sink))
        };
        secret_env.iter().map(secret).collect()
    }
}

/// Checks the words of a command line.
pub(super) fn words(words: &[String], path: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if words.len() > MAX_WORDS as usize {
        let message = format!("has {} entries, more than the limit of {MAX_WORDS}", words.len());
        sink.error(path, message, "write a script");
    }
    for (index, word) in words.iter().enumerate() {
        if word.len() > MAX_WORD || word.contains('\0') {
            let message = format!("must have at most {MAX_WORD} bytes, none of them zero");
            sink.error(&path.index(index), message, "shorten it");
        }
    }
}

/// Checks the name of an environment variable.
fn variable(name: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || name.len() > 128 || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        sink.error(at, "is not the name of a variable", "use 1 to 128 of A-Z a-z 0-9 _");
    }
}
