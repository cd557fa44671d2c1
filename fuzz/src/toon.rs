//! What the engine writes as TOON is read by the official decoder as the same document, and a table is JSON with as
//! many rows as there were items. The first byte picks the options.

use serde_json::{Number, Value};
use tamis_engine::{CompactJson, Delimiter, ToonOptions, Unrepresentable, json};
use toon_format::{DecodeOptions, Indent};

pub(crate) fn run(data: &[u8]) {
    let Some((options, document)) = data.split_first() else { return };
    let Ok(node) = json::parse(document, 128) else { return };
    let json = CompactJson::of(&node);
    let indent = usize::from(options % 4) + 1;
    let delimiter = [Delimiter::Comma, Delimiter::Tab, Delimiter::Pipe][usize::from(options / 4 % 3)];
    let options = ToonOptions { indent, delimiter };
    let (exact, filled) = (json.toon(&options, false), json.toon(&options, true));
    // serde_json accepts less: no lone surrogates, no numbers beyond f64, and it counts the depth differently.
    let read = serde_json::from_str::<Value>(json.as_str());
    match (&exact, &filled) {
        (Ok(exact), Ok(filled)) => {
            let most = json.as_str().len() * 4 + (64 << 10);
            assert!(exact.len() <= most && filled.len() <= most);
            if let Ok(read) = &read {
                let options = DecodeOptions { strict: true, indent: Indent::Spaces(indent) };
                let decoded: Value = toon_format::decode(exact, &options).expect("TOON");
                assert!(same(read, &decoded), "{}\n{exact}", json.as_str());
                toon_format::decode::<Value>(filled, &options).expect("TOON");
            }
        }
        (Err(Unrepresentable::LoneSurrogate), Err(Unrepresentable::LoneSurrogate)) => assert!(read.is_err()),
        // A filled table can be smaller than the lines of the same items.
        (Ok(_) | Err(Unrepresentable::TooLarge), Ok(_) | Err(Unrepresentable::TooLarge)) => {}
        other => panic!("{other:?}"),
    }
    for fill in [false, true] {
        let Some(table) = json.table(fill) else { continue };
        assert!(json::parse(table.as_bytes(), 130).is_ok(), "{table}");
        if let (Ok(Value::Array(items)), Ok(table)) = (&read, serde_json::from_str::<Value>(&table)) {
            let rows = table["rows"].as_array().expect("rows");
            let columns = table["columns"].as_array().expect("columns");
            assert!(rows.len() == items.len() && rows.iter().all(|row| row.as_array().unwrap().len() == columns.len()));
        }
    }
}

/// Returns whether two documents are equal, where the decoder makes doubles of fractions and strings of large integers.
fn same(read: &Value, decoded: &Value) -> bool {
    let number = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
    match (read, decoded) {
        (Value::Number(read), Value::Number(decoded)) => read == decoded || number(read) == number(decoded),
        (Value::Number(read), Value::String(decoded)) => decoded.parse() == Ok(number(read)),
        (Value::Array(read), Value::Array(decoded)) => {
            read.len() == decoded.len() && read.iter().zip(decoded).all(|(read, decoded)| same(read, decoded))
        }
        (Value::Object(read), Value::Object(decoded)) => {
            let member = |(key, read): (&String, &Value)| decoded.get(key).is_some_and(|decoded| same(read, decoded));
            read.len() == decoded.len() && read.iter().all(member)
        }
        (read, decoded) => read == decoded,
    }
}
