//! What a filter may say, as far as one filter alone shows it: the open node of the definitions, looked into.
//!
//! Each check is a variable: a text that names every place where it fails, or an empty one. The engine checks all of it
//! again, and what only it can know (a template, a path that another stage drops) becomes a condition. So a filter too
//! large for the time that the API server gives an expression passes here (`failurePolicy: Ignore`), rather than being
//! refused for its size. That an expression which fails is ignored also means: each looks at a type before it uses it.

use serde_json::{Value as Json, json};

/// The fields of a filter, with what the API server has them as, in words too.
pub(in crate::definitions) const FIELDS: &[(&str, &str, &str)] = &[
    ("test", "map", "an object with `path` and `value`"),
    ("otherwise", "bool", "true or false"),
    ("passthrough", "bool", "true or false"),
    ("retain", "list", "a list of JSON Pointers"),
    ("patches", "list", "a list of operations"),
    ("root", "string", "a JSON Pointer"),
    ("maxItems", "int", "a whole number"),
    ("select", "map", "an object of names and paths"),
    ("exclude", "list", "a list of names"),
    ("dropNulls", "bool", "true or false"),
    ("dropEmpty", "bool", "true or false"),
    ("text", "map", "an object"),
    ("output", "map", "an object"),
    ("compact", "map", "an object with `item`"),
];

/// The operations of RFC 6902.
const OPERATIONS: &str = "['add', 'remove', 'replace', 'move', 'copy', 'test']";

/// Every filter, as `{at: where it stands, of: the filter}`.
const FILTERS: &str = "\
request.resource.resource == 'toolsfilters'
? object.spec.filters.map(tool, {'at': dyn('spec.filters' + (tool.matches('^[A-Za-z0-9_/-]+$') ? '.' + tool : '[\"' + tool + '\"]')), 'of': dyn(object.spec.filters[tool])})
: has(object.spec.http)
? object.spec.http.actions
  .filter(tool, has(object.spec.http.actions[tool].response) && has(object.spec.http.actions[tool].response.filter))
  .map(tool, {'at': dyn('spec.http.actions.' + tool + '.response.filter'), 'of': dyn(object.spec.http.actions[tool].response.filter)})
: []";

/// For each filter a list of its branches in the same form; a filter that is no list is its only branch.
const BRANCHES: &str = "\
variables.filters.filter(f, type(f.of) == map || type(f.of) == list).map(f,
  type(f.of) == list
  ? f.of.filter(b, type(b) == map).map(b, {'at': dyn(f.at + '[' + string(f.of.indexOf(b)) + ']'), 'of': dyn(b)})
  : [{'at': dyn(f.at), 'of': dyn(f.of)}])";

/// Entries that are neither form, and branches that are none.
const FORMS: &str = "\
variables.filters.map(f,
  type(f.of) == map ? ''
  : type(f.of) != list ? f.at + ': is no filter: write an object, or a list of branches'
  : size(f.of) == 0 ? f.at + ': the list of branches is empty: write at least one, or one filter without a list'
  : f.of.filter(b, type(b) != map).map(b, f.at + '[' + string(f.of.indexOf(b)) + ']: is no branch: write an object with `test`').join('; '))
.filter(text, text != '').join('; ')";

/// `test` and `otherwise`: on every branch of a list, one of them, and nowhere else.
const GUARDS: &str = "\
variables.filters.map(f,
  type(f.of) == map
  ? ('test' in f.of ? f.at + '.test: belongs to the list form: make the filter a list of branches, or remove it'
     : 'otherwise' in f.of && f.of.otherwise == true ? f.at + '.otherwise: belongs to the list form: make the filter a list of branches, or remove it'
     : '')
  : type(f.of) == list
  ? f.of.filter(b, type(b) == map).map(b,
      ('test' in b) == ('otherwise' in b && b.otherwise == true)
      ? f.at + '[' + string(f.of.indexOf(b)) + ']' + ('test' in b
        ? ': `otherwise` stands beside `test`: keep one of them'
        : ': is a branch without `test`: add it, or `otherwise: true` on the last one')
      : 'otherwise' in b && b.otherwise == true && f.of.indexOf(b) != size(f.of) - 1
      ? f.at + '[' + string(f.of.indexOf(b)) + '].otherwise: is not on the last branch, and those after it never apply: move it to the end'
      : 'test' in b && type(b.test) == map && !('path' in b.test && 'value' in b.test)
      ? f.at + '[' + string(f.of.indexOf(b)) + '].test: needs `path` and `value`'
      : '').filter(text, text != '').join('; ')
  : '')
.filter(text, text != '').join('; ')";

/// Operations of `patches`.
const PATCHES: &str = "\
variables.branches.map(branches, branches.filter(b, 'patches' in b.of && type(b.of.patches) == list).map(b, b.of.patches.map(p,
  type(p) != map ? b.at + '.patches: an entry is no operation: write {op: .., path: ..}'
  : !('op' in p) ? b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].op: is missing: write add, remove, replace, move, copy or test'
  : !(p.op in OPERATIONS) ? b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].op: ' + (type(p.op) == string ? '`' + p.op + '` ' : '') + 'is no operation: write add, remove, replace, move, copy or test'
  : !('path' in p) ? b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].path: is missing: give a JSON Pointer, such as /user/email'
  : p.op in ['move', 'copy'] && !('from' in p) ? b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].from: is missing: `' + p.op + '` needs it'
  : p.op in ['add', 'replace', 'test'] && !('value' in p) ? b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].value: is missing: `' + p.op + '` needs it; null is a value'
  : !(p.op in ['move', 'copy']) && 'from' in p ? b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].from: `' + p.op + '` takes none: remove it, or use `move` or `copy`'
  : p.filter(key, !(key in ['op', 'path', 'from', 'value'])).map(key, b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].' + key + ': is not a field of an operation: remove it').join('; ')
  ).filter(text, text != '').join('; ')).filter(text, text != '').join('; '))
.filter(text, text != '').join('; ')";

/// Pointers: whether they begin with `/`.
const POINTERS: &str = "\
variables.branches.map(branches, branches.map(b, (
  ('retain' in b.of && type(b.of.retain) == list
   ? b.of.retain.filter(p, !POINTER(p)).map(p, b.at + '.retain[' + string(b.of.retain.indexOf(p)) + ']' + (type(p) == string ? ': `' + p + '`' : ':')) : [])
  + ('root' in b.of && !POINTER(b.of.root) ? [b.at + '.root' + (type(b.of.root) == string ? ': `' + b.of.root + '`' : ':')] : [])
  + ('test' in b.of && type(b.of.test) == map && 'path' in b.of.test && !POINTER(b.of.test.path)
   ? [b.at + '.test.path' + (type(b.of.test.path) == string ? ': `' + b.of.test.path + '`' : ':')] : [])
  + ('patches' in b.of && type(b.of.patches) == list
   ? b.of.patches.filter(p, type(p) == map && 'path' in p && !POINTER(p.path))
     .map(p, b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].path' + (type(p.path) == string ? ': `' + p.path + '`' : ':')) : [])
  + ('patches' in b.of && type(b.of.patches) == list
   ? b.of.patches.filter(p, type(p) == map && 'from' in p && !POINTER(p.from))
     .map(p, b.at + '.patches[' + string(b.of.patches.indexOf(p)) + '].from' + (type(p.from) == string ? ': `' + p.from + '`' : ':')) : [])
  ).map(place, place + ' is no JSON Pointer, which begins with `/`').join('; ')).filter(text, text != '').join('; '))
.filter(text, text != '').join('; ')";

/// Values that no field can have.
const VALUES: &str = "\
variables.branches.map(branches, branches.map(b,
  'maxItems' in b.of && type(b.of.maxItems) == int && b.of.maxItems < 0
  ? b.at + '.maxItems: ' + string(b.of.maxItems) + ' is negative: give the number of items to keep, or 0 for no limit'
  : 'retain' in b.of && type(b.of.retain) == list && size(b.of.retain) == 0
  ? b.at + '.retain: is empty, which would keep nothing: name what to keep, or remove it'
  : 'select' in b.of && type(b.of.select) == map && size(b.of.select) == 0
  ? b.at + '.select: is empty, which would keep nothing: name the fields to keep, or remove it'
  : 'select' in b.of && type(b.of.select) == map && b.of.select.exists(key, type(b.of.select[key]) != string)
  ? b.at + '.select: a path is no text: write name: path.to.it'
  : 'exclude' in b.of && type(b.of.exclude) == list && b.of.exclude.exists(name, type(name) != string)
  ? b.at + '.exclude: a name is no text: quote it'
  : '').filter(text, text != '').join('; '))
.filter(text, text != '').join('; ')";

/// The policy's `spec`.
pub(super) fn spec() -> Json {
    let pointers =
        expand(POINTERS, "POINTER", |p| format!("(type({p}) == string && ({p} == '' || {p}.startsWith('/')))"));
    let checks = [
        ("forms", FORMS.to_owned(), "a filter is neither an object nor a list of branches"),
        ("fields", fields(), "a filter has a field that there is not"),
        ("types", types(), "a field of a filter is of another type"),
        ("guards", GUARDS.to_owned(), "`test` and `otherwise` belong to the branches of a list"),
        ("patches", PATCHES.replace("OPERATIONS", OPERATIONS), "an operation of `patches` is not right"),
        ("pointers", pointers, "a JSON Pointer does not begin with `/`"),
        ("values", VALUES.to_owned(), "a field of a filter has a value that is not possible"),
    ];
    let variable = |name: &str, cel: &str| json!({ "name": name, "expression": cel });
    let mut variables = vec![variable("filters", FILTERS), variable("branches", BRANCHES)];
    variables.extend(checks.iter().map(|(name, cel, _)| variable(name, cel)));
    let validations: Vec<Json> = checks
        .iter()
        .map(|(name, _, message)| {
            // The API server takes no message above 5 kB.
            let text = format!("variables.{name}");
            json!({
                "expression": format!("{text} == ''"),
                "message": message,
                "messageExpression": format!("size({text}) > 1000 ? {text}.substring(0, 1000) + ' ..' : {text}"),
            })
        })
        .collect();
    json!({
        "failurePolicy": "Ignore",
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["reshapr.io"],
            "apiVersions": ["*"],
            "resources": ["toolsfilters", "servicemanifests"],
            "operations": ["CREATE", "UPDATE"],
        }] },
        // An object that was stored without this policy can still be labelled, and deleted by who has to unlock it first.
        "matchConditions": [{
            "name": "spec-is-new",
            "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
        }],
        "variables": variables,
        "validations": validations,
    })
}

/// Members that no filter has: a misspelled stage would be one that does nothing.
fn fields() -> String {
    let names: Vec<String> = FIELDS.iter().map(|(name, _, _)| format!("'{name}'")).collect();
    let all: Vec<&str> = FIELDS.iter().map(|(name, _, _)| *name).collect();
    format!(
        "variables.branches.map(branches, branches.map(b, b.of.filter(key, !(key in [{}])).map(key, b.at + '.' + key + \
         ': is not a field of a filter: remove it; possible here: {}').join('; ')).filter(text, text != '').join('; '))\n\
         .filter(text, text != '').join('; ')",
        names.join(", "),
        all.join(", "),
    )
}

/// Members of another type than theirs.
fn types() -> String {
    let checks: Vec<String> = FIELDS
        .iter()
        .map(|(name, kind, words)| {
            format!("'{name}' in b.of && type(b.of.{name}) != {kind} ? b.at + '.{name}: is wrong: write {words}'")
        })
        .collect();
    format!(
        "variables.branches.map(branches, branches.map(b,\n  {}\n  : '').filter(text, text != '').join('; '))\n\
         .filter(text, text != '').join('; ')",
        checks.join("\n  : "),
    )
}

/// Replaces `NAME(argument)`, whose argument has no parentheses.
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
