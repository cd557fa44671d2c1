//! What the options of a method say about its effects: `idempotency_level`, and `google.api.http`.

use prost_reflect::{MethodDescriptor, Value};
use prost_types::method_options::IdempotencyLevel;
use prost_types::{FileDescriptorProto, MethodDescriptorProto};
use tamis_config::Risk;

use super::pool::Descriptors;
use super::prune::joined;

/// The extension of the options of a method.
const RULE: (&str, u32) = ("google.api.http", 72_295_728);

/// An HTTP method, which is a field of `google.api.HttpRule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Put,
    Post,
    Delete,
    Patch,
}

impl Verb {
    /// All of them, with the name and the number of the field.
    const ALL: [(Self, &'static str, u32); 5] = [
        (Self::Get, "get", 2),
        (Self::Put, "put", 3),
        (Self::Post, "post", 4),
        (Self::Delete, "delete", 5),
        (Self::Patch, "patch", 6),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known, _)| *known == name).map(|(verb, ..)| verb)
    }
}

impl Descriptors<'_> {
    /// Returns what a call of a method may do.
    pub(super) fn risk(&self, method: &MethodDescriptor) -> Risk {
        let options = method.method_descriptor_proto().options.as_ref();
        let level = options.map(prost_types::MethodOptions::idempotency_level);
        let verb = self.verbs.get(method.full_name()).copied().or_else(|| extension(method));
        let reads = level == Some(IdempotencyLevel::NoSideEffects) || verb == Some(Verb::Get);
        let deletes = !reads && verb == Some(Verb::Delete);
        let repeats = reads || deletes || verb == Some(Verb::Put) || level == Some(IdempotencyLevel::Idempotent);
        Risk { mutating: !reads, destructive: deletes, idempotent: repeats }
    }
}

/// Returns the HTTP method of a method of a descriptor set.
fn extension(method: &MethodDescriptor) -> Option<Verb> {
    let options = method.options();
    let (_, rule) = options.extensions().find(|(extension, _)| extension.number() == RULE.1)?;
    let Value::Message(rule) = rule else { return None };
    Verb::ALL.into_iter().find(|(.., number)| rule.has_field_by_number(*number)).map(|(verb, ..)| verb)
}

/// Returns the HTTP methods of the methods of a .proto text. In a text, the value of the option is a text itself.
pub(super) fn verbs(file: &FileDescriptorProto) -> Vec<(String, Verb)> {
    let methods = file.service.iter().flat_map(|service| {
        let scope = joined(file.package(), service.name());
        service.method.iter().filter_map(move |method| Some((joined(&scope, method.name()), verb(method)?)))
    });
    methods.collect()
}

fn verb(method: &MethodDescriptorProto) -> Option<Verb> {
    let options = &method.options.as_ref()?.uninterpreted_option;
    options.iter().find_map(|option| {
        let (first, rest) = option.name.split_first()?;
        if first.name_part.trim_start_matches('.') != RULE.0 {
            return None;
        }
        match rest {
            [] => first_verb(option.aggregate_value()),
            [field, ..] => Verb::named(&field.name_part),
        }
    })
}

/// Returns the first field of a text format that is an HTTP method, and not inside of another field.
fn first_verb(text: &str) -> Option<Verb> {
    let text = text.trim();
    let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let (mut depth, mut quote, mut word) = (0_usize, None, String::new());
    let mut is_escaped = false;
    for c in text.chars().chain([' ']) {
        if let Some(mark) = quote {
            if !std::mem::take(&mut is_escaped) {
                is_escaped = c == '\\';
                quote = (c != mark).then_some(mark);
            }
            continue;
        }
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if let (0, Some(verb)) = (depth, Verb::named(&word)) {
            return Some(verb);
        }
        word.clear();
        match c {
            '"' | '\'' => quote = Some(c),
            '{' | '[' | '<' => depth += 1,
            '}' | ']' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_verb_counts() {
        for (text, expected) in [
            (r#"get: "/v1/{name}""#, Some(Verb::Get)),
            (r#"{ post: "/v1" body: "*" }"#, Some(Verb::Post)),
            (r#"additional_bindings { get: "/a" } delete: "/b""#, Some(Verb::Delete)),
            (r#"body: "get" put: "/x""#, Some(Verb::Put)),
            (r#"body: "a\\\" get: " patch: '/x'"#, Some(Verb::Patch)),
            (r#"custom { kind: "HEAD" path: "/x" }"#, None),
            ("", None),
        ] {
            assert_eq!(first_verb(text), expected, "{text}");
        }
    }
}
