//! The served documents: one service in two namespaces, the attackers' and the victim's.

use anyhow::Result;
use tempfile::TempDir;

/// Operations and paths of a heavy filter.
const MANY: usize = 300;

const SERVICE: &str = r#"
kind: ServiceManifest
metadata: {name: api, namespace: NAMESPACE}
spec:
  name: api
  version: "1"
  description: Answers of all sizes
  http:
    baseUrl: BASE
    actions:
      small: {description: A small answer, method: GET, path: /small}
      large: {description: A large answer, method: GET, path: /large}
      twice: {description: A key that occurs twice, method: GET, path: /twice}
      wide: {description: Many members, method: GET, path: /wide}
      digits: {description: One long line, method: GET, path: /digits, response: {type: text}}
      slow: {description: Takes its time, method: GET, path: /slow}
      take:
        description: Takes a list
        method: POST
        path: /take
        args: {ss: {type: array, items: {type: string}}}
        request: {body: {ss: "{ss}"}}
"#;

/// The folder to serve.
pub(crate) fn write(base: &str) -> Result<TempDir> {
    let mut documents = String::new();
    for (namespace, exposition) in [("attackers", "attacked"), ("victims", "victim")] {
        documents.push_str("---\napiVersion: tamis.dev/v1alpha1");
        documents.push_str(&SERVICE.replace("NAMESPACE", namespace).replace("BASE", base));
        documents.push_str(&format!(
            "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {exposition}, namespace: {namespace}}}\n\
             spec: {{service: {{name: api, version: \"1\"}}, filters: [{set}]}}\n",
            set = if namespace == "attackers" { "heavy" } else { "" },
        ));
    }
    let operations: Vec<_> = (0..MANY).map(|i| format!("{{op: remove, path: /k{i}}}")).collect();
    let paths: Vec<_> = (0..MANY).map(|i| format!("/k{}", 3 * i)).collect();
    documents.push_str(&format!(
        "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: heavy, namespace: attackers}}\n\
         spec:\n  name: heavy\n  service: {{name: api, version: \"1\"}}\n  filters:\n    \
         wide: {{retain: [{}], patches: [{}]}}\n    \
         twice: {{select: {{a: a, b: b}}, dropNulls: true}}\n    \
         digits: {{text: {{keep: ['[01]*1[01]{{200}}x']}}}}\n",
        paths.join(", "),
        operations.join(", "),
    ));
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("all.yaml"), documents)?;
    Ok(folder)
}
