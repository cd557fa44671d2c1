//! The document of an API that a manifest holds, or names as a file.

use std::sync::Arc;

use tamis_config::Reason;

use super::CompileEnv;
use super::source::DocumentAt;
use crate::origin::FieldPath;
use crate::read::{api, excerpt};
use crate::resources::ApiDocument;
use crate::sink::DiagnosticSink;

/// Where a manifest holds a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The path, as messages name it.
    pub(super) field: &'static str,
    /// The path as steps below `spec`.
    pub(super) steps: &'static [&'static str],
}

/// Returns the document that a manifest holds at `place`, or names as a file. Reports why there is none.
///
/// `given`: whether the manifest holds one, and the file that it names.
pub(super) fn find<'s>(
    given: (bool, Option<&str>),
    place: Place,
    at: &FieldPath,
    (apis, env): (&'s [Arc<ApiDocument>], &CompileEnv<'_>),
    sink: &mut DiagnosticSink<'s>,
) -> Option<DocumentAt<'s>> {
    match given {
        (true, Some(_)) => {
            sink.error(&at.key("file"), "and `inline` are mutually exclusive", "remove one of them");
            None
        }
        (false, None) => {
            sink.error(at, "has no document", "name the document's `file`, or write it into `inline`");
            None
        }
        (true, None) => {
            let origin = sink.origin();
            let node = place.steps.iter().try_fold(origin.tree.get("spec")?, |node, step| node.get(step))?;
            Some(DocumentAt { file: &origin.file, field: place.field, node })
        }
        (false, Some(name)) => named_file(name, apis, env, &at.key("file"), sink),
    }
}

/// Returns the document in a file that a manifest names. Reports why there is none.
fn named_file<'s>(
    name: &str,
    apis: &'s [Arc<ApiDocument>],
    env: &CompileEnv<'_>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'s>,
) -> Option<DocumentAt<'s>> {
    if env.cluster.is_some() {
        let message = "names a file, and a cluster has no files next to a manifest";
        sink.because(Reason::UnsupportedSource).error(at, message, "write the document into `inline`");
        return None;
    }
    let path = match api::path(&sink.origin().file, name) {
        Ok(path) => path,
        Err((message, remedy)) => {
            sink.error(at, message, remedy);
            return None;
        }
    };
    match apis.iter().find(|api| *api.file == *path).map(|api| (&api.file, &api.tree)) {
        Some((file, Ok(node))) => Some(DocumentAt { file, field: "", node }),
        Some((_, Err(finding))) => {
            sink.push((**finding).clone());
            let remedy = "correct the document, or name another";
            sink.error(at, format!("`{}` cannot be read", excerpt(name)), remedy);
            None
        }
        None => {
            let message = format!("`{}` is not among the files that were read", excerpt(name));
            sink.error(at, message, "save the document there, or correct the name");
            None
        }
    }
}
