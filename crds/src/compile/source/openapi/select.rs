//! Which operations of a document become tools.

use tamis_config::matches_pattern;

use super::document::{At, Document, Halt};
use super::operation::{METHODS, OTHER_METHODS, Operation};

/// The most operations of a document.
pub(super) const MAX_OPERATIONS: usize = 10_000;

/// Returns whether a pattern means an operation: by its `operationId`, by a tag, or by method and path.
pub(super) fn matches(pattern: &str, operation: &Operation<'_>) -> bool {
    operation.id().is_some_and(|id| matches_pattern(pattern, id))
        || operation.tags().any(|tag| matches_pattern(pattern, tag))
        || matches_pattern(pattern, &operation.key())
}

/// All operations of a document, and what else its paths hold.
pub(super) struct Operations<'n> {
    pub(super) all: Vec<Operation<'n>>,
    /// Operations with a method that the gateway never sends.
    pub(super) others: Vec<Operation<'n>>,
}

/// Returns the operations of a document, in its order.
///
/// # Errors
/// For too many operations, and for an `operationId` that occurs twice.
pub(super) fn operations<'n>(document: &Document<'n>) -> Result<Operations<'n>, Halt> {
    let mut found = Operations { all: Vec::new(), others: Vec::new() };
    let root = document.root();
    let Some(paths) = root.get("paths") else {
        if root.get("webhooks").is_some() || root.get("components").is_some() {
            document.warn(root, "has no `paths`, so there is no operation", "add them");
            return Ok(found);
        }
        return Err(document.mistake(root, "has no `paths`", "add them"));
    };
    if !paths.is_map() {
        let message = format!("expected a mapping of paths, found {}", paths.node.describe());
        return Err(document.mistake(&paths, message, "write each path with its operations"));
    }
    for (path, item) in paths.members().filter(|(path, _)| !path.starts_with("x-")) {
        let item = if item.get("$ref").is_some() {
            match document.resolve(&item) {
                Ok(item) => item,
                Err(Halt::Mistake) => return Err(Halt::Mistake),
                // Paths in other documents are not known.
                Err(Halt::LeftOut(reason)) => {
                    document.warn(&item, format!("the path is left out: it {reason}"), "bundle the documents into one");
                    continue;
                }
            }
        } else {
            item
        };
        for (method, at) in item.members() {
            let operation =
                || Operation { method: method.to_ascii_uppercase(), path, item: item.clone(), at: at.clone() };
            if METHODS.contains(&method) {
                if !at.is_map() {
                    let message = format!("expected an operation, found {}", at.node.describe());
                    return Err(document.mistake(&at, message, "write its parameters and responses"));
                }
                found.all.push(operation());
            } else if OTHER_METHODS.contains(&method) {
                found.others.push(operation());
            }
        }
        if found.all.len() > MAX_OPERATIONS {
            let message = format!("has more than {MAX_OPERATIONS} operations");
            return Err(document.mistake(
                &paths,
                message,
                "split the document, or prune it with `tamis import openapi`",
            ));
        }
    }
    unique(document, &found.all)?;
    Ok(found)
}

fn unique<'n>(document: &Document<'n>, all: &[Operation<'n>]) -> Result<(), Halt> {
    let mut seen = std::collections::HashMap::new();
    for operation in all {
        let Some(id) = operation.id() else { continue };
        if let Some(first) = seen.insert(id, operation.key()) {
            let at: At<'n> = operation.at.get("operationId").unwrap_or_else(|| operation.at.clone());
            let message = format!("`{}` is also the operationId of {first}", crate::read::excerpt(id));
            return Err(document.mistake(&at, message, "give each operation an operationId of its own"));
        }
    }
    Ok(())
}
