//! What is wrong with files, before anything in them has a meaning.

use super::{Case, json, yaml};

pub(super) const FILES: &[Case] = &[
    Case { title: "Not UTF-8", file: "a.yaml", input: b"kind: Exposition\nname: caf\xe9\n" },
    Case { title: "UTF-16", file: "a.yaml", input: b"\xff\xfek\0i\0n\0d\0" },
    yaml("A NUL, behind which everything would be lost", "kind: Exposition\n\0access: {}\n"),
    yaml("No mapping", "just text\n"),
];

pub(super) const YAML: &[Case] = &[
    yaml(
        "A tab in the indentation (shown as an arrow)",
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nspec:\n\tservice: {}\n",
    ),
    yaml("A tab behind a byte order mark and CRLF", "\u{feff}kind: Exposition\r\nspec:\r\n\tservice: {}\r\n"),
    yaml("A tab behind a colon (shown as an arrow)", "kind:\tExposition\nreplicas:\t1\n"),
    yaml("A bracket that is not closed", "kind: Exposition\nspec: {service: {name: a\n"),
    yaml("A quote that is not closed", "kind: \"Exposition\nspec: {}\n"),
    yaml("Wrong indentation", "kind: Exposition\n  spec: {}\n"),
    yaml("A colon in plain text", "description: Issues: all of them\n"),
    yaml("A key that occurs twice", "kind: Exposition\nspec: {}\nkind: Exposition\n"),
    yaml("A key that is a list", "? [a, b]\n: c\n"),
    yaml("A key that is empty", "~: a\n"),
    yaml("An alias of nothing", "a: *nothing\n"),
    yaml("An alias of itself", "a: &a [*a]\n"),
    yaml("An alias of another document", "a: &a 1\n---\nb: *a\n"),
    yaml(
        "A billion laughs",
        "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n\
         c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n\
         e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n\
         g: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n",
    ),
    yaml("A merge of something that is no mapping", "a: &a [1]\nb:\n  <<: *a\n"),
    yaml("A tag", "version: !!binary aGVsbG8=\n"),
    yaml("A tag of somebody's own", "service: !Ref github\n"),
    yaml("A tag that does not fit", "port: !!int eighty\n"),
];

pub(super) const JSON: &[Case] = &[
    json("A comma too many", "{\"kind\": \"Exposition\",}\n"),
    json("A comma that is missing", "{\"kind\": \"Exposition\"\n \"spec\": {}}\n"),
    json("A key that occurs twice", "{\"kind\": \"Exposition\",\n \"kind\": \"Exposition\"}\n"),
    json("Text without quotes", "{\"kind\": Exposition}\n"),
    json("Text that does not end", "{\"kind\": \"Exposition}\n"),
    json("A comment", "{\"kind\": \"Exposition\"} // the first\n"),
    json("A number that JSON does not have", "{\"kind\": 01}\n"),
    json("A file that ends too early", "{\"kind\": \"Exposition\", \"spec\": {\n"),
];
