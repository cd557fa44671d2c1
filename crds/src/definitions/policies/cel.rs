//! Loops of CEL whose cost is linear.
//!
//! The API server's interpreter keeps the values of a loop on a stack until the loop ends, and searches that stack at
//! nearly every step, to count what an expression costs. A loop over n entries thus takes n² searches. Two nested loops
//! of 16 do the same work on a stack of 32 entries. Lists and maps of more than 256 entries are not visited here: the
//! operator reads those objects anyway.

use serde_json::{Value as Json, json};

/// Entries of a list or map that are visited.
pub(super) const MOST: usize = SIDE * SIDE;
const SIDE: usize = 16;

/// The variable that a policy with such loops begins with: the numbers of one loop.
pub(super) fn side() -> Json {
    let numbers = (0..SIDE).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    json!({ "name": "side", "expression": format!("[{numbers}]") })
}

/// Whether `body`, in which `x` is an entry, holds for every entry of `list`. `id` keeps names of variables apart.
pub(super) fn all(list: &str, x: &str, id: &str, body: &str) -> String {
    let (side, index) = ("variables.side", format!("a_{id} * {SIDE} + b_{id}"));
    format!(
        "(size({list}) > {MOST} || {side}.all(a_{id}, a_{id} * {SIDE} >= size({list}) || {side}.all(b_{id}, {index} >= size({list}) \
         || [{list}[{index}]].all({x}, {body}))))"
    )
}

/// The same for the values of a map.
pub(super) fn all_values(map: &str, x: &str, id: &str, body: &str) -> String {
    let keys = format!("l_{id}");
    let inner = all(&keys, &format!("k_{id}"), id, &format!("[{map}[k_{id}]].all({x}, {body})"));
    format!("(size({map}) > {MOST} || [{map}.map(k_{id}, k_{id})].all({keys}, {inner}))")
}

/// The indices of entries for which `body` does not hold: those of the first 16 entries that have one.
pub(super) fn wrong(list: &str, x: &str, id: &str, body: &str) -> String {
    let (side, index) = ("variables.side", format!("a_{id} * {SIDE} + b_{id}"));
    format!(
        "[size({list}) > {MOST} ? [] : {side}.map(a_{id}, a_{id} * {SIDE} >= size({list}) ? [] \
         : {side}.filter(b_{id}, {index} < size({list}) && ![{list}[{index}]].all({x}, {body})).map(b_{id}, {index}))\
         .filter(c_{id}, size(c_{id}) > 0)].map(c_{id}, size(c_{id}) == 0 ? [] : c_{id}[0])[0]"
    )
}

/// The keys of values for which `body` does not hold, as [`wrong`] finds them.
pub(super) fn wrong_values(map: &str, x: &str, id: &str, body: &str) -> String {
    let keys = format!("l_{id}");
    let found = wrong(&keys, &format!("k_{id}"), id, &format!("[{map}[k_{id}]].all({x}, {body})"));
    format!("[{map}.map(k_{id}, k_{id})].map({keys}, {found}.map(j_{id}, {keys}[j_{id}]))[0]")
}

/// Replaces each constant map of names in expressions by a variable, which is built once: a literal is built, and counted,
/// each time that it is met. Gives the variables.
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
