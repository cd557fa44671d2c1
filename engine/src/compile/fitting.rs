//! The fields of `output` that decide what a budget shows: `preset`, `strategy`, `algorithm` and `levels`.

use std::sync::Arc;

use indexmap::IndexMap;

use super::allow_list::{HiddenBy, Shown};
use super::check::{Findings, keyed};
use super::fields::{limit_globs, within_entry_limit};
use super::pointers::{self, covers};
use crate::fit::{Algorithm, Field, FitProgram, Level, Levels, Newest, Preset, Strategy, ToolKind, Weights};
use crate::program::{Name, Segment, Trie};
use crate::text::Patterns;
use crate::{Finding, OutputSpec, StrategyFields, StrategySpec};

/// The strategies and the settings that each has, in addition to `group`.
const STRATEGIES: [(&str, &[&str]); 6] = [
    ("default", &[]),
    ("element_count", &[]),
    ("cascading", &["newest"]),
    ("size_proportional", &["path", "weights"]),
    ("thread_level", &["resolved", "comments"]),
    ("head_tail", &["boost"]),
];
/// The levels that a filter may have: each is another pass over all items.
const MAX_LEVELS: usize = 8;
/// The patterns of `weights`: each is compared with the path of every item.
const MAX_WEIGHTS: usize = 256;
/// The bytes of one such pattern.
const MAX_WEIGHT_BYTES: usize = 256;

/// Compiles the fields. `tool` decides the strategy of a filter with a budget that names none. `shown` says which
/// fields the stages before leave of an item. Under `enforced`, a strategy must not read any other.
pub(super) fn compile(
    output: &OutputSpec,
    tool: ToolKind,
    shown: Shown<'_>,
    enforced: bool,
    findings: &mut Findings<'_>,
) -> FitProgram {
    let OutputSpec {
        preset,
        budget,
        strategy,
        algorithm,
        levels,
        // These say how items are shown.
        format: _,
        structured: _,
        notice: _,
        inputs: _,
        chunks: _,
        toon: _,
    } = output;
    let preset = preset.as_deref().and_then(|name| {
        let preset = Preset::named(name);
        if preset.is_none() {
            unknown("output.preset", name, "preset", Preset::ALL.map(Preset::as_str), findings);
        }
        preset
    });
    let base = match preset {
        Some(preset) => preset.strategy(),
        None if budget.is_some() => tool.strategy(),
        None => Strategy::Default,
    };
    let mut program = FitProgram { preset, strategy: base, ..FitProgram::of(ToolKind::Other) };
    let mut reader = Reader { shown, enforced, findings };
    match strategy {
        None => {}
        Some(StrategySpec::Name(name)) => {
            let fields = StrategyFields { name: name.clone(), ..StrategyFields::default() };
            program.strategy = reader.strategy("output.strategy", &fields);
        }
        Some(StrategySpec::With(fields)) => {
            program.strategy = reader.strategy("output.strategy.name", fields);
            program.group = fields.group.as_deref().and_then(|path| reader.field("group", path));
        }
    }
    program.algorithm = algorithm.as_deref().and_then(|name| {
        let known = name.parse();
        if known.is_err() {
            unknown("output.algorithm", name, "algorithm", Algorithm::ALL.map(Algorithm::as_str), findings);
        }
        known.ok()
    });
    let grouped = matches!(strategy, Some(StrategySpec::With(fields)) if fields.group.is_some());
    if program.algorithm == Some(Algorithm::Fair) && !grouped {
        findings.warning(
            "output.algorithm",
            "`fair` shares the budget between groups, and there is one",
            "name the field of the group in `output.strategy.group`",
        );
    } else if grouped && program.algorithm.is_some_and(|algorithm| algorithm != Algorithm::Fair) {
        findings.warning(
            "output.strategy.group",
            "only `fair` shares the budget between groups",
            "remove it, or `output.algorithm`",
        );
    }
    program.levels = match (levels, preset) {
        (Some(levels), _) => self::levels(levels, shown, findings),
        (None, Some(preset)) => preset.levels(),
        (None, None) => Levels::default(),
    };
    program
}

/// Reports a name that is none of `known`.
fn unknown<'n>(
    field: &str,
    name: &str,
    what: &str,
    known: impl IntoIterator<Item = &'n str>,
    findings: &mut Findings<'_>,
) {
    let known: Vec<String> = known.into_iter().map(|name| format!("`{name}`")).collect();
    findings.error(field, format!("`{name}` is no {what}"), format!("use one of {}", known.join(", ")));
}

struct Reader<'s, 'f, 'p> {
    shown: Shown<'s>,
    enforced: bool,
    findings: &'f mut Findings<'p>,
}

impl Reader<'_, '_, '_> {
    /// Compiles a strategy; `name_field` is the field with its name. Its settings that have errors are as if they were
    /// not given.
    fn strategy(&mut self, name_field: &str, fields: &StrategyFields) -> Strategy {
        let StrategyFields { name, group: _, newest, path, weights, resolved, comments, boost } = fields;
        let Some((_, settings)) = STRATEGIES.iter().find(|(known, _)| known == name) else {
            unknown(name_field, name, "strategy", STRATEGIES.map(|(known, _)| known), self.findings);
            return Strategy::Default;
        };
        for (setting, given) in [
            ("newest", newest.is_some()),
            ("path", path.is_some()),
            ("weights", weights.is_some()),
            ("resolved", resolved.is_some()),
            ("comments", comments.is_some()),
            ("boost", boost.is_some()),
        ] {
            if given && !settings.contains(&setting) {
                let owner = STRATEGIES.iter().find(|(_, settings)| settings.contains(&setting)).map(|(name, _)| name);
                self.findings.error(
                    &format!("output.strategy.{setting}"),
                    format!("`{name}` has no `{setting}`"),
                    format!("remove it, or use `{}`", owner.unwrap_or(&"default")),
                );
            }
        }
        let field = |reader: &mut Self, setting: &str, path: &Option<String>, default: &str| {
            let given = path.as_deref().unwrap_or(default);
            reader.field(setting, given).unwrap_or_else(|| Field::any_of(&[default]))
        };
        match name.as_str() {
            "element_count" => Strategy::ElementCount,
            "cascading" => Strategy::Cascading { newest: self.newest(newest.as_deref()) },
            "size_proportional" => {
                let path = field(self, "path", path, "path");
                match weights.as_ref().and_then(|weights| self.weights(weights)) {
                    None => Strategy::files(path),
                    Some(weights) => Strategy::SizeProportional { path, weights: Arc::new(weights) },
                }
            }
            "thread_level" => {
                let resolved = field(self, "resolved", resolved, "resolved");
                Strategy::threads(resolved, field(self, "comments", comments, "comments"))
            }
            "head_tail" => match boost {
                None => Strategy::logs(),
                Some(boost) => Strategy::HeadTail { boost: self.boost(boost) },
            },
            _ => Strategy::Default,
        }
    }

    /// Compiles the path of a field, and reports it if a stage before removes the field.
    fn field(&mut self, setting: &str, path: &str) -> Option<Field> {
        let at = format!("output.strategy.{setting}");
        let segments = if path.is_empty() {
            self.findings.error(&at, "the name of the field is empty", "name a member of the item, or remove it");
            return None;
        } else if path.starts_with('/') {
            self.findings.record(&at, pointers::strict(path))?.segments
        } else {
            vec![Name::new(path)]
        };
        if let Some(hidden) = self.shown.hides(&segments) {
            let message = format!("reads `{path}`, which {}", hidden.as_str());
            let remedy = match hidden {
                HiddenBy::Select => "name one of those keys, or add the field to `select`",
                HiddenBy::Exclude => "name another field, or remove this one from `exclude`",
                HiddenBy::Retain => "name another field, or add this one to `retain`",
            };
            if self.enforced {
                self.findings.error(&at, message, remedy);
            } else {
                self.findings.warning(&at, message, remedy);
            }
        }
        Some(Field::at(segments))
    }

    fn newest(&mut self, newest: Option<&str>) -> Newest {
        match newest {
            None | Some("last") => Newest::Last,
            Some("first") => Newest::First,
            Some(other) => {
                unknown("output.strategy.newest", other, "end of a list", ["last", "first"], self.findings);
                Newest::Last
            }
        }
    }

    fn weights(&mut self, weights: &IndexMap<String, f64>) -> Option<Weights> {
        let field = "output.strategy.weights";
        if weights.is_empty() {
            self.findings.error(field, "is empty", "name file patterns and their weights, or remove it");
        }
        if weights.len() > MAX_WEIGHTS {
            let message = format!("has {} patterns, at most {MAX_WEIGHTS} are allowed", weights.len());
            self.findings.error(field, message, "use `*` in a pattern");
        }
        let errors = self.findings.errors();
        let mut compiled = Vec::with_capacity(weights.len());
        for (pattern, weight) in weights {
            let field = keyed(field, pattern);
            if pattern.is_empty() || pattern.len() > MAX_WEIGHT_BYTES {
                let message = format!("the pattern has {} bytes, 1 to {MAX_WEIGHT_BYTES} are allowed", pattern.len());
                self.findings.error(&field, message, "name files, such as `*.lock` or `*/tests/*`");
            }
            if !(0.0..=1.0).contains(weight) {
                self.findings.error(&field, format!("{weight} is no weight"), "give a number from 0 to 1");
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an error unless from 0 to 1")]
            let millionths = (weight * 1e6).round() as u64;
            compiled.push((pattern.as_str(), millionths));
        }
        (self.findings.errors() == errors && !weights.is_empty()).then(|| Weights::new(compiled))
    }

    fn boost(&mut self, boost: &[String]) -> Option<Arc<Patterns>> {
        if boost.is_empty() {
            let remedy = "name expressions, or remove it for the expressions of the documentation";
            self.findings.error("output.strategy.boost", "is empty", remedy);
        }
        let mut found: Vec<Finding> = Vec::new();
        let compiled = Patterns::compile("output.strategy.boost", boost, self.findings.patterns, &mut found);
        self.findings.extend(found);
        compiled
    }
}

fn levels(levels: &IndexMap<String, Vec<String>>, shown: Shown<'_>, findings: &mut Findings<'_>) -> Levels {
    if levels.is_empty() {
        findings.error("output.levels", "is empty", "name a level and what it keeps, or remove `levels`");
    }
    if levels.len() > MAX_LEVELS {
        let message = format!("has {} levels, at most {MAX_LEVELS} are allowed", levels.len());
        findings.error("output.levels", message, "keep those that differ most");
        return Levels::default();
    }
    let level = |(name, entries): (&String, &Vec<String>)| level(name, entries, shown, findings);
    Levels::new(levels.iter().filter_map(level).collect())
}

fn level(name: &str, entries: &[String], shown: Shown<'_>, findings: &mut Findings<'_>) -> Option<Level> {
    let field = keyed("output.levels", name);
    if name.is_empty() || name == "full" {
        let message = if name.is_empty() { "the name is empty" } else { "`full` is the item with all that it has" };
        findings.error(&field, message, "give the level another name");
    }
    if entries.is_empty() {
        findings.error(&field, "is empty, which would keep nothing", "name what to keep, or remove the level");
    }
    if !within_entry_limit(&field, entries.len(), findings) {
        return None;
    }
    let parsed: Vec<_> = entries
        .iter()
        .enumerate()
        .map(|(i, entry)| {
            let field = format!("{field}[{i}]");
            if entry.is_empty() {
                findings.error(&field, "the name is empty", "name a member of the item, or remove the entry");
                return None;
            }
            if !entry.starts_with('/') {
                return Some(vec![pointers::member(entry)]);
            }
            findings.record(&field, pointers::extended(entry))
        })
        .collect();
    limit_globs(&field, &parsed, findings);
    let mut paths = Trie::default();
    for (i, path) in parsed.iter().enumerate() {
        let Some(path) = path else { continue };
        let covered = parsed.iter().enumerate().any(|(j, other)| {
            other.as_ref().is_some_and(|other| j != i && covers(other, path) && (j < i || other != path))
        });
        if !covered {
            paths.insert(path, i);
        }
        let names = path.iter().map_while(|segment| match segment {
            Segment::Name(name) => Some(name.clone()),
            Segment::Any | Segment::Glob(_) | Segment::Deep => None,
        });
        if let Some(hidden) = shown.hides(&names.collect::<Vec<_>>()) {
            let message = format!("`{}` {}, so the level never keeps it", entries[i], hidden.as_str());
            findings.warning(
                &format!("{field}[{i}]"),
                message,
                "remove the entry, or name a field of the filtered item",
            );
        }
    }
    Some(Level::new(name, paths, false))
}
