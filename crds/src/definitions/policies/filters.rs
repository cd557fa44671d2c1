//! Rules on a single filter that the schema of its fields cannot express.
//!
//! The schema has rejected wrong types, counts and lengths before this policy runs, so the number of steps is linear
//! in the size of the object, which the bounds limit. One expression decides: it builds nothing and stops at the
//! first mistake, since every write of a filter waits for it. Only then is the message built, about the first three
//! invalid filters, and in each the first invalid branch and operation.
//!
//! The engine checks all of it again. What only the engine can find (a broken template, a path that another stage
//! drops) becomes a condition. An object too large for the cost limit of the API server therefore passes here
//! (`failurePolicy: Ignore`), and is not rejected for its size.

use serde_json::{Value as Json, json};

use super::cel;

/// Every filter, as `{at: its place, of: the filter}`.
const FILTERS: &str = "\
request.resource.resource == 'toolsfilters'
? (size(object.spec.filters) > MAX_VISITED ? dyn([]) : dyn(object.spec.filters.map(tool, {'at': dyn('spec.filters' + (tool.matches('^[A-Za-z0-9_/-]+$') ? '.' + tool : '[\"' + tool + '\"]')), 'of': dyn(object.spec.filters[tool])})))
: has(object.spec.http) && size(object.spec.http.actions) <= MAX_VISITED
? dyn(object.spec.http.actions
  .filter(tool, has(object.spec.http.actions[tool].response) && has(object.spec.http.actions[tool].response.filter))
  .map(tool, {'at': dyn('spec.http.actions.' + tool + '.response.filter'), 'of': dyn(object.spec.http.actions[tool].response.filter)}))
: has(object.spec.openapi) && has(object.spec.openapi.overrides) && size(object.spec.openapi.overrides) <= MAX_VISITED
? dyn(object.spec.openapi.overrides
  .filter(tool, has(object.spec.openapi.overrides[tool].response) && has(object.spec.openapi.overrides[tool].response.filter))
  .map(tool, {'at': dyn('spec.openapi.overrides' + (tool.matches('^[A-Za-z0-9_/-]+$') ? '.' + tool : '[\"' + tool + '\"]') + '.response.filter'), 'of': dyn(object.spec.openapi.overrides[tool].response.filter)}))
: has(object.spec.graphql) && has(object.spec.graphql.overrides) && size(object.spec.graphql.overrides) <= MAX_VISITED
? dyn(object.spec.graphql.overrides
  .filter(tool, has(object.spec.graphql.overrides[tool].response) && has(object.spec.graphql.overrides[tool].response.filter))
  .map(tool, {'at': dyn('spec.graphql.overrides' + (tool.matches('^[A-Za-z0-9_/-]+$') ? '.' + tool : '[\"' + tool + '\"]') + '.response.filter'), 'of': dyn(object.spec.graphql.overrides[tool].response.filter)}))
: has(object.spec.grpc) && has(object.spec.grpc.overrides) && size(object.spec.grpc.overrides) <= MAX_VISITED
? dyn(object.spec.grpc.overrides
  .filter(tool, has(object.spec.grpc.overrides[tool].response) && has(object.spec.grpc.overrides[tool].response.filter))
  .map(tool, {'at': dyn('spec.grpc.overrides' + (tool.matches('^[A-Za-z0-9_/-]+$') ? '.' + tool : '[\"' + tool + '\"]') + '.response.filter'), 'of': dyn(object.spec.grpc.overrides[tool].response.filter)}))
: dyn([])";

/// The first branch of each filter that is invalid by itself, in the same form. A filter that is not a list is its
/// own only branch.
const BRANCHES: &str = "\
variables.wrong.map(f,
  type(f.of) == map ? [{'at': dyn(f.at), 'of': dyn(f.of)}]
  : type(f.of) == list ? WRONG_BRANCHES.map(n, {'at': dyn(f.at + '[' + string(n) + ']'), 'of': dyn(f.of[n])})
  : []).filter(all, size(all) > 0).map(all, all[0])";

/// Entries that are neither an object nor a list.
const FORMS: &str = "\
variables.wrong.map(f,
  type(f.of) == map ? ''
  : type(f.of) != list ? f.at + ': is not a filter; write an object or a list of branches'
  : WRONG_FORMS.map(n, f.at + '[' + string(n) + ']: is not a branch; write an object with `test`').join('; '))
.filter(text, text != '').join('; ')";

/// `test` and `otherwise`: every branch of a list has one of them, and nothing else may have either.
const GUARDS: &str = "\
variables.wrong.map(f,
  type(f.of) == map
  ? ('test' in f.of ? f.at + '.test: is allowed in a list of branches only; make the filter a list, or remove it'
     : 'otherwise' in f.of && f.of.otherwise == true ? f.at + '.otherwise: is allowed in a list of branches only; make the filter a list, or remove it'
     : '')
  : type(f.of) == list
  ? WRONG_GUARDS.map(n, f.at + '[' + string(n) + ']' + ('test' in f.of[n]
        ? ': `otherwise` and `test` are mutually exclusive; keep one of them'
        : ': is a branch without `test`; add one, or `otherwise: true` on the last branch')).join('; ')
    + WRONG_LAST.filter(n, n != size(f.of) - 1).map(n, f.at + '[' + string(n)
        + '].otherwise: is not on the last branch, so later branches never apply; move it to the end').join('; ')
  : '')
.filter(text, text != '').join('; ')";

/// Invalid operations of `patches`.
const PATCHES: &str = "\
variables.branches.filter(b, has(b.of.patches)).map(b, WRONG_PATCHES.map(n, [b.of.patches[n]].map(p,
  b.at + '.patches[' + string(n) + ']' + (
    !(p.op in ['add', 'remove', 'replace', 'move', 'copy', 'test']) ? '.op: `' + p.op + '` is not an operation; use add, remove, replace, move, copy or test'
    : !POINTER(p.path) ? '.path: `' + p.path + '` ' + 'NO_POINTER'
    : p.op in ['move', 'copy'] && !('from' in p) ? '.from: is missing; `' + p.op + '` requires it'
    : p.op in ['move', 'copy'] && !POINTER(p.from) ? '.from: `' + p.from + '` ' + 'NO_POINTER'
    : p.op == 'move' && p.path.startsWith(p.from + '/') ? ': moves `' + p.from + '` into itself; move it elsewhere, or `copy` it'
    : p.op in ['add', 'replace', 'test'] && !('value' in p) ? '.value: is missing; `' + p.op + '` requires it, and null is a value'
    : '.from: is not allowed for `' + p.op + '`; remove it, or use `move` or `copy`'))[0]).join('; '))
.filter(text, text != '').join('; ')";

/// Pointers that do not begin with `/`, and source paths that cannot be parsed.
const PATHS: &str = "\
variables.branches.map(b, (
  (has(b.of.retain) ? WRONG_RETAIN.map(n, b.at + '.retain[' + string(n) + ']: `' + b.of.retain[n] + '` ' + 'NO_POINTER') : [])
  + (has(b.of.root) && !POINTER(b.of.root) ? [b.at + '.root: `' + b.of.root + '` ' + 'NO_POINTER'] : [])
  + (has(b.of.test) && !POINTER(b.of.test.path) ? [b.at + '.test.path: `' + b.of.test.path + '` ' + 'NO_POINTER'] : [])
  + (has(b.of.exclude) ? WRONG_EXCLUDE.map(n, b.at + '.exclude[' + string(n) + ']: `' + b.of.exclude[n]
      + '` has an unknown escape; write ~0 for ~, ~1 for /, ~2 for *') : [])
  + (has(b.of.select) && '' in b.of.select ? [b.at + '.select: the output key is empty; name the member'] : [])
  + (has(b.of.select) ? WRONG_SELECT.map(key, b.at + '.select.' + key + ': `' + b.of.select[key]
      + '` is not a source path; write names separated by dots, [n] for an element, [*] for all elements') : [])
  ).join('; '))
.filter(text, text != '').join('; ')";

/// Fields that exclude each other.
const REST: &str = "\
variables.branches.map(b, (
  (!PASSTHROUGH ? [b.at + '.passthrough: excludes every other stage; remove it, or the stages'] : [])
  ).join('; '))
.filter(text, text != '').join('; ')";

/// Fields of `output` that are not consistent.
const OUTPUT: &str = "\
variables.branches.filter(b, has(b.of.output)).map(b, [b.of.output].map(o, (
  (!FORMAT ? [b.at + '.output.format: is not a format; use `json`, `table`, `toon`, `auto`, or a list of the first three, each once'] : [])
  + (!BUDGET ? [b.at + '.output.budget: sets no limit; set `bytes` or `tokens`, or remove it'] : [])
  + (!LEVELS ? [b.at + '.output.levels: has a level without a name, or named `full`, which is the whole item; rename it'] : [])
  + (!STRATEGY ? [b.at + '.output.strategy' + (
      type(o.strategy) == string ? ': `' + o.strategy + '` is not a strategy; use KNOWN'
      : type(o.strategy) != map ? ': is not a strategy; write a name, or an object with `name`'
      : !('name' in o.strategy) ? '.name: is missing; use KNOWN'
      : !(o.strategy.name in NAMES) ? '.name: `' + o.strategy.name + '` is not a strategy; use KNOWN'
      : o.strategy.filter(key, key in OWNERS && OWNERS[key] != o.strategy.name)
        .map(key, '.' + key + ': is not allowed for `' + o.strategy.name + '`; remove it, or use `' + OWNERS[key] + '`')[0])] : [])
  ).join('; '))[0])
.filter(text, text != '').join('; ')";

/// Returns the policy's `spec`.
pub(super) fn spec() -> Json {
    let (branch, entry) = (branch("b"), format!("[e.of].all(f, {})", entry()));
    let wrong = format!("{}.map(n, variables.filters[n])", cel::wrong("variables.filters", "e", "w", &entry));
    let branches =
        BRANCHES.replace("WRONG_BRANCHES", &cel::wrong("f.of", "b", "w", &format!("type(b) != map || {branch}")));
    let other = "'otherwise' in b && b.otherwise == true";
    let guards = GUARDS
        .replace(
            "WRONG_GUARDS",
            &cel::wrong("f.of", "b", "g", &format!("type(b) != map || ('test' in b) != ({other})")),
        )
        .replace("WRONG_LAST", &cel::wrong("f.of", "b", "o", &format!("type(b) != map || 'test' in b || !({other})")));
    let patches = PATCHES.replace("WRONG_PATCHES", &cel::wrong("b.of.patches", "p", "p", PATCH));
    let places = PATHS
        .replace("WRONG_RETAIN", &cel::wrong("b.of.retain", "p", "r", "POINTER(p)"))
        .replace("WRONG_EXCLUDE", &cel::wrong("b.of.exclude", "p", "e", "EXCLUDE(p)"))
        .replace("WRONG_SELECT", &cel::wrong_values("b.of.select", "p", "s", "SOURCE(p)"));
    let texts = [
        ("forms", FORMS.replace("WRONG_FORMS", &cel::wrong("f.of", "b", "f", "type(b) == map"))),
        ("guards", guards),
        ("patches", paths(&patches)),
        ("paths", paths(&places)),
        ("output", output(OUTPUT)),
        ("rest", REST.replace("PASSTHROUGH", &PASSTHROUGH.replace("b.", "b.of."))),
    ];
    let names: Vec<String> = texts.iter().map(|(name, _)| format!("variables.{name}")).collect();
    let all = format!("[{}].filter(text, text != '').join('; ')", names.join(", "));
    let variable = |name: &str, cel: &str| json!({ "name": name, "expression": cel });
    let mut variables = vec![
        cel::side(),
        variable("filters", &FILTERS.replace("MAX_VISITED", &cel::MAX_VISITED.to_string())),
        variable("wrong", &wrong),
        variable("branches", &branches),
    ];
    variables.extend(texts.iter().map(|(name, cel)| variable(name, cel)));
    variables.push(variable("problems", &all));
    json!({
        "failurePolicy": "Ignore",
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["tamis.dev"],
            "apiVersions": ["*"],
            "resources": ["toolsfilters", "servicemanifests"],
            "operations": ["CREATE", "UPDATE"],
        }] },
        // An object that was stored without this policy can still be labelled, and deleted by users who have to
        // unlock it first.
        "matchConditions": [{
            "name": "spec-is-new",
            "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
        }],
        "variables": variables,
        "validations": [{
            "expression": cel::all("variables.filters", "e", "", &entry),
            "message": "a filter is invalid",
            // The API server accepts no message above 5 kB.
            "messageExpression":
                "size(variables.problems) > 1000 ? variables.problems.substring(0, 1000) + ' ..' : variables.problems",
        }],
    })
}

/// Returns whether `f` is a filter, or a list of branches.
fn entry() -> String {
    let other = "'otherwise' in b && b.otherwise == true";
    let each = format!("type(b) == map && (type(f) == map || ('test' in b) != ({other})) && {}", branch("b"));
    format!(
        "(type(f) == map ? !('test' in f) && !('otherwise' in f && f.otherwise == true)\n\
         : type(f) == list && size(f) > 0 && size({wrong}) <= (type(f[size(f) - 1]) == map && 'otherwise' in f[size(f) - 1] \
         && f[size(f) - 1].otherwise == true ? 1 : 0))\n&& [type(f) == list ? f : [f]].all(g, {all})",
        wrong = cel::wrong("f", "b", "o", &format!("!({other})")),
        all = cel::all("g", "b", "f", &each),
    )
}

/// Returns whether the members of `b`, a filter or a branch, are valid.
fn branch(id: &str) -> String {
    let retain = cel::all("b.retain", "p", id, "POINTER(p)");
    let patches = cel::all("b.patches", "p", id, PATCH);
    let exclude = cel::all("b.exclude", "p", id, "EXCLUDE(p)");
    let select = cel::all_values("b.select", "p", id, "SOURCE(p)");
    paths(&format!(
        "((!has(b.retain) || {retain})
    && (!has(b.patches) || {patches})
    && (!has(b.root) || POINTER(b.root))
    && (!has(b.select) || !('' in b.select) && {select})
    && (!has(b.exclude) || {exclude})
    && (!has(b.test) || POINTER(b.test.path))
    && (!has(b.output) || [b.output].all(o, {output}))
    && {PASSTHROUGH})",
        output = output("FORMAT && BUDGET && LEVELS && STRATEGY"),
    ))
}

/// Replaces the checks of `o`, a filter's `output`, by their expressions.
fn output(cel: &str) -> String {
    let names = STRATEGIES.map(|name| format!("'{name}'")).join(", ");
    let owners = SETTINGS.map(|(setting, name)| format!("'{setting}': '{name}'")).join(", ");
    cel.replace("FORMAT", FORMAT)
        .replace("BUDGET", "(!has(o.budget) || has(o.budget.bytes) || has(o.budget.tokens))")
        .replace("LEVELS", "(!has(o.levels) || !('' in o.levels || 'full' in o.levels))")
        .replace("STRATEGY", STRATEGY)
        .replace("NAMES", &format!("[{names}]"))
        .replace("OWNERS", &format!("{{{owners}}}"))
        .replace("KNOWN", &STRATEGIES.join(", "))
}

/// The strategies of a budget.
const STRATEGIES: [&str; 6] =
    ["default", "element_count", "cascading", "size_proportional", "thread_level", "head_tail"];

/// The settings of a strategy, each with the only strategy that has it.
const SETTINGS: [(&str, &str); 6] = [
    ("newest", "cascading"),
    ("path", "size_proportional"),
    ("weights", "size_proportional"),
    ("resolved", "thread_level"),
    ("comments", "thread_level"),
    ("boost", "head_tail"),
];

/// Whether `o.format` is a format, or a list of formats that occur once each.
const FORMAT: &str = "\
(!has(o.format) || (type(o.format) == string ? o.format in ['json', 'table', 'toon', 'auto']
      : type(o.format) == list && size(o.format) > 0 && o.format.all(one, one in ['json', 'table', 'toon'] \
&& o.format.exists_one(other, other == one))))";

/// Whether `o.strategy` is a strategy, or an object with a strategy's name and settings.
const STRATEGY: &str = "\
(!has(o.strategy) || (type(o.strategy) == string ? o.strategy in NAMES
      : type(o.strategy) == map && 'name' in o.strategy && o.strategy.name in NAMES \
&& o.strategy.all(key, !(key in OWNERS) || OWNERS[key] == o.strategy.name)))";

/// Replaces the checks of pointers and source paths by their expressions.
fn paths(cel: &str) -> String {
    let pointer = |argument: &str| format!("({argument} == '' || {argument}.startsWith('/'))");
    // Only an entry that begins with `/` has escapes.
    let exclude = |argument: &str| {
        format!("(!{argument}.startsWith('/') || !{argument}.contains('~') || {argument}.matches('^([^~]|~[012])*$'))")
    };
    // Most paths are names with dots.
    let source = |argument: &str| format!("{argument}.matches('{SOURCE}')");
    let cel = expand(cel, "POINTER", pointer);
    let cel = expand(&cel, "EXCLUDE", exclude);
    expand(&cel, "SOURCE", source).replace("NO_POINTER", "is not a JSON Pointer; begin it with `/`")
}

/// The syntax of a source path of `select`: names, each with optional indices, and dots between them. A backslash
/// escapes `.`, `[`, `]` and itself.
const SOURCE: &str = r"^([^.\\[\\]\\\\]|\\\\[.\\[\\]\\\\])+(\\[([*]|[0-9]+)\\])*([.]([^.\\[\\]\\\\]|\\\\[.\\[\\]\\\\])+(\\[([*]|[0-9]+)\\])*)*$";

/// Whether `b` has no stage if it has `passthrough`.
const PASSTHROUGH: &str = "(!has(b.passthrough) || b.passthrough != true || b.all(key, key in {'passthrough': true, 'test': true, 'otherwise': true}))";

/// Whether the members of the operation `p` are consistent with each other.
const PATCH: &str = "\
(POINTER(p.path)
      && (p.op in ['add', 'replace', 'test'] ? 'value' in p && !('from' in p)
          : p.op in ['move', 'copy'] ? 'from' in p && POINTER(p.from) && (p.op == 'copy' || !p.path.startsWith(p.from + '/'))
          : p.op == 'remove' && !('from' in p)))";

/// Replaces `NAME(argument)`, where the argument has no parentheses.
fn expand(cel: &str, name: &str, with: impl Fn(&str) -> String) -> String {
    let open = format!("{name}(");
    let mut pieces = cel.split(&open);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (argument, rest) = piece.split_once(')').unwrap_or((piece, ""));
        out.push_str(&with(argument));
        out.push_str(rest);
    }
    out
}
