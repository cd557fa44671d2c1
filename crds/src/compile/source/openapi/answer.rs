//! What operations answer: the shape of the output, and its schema.

use tamis_engine::{JsonText, ResponseType};

use super::body::{is_json, plain};
use super::document::{At, Document, Halt};
use super::operation::{Operation, shape};
use super::schema::{KnownPatterns, Side, Writer};
use crate::read::excerpt;

/// Bytes of an output schema. A larger one is left out: every conversation would pay for it.
const MAX_OUTPUT: usize = 32 << 10;

/// The output of a tool.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) kind: Option<ResponseType>,
    pub(super) output_schema: Option<JsonText>,
}

/// Reads the successful responses of an operation. A mistake in one of their schemas is a warning: the tool has no output schema
/// then.
///
/// # Errors
/// For an answer that is neither JSON nor text.
pub(super) fn read<'n>(
    document: &Document<'n>,
    operation: &Operation<'n>,
    patterns: &mut KnownPatterns,
) -> Result<Answer, Halt> {
    let before = document.findings();
    let found = successes(document, operation);
    document.soften(before);
    let (mut schemas, mut has_others, mut texts, mut other) = (Vec::new(), false, false, None);
    for response in found {
        let content: Vec<(&str, At<'_>)> = response.get("content").iter().flat_map(At::members).collect();
        match content.iter().find(|(media, _)| is_json(media) || *media == "*/*") {
            Some((_, media)) => match media.get("schema") {
                Some(schema) => schemas.push(schema),
                None => has_others = true,
            },
            None => {
                has_others = true;
                for (media, _) in content {
                    if is_text(media) { texts = true } else { other = Some(media) }
                }
            }
        }
    }
    if schemas.is_empty() {
        return match (texts, other) {
            (true, _) => Ok(Answer { kind: Some(ResponseType::Text), output_schema: None }),
            (false, None) => Ok(Answer::default()),
            (false, Some(media)) => Err(Halt::LeftOut(format!("answers with {}", excerpt(media)))),
        };
    }
    let kind = shape(document, &schemas[0]).filter(|kind| schemas.iter().all(|s| shape(document, s) == Some(*kind)));
    // An answer without a described body fits no schema.
    if has_others || kind != Some(ResponseType::Object) {
        return Ok(Answer { kind, output_schema: None });
    }
    let before = document.findings();
    let output_schema = schema(document, &schemas, patterns).ok();
    document.soften(before);
    Ok(Answer { kind, output_schema })
}

/// Returns the responses with a status of 2xx.
fn successes<'n>(document: &Document<'n>, operation: &Operation<'n>) -> Vec<At<'n>> {
    let responses: Vec<(&str, At<'n>)> = operation.at.get("responses").iter().flat_map(At::members).collect();
    let of = |accepts: &dyn Fn(&str) -> bool| -> Vec<At<'n>> {
        let fitting = responses.iter().filter(|(status, _)| accepts(status));
        fitting.filter_map(|(_, at)| document.resolve(at).ok()).collect()
    };
    let own = of(&|status| status.len() == 3 && status.starts_with('2'));
    if own.is_empty() { of(&|status| status == "default") } else { own }
}

fn is_text(media_type: &str) -> bool {
    let plain = plain(media_type);
    plain.starts_with("text/") || plain == "application/xml" || plain.ends_with("+xml") || plain == "application/yaml"
}

/// Returns the schema of an answer that has one of several schemas.
fn schema<'n>(document: &Document<'n>, schemas: &[At<'n>], patterns: &mut KnownPatterns) -> Result<JsonText, Halt> {
    let mut writer = Writer::new(document, patterns, Side::Output, MAX_OUTPUT);
    let (mut written, mut is_plain) = (Vec::new(), true);
    for schema in schemas {
        // The root has to say that it is an object.
        let schema = document.resolve(schema)?;
        let text = writer.schema(&schema, None)?;
        is_plain &= schema.text_of("type") == Some("object") && !schema.flag("nullable");
        if !written.contains(&text) {
            written.push(text);
        }
    }
    let definitions = writer.definitions()?;
    let mut text = match &written[..] {
        [one] if is_plain => one.clone(),
        several => format!("{{\"type\":\"object\",\"anyOf\":[{}]}}", several.join(",")),
    };
    if let (Some(definitions), true) = (definitions, text.ends_with('}')) {
        text.truncate(text.len() - 1);
        text.push_str(&format!(",\"$defs\":{definitions}}}"));
    }
    let unusable = || Halt::LeftOut("has an output schema that cannot be used".to_owned());
    tamis_schema::compile(&text, patterns.all()).map_err(|_| unusable())?;
    JsonText::parse(text).map_err(|_| unusable())
}
