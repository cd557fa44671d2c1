//! Saved answers of tools.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use tamis_engine::{Input, Limits, ResponseType};

/// A saved answer.
#[derive(Debug, Clone)]
pub(super) struct Payload {
    /// The name of the file, without its folder.
    pub(super) name: String,
    /// The tool that gave it, as far as that is known.
    pub(super) tool: Option<String>,
    pub(super) text: String,
}

impl Payload {
    /// Reads a file. Without `tool`, the tool is the name of the file up to its extension if `is_named` is set.
    ///
    /// # Errors
    /// The file cannot be read, is not UTF-8, or is larger than an output that a gateway filters.
    pub(super) fn read(path: &Path, tool: Option<&str>, is_named: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        let Limits { max_input_bytes, .. } = Limits::default();
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
        file.take(max_input_bytes as u64 + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {shown}"))?;
        if bytes.len() > max_input_bytes {
            bail!("{shown} has more than {max_input_bytes} bytes, which no gateway filters; save a part of the answer");
        }
        let Ok(text) = String::from_utf8(bytes) else {
            bail!("{shown} is not UTF-8; convert it, for example with `iconv -t UTF-8`");
        };
        if text.trim().is_empty() {
            bail!("{shown} is empty; save the answer of a tool in it");
        }
        let stem = path.file_stem().filter(|_| is_named).map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name: path.file_name().map_or_else(|| shown.to_string(), |name| name.to_string_lossy().into_owned()),
            tool: tool.map(str::to_owned).or(stem),
            text,
        })
    }

    /// Returns the payload as the engine takes it. What is not JSON counts as text, unless the tool declares JSON.
    pub(super) fn input(&self, response_type: Option<ResponseType>) -> Input<'_> {
        match response_type {
            Some(ResponseType::Text) => Input::Text(self.text.as_bytes()),
            Some(ResponseType::Object | ResponseType::Array) | None => Input::Json(self.text.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_payload_is_that_of_a_gateway() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list-issues.json");
        let most = Limits::default().max_input_bytes;
        for (bytes, is_read) in [(most, true), (most + 1, false)] {
            std::fs::write(&path, "1".repeat(bytes)).expect("a file");
            let read = Payload::read(&path, None, true);
            assert_eq!(read.is_ok(), is_read, "{bytes}");
            assert!(read.is_err() || read.is_ok_and(|payload| payload.tool.as_deref() == Some("list-issues")));
        }
    }
}
