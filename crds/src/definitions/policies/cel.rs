//! CEL loops with linear cost.
//!
//! The API server's interpreter keeps the values of a loop on a stack until the loop ends, and searches that stack at
//! nearly every step to compute the cost of an expression. A loop over n entries thus takes n² searches. Two nested
//! loops of 16 do the same work on a stack of 32 entries. Lists and maps of more than 256 entries are not visited
//! here: the operator checks those objects anyway.

use serde_json::{Value as Json, json};

/// The number of entries of a list or map that are visited.
pub(super) const MAX_VISITED: usize = SIDE * SIDE;
const SIDE: usize = 16;

/// Returns the variable that a policy with such loops begins with: the numbers of one loop.
pub(super) fn side() -> Json {
    let numbers = (0..SIDE).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    json!({ "name": "side", "expression": format!("[{numbers}]") })
}

/// Returns an expression that is true if `body` holds for every entry `x` of `list`. `id` makes the names of variables
/// unique.
pub(super) fn all(list: &str, x: &str, id: &str, body: &str) -> String {
    let (side, index) = ("variables.side", format!("a_{id} * {SIDE} + b_{id}"));
    format!(
        "(size({list}) > {MAX_VISITED} || {side}.all(a_{id}, a_{id} * {SIDE} >= size({list}) || {side}.all(b_{id}, {index} >= size({list}) \
         || [{list}[{index}]].all({x}, {body}))))"
    )
}

/// Returns an expression that is true if `body` holds for every value `x` of a map.
pub(super) fn all_values(map: &str, x: &str, id: &str, body: &str) -> String {
    let keys = format!("l_{id}");
    let inner = all(&keys, &format!("k_{id}"), id, &format!("[{map}[k_{id}]].all({x}, {body})"));
    format!("(size({map}) > {MAX_VISITED} || [{map}.map(k_{id}, k_{id})].all({keys}, {inner}))")
}

/// Returns an expression for the indices of entries for which `body` does not hold, within the first block of 16 entries
/// that has one.
pub(super) fn wrong(list: &str, x: &str, id: &str, body: &str) -> String {
    let (side, index) = ("variables.side", format!("a_{id} * {SIDE} + b_{id}"));
    format!(
        "[size({list}) > {MAX_VISITED} ? [] : {side}.map(a_{id}, a_{id} * {SIDE} >= size({list}) ? [] \
         : {side}.filter(b_{id}, {index} < size({list}) && ![{list}[{index}]].all({x}, {body})).map(b_{id}, {index}))\
         .filter(c_{id}, size(c_{id}) > 0)].map(c_{id}, size(c_{id}) == 0 ? [] : c_{id}[0])[0]"
    )
}

/// Returns an expression for the keys of values for which `body` does not hold, as [`wrong`] finds them.
pub(super) fn wrong_values(map: &str, x: &str, id: &str, body: &str) -> String {
    let keys = format!("l_{id}");
    let found = wrong(&keys, &format!("k_{id}"), id, &format!("[{map}[k_{id}]].all({x}, {body})"));
    format!("[{map}.map(k_{id}, k_{id})].map({keys}, {found}.map(j_{id}, {keys}[j_{id}]))[0]")
}

/// Replaces each constant map of names in expressions by a variable. A literal is built, and its cost counted, every
/// time it is evaluated; a variable is built once. Returns the variables.
pub(super) fn hoist(expressions: &mut [String]) -> Vec<Json> {
    let mut sets: Vec<String> = Vec::new();
    for expression in expressions.iter_mut() {
        let mut out = String::new();
        let mut rest = expression.as_str();
        while let Some((before, after)) = rest.split_once("{'") {
            out.push_str(before);
            let (inside, after) = after.split_once('}').unwrap_or((after, ""));
            let set = format!("{{'{inside}}}");
            let index = sets.iter().position(|known| *known == set).unwrap_or_else(|| {
                sets.push(set);
                sets.len() - 1
            });
            out.push_str(&format!("variables.names{index}"));
            rest = after;
        }
        out.push_str(rest);
        *expression = out;
    }
    let variable = |(index, set): (usize, &String)| json!({ "name": format!("names{index}"), "expression": set });
    sets.iter().enumerate().map(variable).collect()
}
