//! The sample service's documents, and a folder to serve them from.

use std::fs;
use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;

use crate::Upstream;

/// Returns the manifest of the sample service for [`Upstream`].
#[must_use]
pub fn manifest(upstream: &Upstream) -> String {
    MANIFEST.replace("URL", &upstream.url)
}

const MANIFEST: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: tracker}
spec:
  name: tracker
  version: "1.0.0"
  description: A small issue tracker
  http:
    baseUrl: URL
    actions:
      list-issues:
        description: Issues of a repository
        method: GET
        path: /repos/{owner}/{repo}/issues
        args:
          owner: {type: string, required: true}
          repo: {type: string, required: true}
          state: {type: string, enum: [open, closed, all], default: all}
        request: {pathParams: {owner: "{owner}", repo: "{repo}"}, query: {state: "{state}"}}
        response: {type: array}
        idempotent: true
      get-issue:
        description: One issue
        method: GET
        path: /repos/{owner}/{repo}/issues/{number}
        args:
          owner: {type: string, required: true}
          repo: {type: string, required: true}
          number: {type: integer, required: true}
        request: {pathParams: {owner: "{owner}", repo: "{repo}", number: "{number}"}}
        response: {type: object}
      slow:
        description: Answers late
        method: GET
        path: /slow/{ms}
        args: {ms: {type: integer, required: true}}
        request: {pathParams: {ms: "{ms}"}}
      status:
        description: Answers with a status
        method: GET
        path: /status/{code}
        args: {code: {type: integer, required: true}}
        request: {pathParams: {code: "{code}"}}
      get-log:
        description: A log, as text
        method: GET
        path: /log
      echo:
        description: Says what arrived
        method: POST
        path: /echo
        args:
          text: {type: string, required: true}
          times: {type: integer}
        request: {body: {text: "{text}", times: "{times}"}}
        risk: {level: medium, mutating: true}
"#;

/// Copies a folder and edits the content of YAML files with `yaml`.
///
/// # Errors
/// The file system's.
pub fn copy_folder(from: &Path, to: &Path, yaml: &dyn Fn(&str) -> String) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if path.is_dir() {
            copy_folder(&path, &target, yaml)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            fs::write(target, yaml(&fs::read_to_string(path)?))?;
        } else {
            fs::copy(path, target)?;
        }
    }
    Ok(())
}

/// The Advisory set and its exposition.
pub const INTERNAL: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: tracker-internal}
spec:
  name: internal
  service: {name: tracker, version: "1.0.0"}
  filters:
    list-issues:
      select: {number: number, title: title, by: user.login, labels: "labels[*].name"}
    get-issue:
      exclude: [token]
      dropNulls: true
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: internal}
spec:
  service: {name: tracker, version: "1.0.0"}
  filters: [internal]
"#;

/// Returns two expositions of a service: `open` without filters, and `closed` of one tool, of which an `Enforced` filter selects members.
#[must_use]
pub fn open_and_closed(service: &str, version: &str, tool: &str, select: &str) -> String {
    let service = format!("{{name: {service}, version: '{version}'}}");
    format!(
        "---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {{name: open}}
spec: {{service: {service}, filters: []}}
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {{name: closed}}
spec:
  name: closed
  service: {service}
  enforcement: Enforced
  filters: {{{tool}: {{root: '', select: {{{select}}}}}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {{name: closed}}
spec: {{service: {service}, filters: [closed], tools: {{include: [{tool}]}}}}
"
    )
}

/// The Enforced set and its exposition: fewer fields of fewer tools.
pub const PARTNER: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: tracker-partner}
spec:
  name: partner
  service: {name: tracker, version: "1.0.0"}
  enforcement: Enforced
  filters:
    list-issues:
      root: ""
      select: {number: number}
    get-issue:
      root: ""
      select: {number: number, title: title}
    slow: {passthrough: true}
    status: {retain: [/message]}
    get-log: {retain: [/never]}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: partner}
spec:
  service: {name: tracker, version: "1.0.0"}
  filters: [partner]
"#;

/// A folder of documents that goes away with the test.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// An empty one.
    ///
    /// # Errors
    /// The file system's.
    pub fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    /// Creates a folder with the sample service and both expositions.
    ///
    /// # Errors
    /// The file system's.
    pub fn sample(upstream: &Upstream) -> Result<Self> {
        let folder = Self::new()?;
        folder.write("manifest.yaml", &manifest(upstream))?;
        folder.write("internal.yaml", INTERNAL)?;
        folder.write("partner.yaml", PARTNER)?;
        Ok(folder)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file in place, as an editor does that truncates first.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.path().join(name), text)?)
    }

    /// Writes a temporary file and renames it, as an editor does that saves atomically.
    ///
    /// # Errors
    /// The file system's.
    pub fn replace(&self, name: &str, text: &str) -> Result<()> {
        let beside = self.path().join(format!(".{name}.tmp"));
        fs::write(&beside, text)?;
        Ok(fs::rename(beside, self.path().join(name))?)
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.path().join(name))?)
    }
}

/// The fenced blocks of a page: line, info string, content with its line ends.
#[must_use]
pub fn fences(text: &str) -> Vec<(usize, &str, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((index + 1, info, String::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some((_, _, body)), None) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}
