//! Compares an object with its desired state. Pure.
//!
//! Only the fields of the desired state are compared: fields that others add are ignored. A list that the API merges by
//! a key (containers, ports, ..) is compared element by element and may have more elements. Any other list is one
//! value, so that a rule added to a Role by hand is a difference.

use serde_json::{Map, Value};

/// Returns whether `actual` has all fields of `desired`, with the same values.
pub(super) fn covers(desired: &Value, actual: &Value) -> bool {
    field("", desired, Some(actual))
}

fn field(name: &str, desired: &Value, actual: Option<&Value>) -> bool {
    match (desired, actual) {
        // The API leaves out empty values.
        (desired, None) => is_empty(desired),
        (Value::Object(desired), Some(Value::Object(actual))) => {
            let quantities = matches!(name, "requests" | "limits");
            desired.iter().all(|(key, value)| {
                let name = if quantities { "quantity" } else { key };
                field(name, value, actual.get(key))
            })
        }
        (Value::Array(desired), Some(Value::Array(actual))) => match merge_key(name) {
            Some(key) => {
                let find = |wanted: &Value| actual.iter().find(|there| there.get(key) == wanted.get(key));
                desired.iter().all(|wanted| field("", wanted, find(wanted)))
            }
            None => desired == actual,
        },
        (Value::String(desired), Some(Value::String(actual))) => {
            desired == actual || is_quantity(name) && same_quantity(desired, actual)
        }
        (desired, Some(actual)) => desired == actual,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Returns the key by which the API merges the elements of a list.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers" | "env" | "volumes" | "imagePullSecrets" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "ports" => Some("name"),
        "ownerReferences" => Some("uid"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

fn is_quantity(name: &str) -> bool {
    matches!(name, "quantity" | "sizeLimit")
}

fn same_quantity(a: &str, b: &str) -> bool {
    quantity(a).is_some_and(|a| quantity(b) == Some(a))
}

/// Parses a quantity. Returns it in billionths, or `None` if it is invalid. The API writes `1000m` as `1`.
pub(super) fn quantity(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || whole.len() > 18 || fraction.len() > 9 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let places = u32::try_from(fraction.len()).ok()?;
    let value = digits(whole)? * 1_000_000_000 + digits(fraction)? * 10_i128.pow(9 - places);
    let exponent = |power: i32| match u32::try_from(power) {
        Ok(power) => value.checked_mul(10_i128.checked_pow(power)?),
        Err(_) => value.checked_div(10_i128.checked_pow(power.unsigned_abs())?),
    };
    let binary = |power: u32| value.checked_mul(1_i128 << (10 * power));
    match suffix {
        "" => Some(value),
        "n" => exponent(-9),
        "u" => exponent(-6),
        "m" => exponent(-3),
        "k" => exponent(3),
        "M" => exponent(6),
        "G" => exponent(9),
        "T" => exponent(12),
        "P" => exponent(15),
        "E" => exponent(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => exponent(suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|power| (-9..=18).contains(power))?),
    }
}

/// Returns the value at a path of keys.
pub(super) fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Returns whether a set of fields in the format of `managedFields` contains the field at a path.
pub(super) fn owns(fields: &Value, path: &[&str]) -> bool {
    let step = |value: Option<&'_ Map<String, Value>>, key: &str| {
        value.and_then(|map| map.get(&format!("f:{key}"))).and_then(Value::as_object).cloned()
    };
    let mut here = fields.as_object().cloned();
    for key in path {
        here = step(here.as_ref(), key);
    }
    here.is_some()
}
