//! What is wrong with files, before anything in them has a meaning.

use super::{Case, json, yaml};

pub(super) const FILES: &[Case] = &[
    Case { title: "Not UTF-8", file: "a.yaml", input: b"kind: Exposition\nname: caf\xe9\n", beside: None },
    Case { title: "UTF-16", file: "a.yaml", input: b"\xff\xfek\0i\0n\0d\0", beside: None },
    yaml("A NUL, which would hide everything after it", "kind: Exposition\n\0access: {}\n"),
    yaml("Not a mapping", "just text\n"),
];

pub(super) const YAML: &[Case] = &[
    yaml(
        "A tab in the indentation (shown as an arrow)",
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nspec:\n\tservice: {}\n",
    ),
    yaml("A tab after a byte order mark and CRLF", "\u{feff}kind: Exposition\r\nspec:\r\n\tservice: {}\r\n"),
    yaml("A tab after a colon (shown as an arrow)", "kind:\tExposition\nreplicas:\t1\n"),
    yaml("An unclosed bracket", "kind: Exposition\nspec: {service: {name: a\n"),
    yaml("An unclosed quote", "kind: \"Exposition\nspec: {}\n"),
    yaml("Wrong indentation", "kind: Exposition\n  spec: {}\n"),
    yaml("A colon in plain text", "description: Issues: all of them\n"),
    yaml("A duplicate key", "kind: Exposition\nspec: {}\nkind: Exposition\n"),
    yaml("A key that is a list", "? [a, b]\n: c\n"),
    yaml("An empty key", "~: a\n"),
    yaml("An alias without an anchor", "a: *nothing\n"),
    yaml("An alias of itself", "a: &a [*a]\n"),
    yaml("An alias of an anchor in another document", "a: &a 1\n---\nb: *a\n"),
    yaml(
        "A billion laughs",
        "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n\
         c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n\
         e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n\
         g: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n",
    ),
    yaml("A merge of a value that is not a mapping", "a: &a [1]\nb:\n  <<: *a\n"),
    yaml("A tag", "version: !!binary aGVsbG8=\n"),
    yaml("An unknown tag", "service: !Ref github\n"),
    yaml("A tag that does not match its value", "port: !!int eighty\n"),
];

pub(super) const JSON: &[Case] = &[
    json("An extra comma", "{\"kind\": \"Exposition\",}\n"),
    json("A missing comma", "{\"kind\": \"Exposition\"\n \"spec\": {}}\n"),
    json("A duplicate key", "{\"kind\": \"Exposition\",\n \"kind\": \"Exposition\"}\n"),
    json("Text without quotes", "{\"kind\": Exposition}\n"),
    json("An unclosed string", "{\"kind\": \"Exposition}\n"),
    json("A comment", "{\"kind\": \"Exposition\"} // the first\n"),
    json("A number that JSON does not have", "{\"kind\": 01}\n"),
    json("A truncated file", "{\"kind\": \"Exposition\", \"spec\": {\n"),
];
