//! Pairs of documents, made from one tree.

use proptest::prelude::*;

/// A pair of documents that differ only in secrets.
#[derive(Clone)]
pub(super) enum Tree {
    /// The same in both halves, as JSON.
    Leaf(&'static str),
    List(Vec<Tree>),
    Object(Vec<(&'static str, Tree)>),
    /// A value of its own in each half; `None` is absent, and in objects only.
    Secret(Option<String>, Option<String>),
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (left, right) = self.halves();
        write!(f, "{left} / {right}")
    }
}

impl Tree {
    pub(super) fn write(&self, half: bool, out: &mut String) -> bool {
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Secret(left, right) => match if half { left } else { right } {
                Some(text) => out.push_str(text),
                None => return false,
            },
            Self::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(half, out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                let mut first = true;
                for (key, value) in members {
                    let mut member = format!("{}\"{key}\": ", if first { "" } else { ", " });
                    if value.write(half, &mut member) {
                        out.push_str(&member);
                        first = false;
                    }
                }
                out.push('}');
            }
        }
        true
    }

    /// Whether each half has it.
    pub(super) fn is_there(&self) -> (bool, bool) {
        match self {
            Self::Secret(left, right) => (left.is_some(), right.is_some()),
            Self::Leaf(_) | Self::List(_) | Self::Object(_) => (true, true),
        }
    }

    pub(super) fn halves(&self) -> (String, String) {
        let (mut left, mut right) = (String::new(), String::new());
        self.write(true, &mut left);
        self.write(false, &mut right);
        (left, right)
    }
}

pub(super) fn public() -> impl Strategy<Value = Tree> {
    prop::sample::select(vec![
        "1",
        "1.10",
        "\"a\"",
        "\"long enough to be cut\"",
        "\"\"",
        "true",
        "false",
        "null",
        "[]",
        "{}",
    ])
    .prop_map(Tree::Leaf)
}

pub(super) fn secret_value() -> impl Strategy<Value = String> {
    let texts = [
        "null",
        "true",
        "false",
        "0",
        "1e400",
        "\"\"",
        "\"\\ud800\"",
        "[]",
        "{}",
        "[1]",
        "[[{\"n\":1}]]",
        "[{\"s\":1,\"name\":2}]",
        "{\"login\":1,\"n\":[2]}",
        "{\"s\":{\"s\":null}}",
    ];
    prop_oneof![
        4 => prop::sample::select(texts.to_vec()).prop_map(str::to_owned),
        1 => (0..60_usize).prop_map(|n| format!("\"{}\"", "x".repeat(n))),
    ]
}

pub(super) fn secret() -> impl Strategy<Value = Tree> {
    (prop::option::of(secret_value()), prop::option::of(secret_value())).prop_map(|(a, b)| Tree::Secret(a, b))
}

/// Which kinds of differences the filter removes in addition to the secret members.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Removes {
    pub(super) nulls: bool,
    pub(super) empties: bool,
    /// Items from here on.
    pub(super) items: Option<usize>,
    /// Items that are not objects.
    pub(super) others: bool,
    /// The kind of an item in which `retain` keeps nothing, unless it is a list.
    pub(super) kinds: bool,
    /// The same of the member `u`, which is never kept whole.
    pub(super) parts: bool,
    /// A list is made of members of the elements of a list (`tags[*].name`), and elements are never dropped: members
    /// of elements are not.
    pub(super) each: bool,
    /// `replace` writes a value wherever one exists, and that value is not dropped.
    pub(super) replaced: bool,
}

impl Removes {
    /// The same without drops, if `no_drops`.
    pub(super) fn unless(self, no_drops: bool) -> Self {
        if no_drops { Self { nulls: false, empties: false, ..self } } else { self }
    }
}

/// A public member, or one that is dropped in both halves, or dropped in one and absent in the other.
pub(super) fn field(removes: Removes) -> BoxedStrategy<Tree> {
    let mut gone = vec![None];
    if removes.nulls {
        gone.push(Some("null".to_owned()));
    }
    if removes.empties {
        gone.extend(["\"\"", "[]", "{}", "{\"q\":null}"].map(|text| Some(text.to_owned())));
    }
    let gone = prop::sample::select(gone);
    let gone = (gone.clone(), gone).prop_map(|(a, b)| Tree::Secret(a, b));
    if !removes.nulls {
        return prop_oneof![4 => public(), 1 => gone].boxed();
    }
    // Equal once dropped members are gone, and with them the values that they hide.
    let hidden = prop::sample::select(vec![
        "{\"y\":2}",
        "{\"y\":2,\"x\":null}",
        "{\"x\":1,\"y\":2,\"x\":null}",
        "{\"x\":{\"x\":3},\"\\u0078\":null,\"y\":2}",
        "{\"x\":null,\"x\":[1],\"x\":null,\"y\":2}",
    ])
    .prop_map(|text| Some(text.to_owned()));
    let hidden = (hidden.clone(), hidden).prop_map(|(a, b)| Tree::Secret(a, b));
    prop_oneof![4 => public(), 1 => gone, 1 => hidden].boxed()
}

/// Values that are not lists and in which no path keeps anything.
pub(super) fn nothing_kept() -> impl Strategy<Value = Tree> {
    let texts = ["1", "\"s\"", "\"\"", "null", "true", "{}", "{\"s\":1}", "{\"z\":{\"n\":[1]},\"z\":null}"];
    let one = prop::sample::select(texts.to_vec()).prop_map(|text| Some(text.to_owned()));
    (one.clone(), one).prop_map(|(a, b)| Tree::Secret(a, b))
}

/// Secret members around public ones.
pub(super) fn object(members: Vec<(&'static str, BoxedStrategy<Tree>)>) -> BoxedStrategy<Tree> {
    let members: Vec<_> = members
        .into_iter()
        .map(|(key, value)| {
            let shadow = || prop::option::weighted(0.8, secret_value());
            let shadowed = prop::option::weighted(0.15, (shadow(), shadow()));
            (prop::option::weighted(0.8, value), shadowed).prop_map(move |(value, shadowed)| {
                let mut out = Vec::new();
                if let Some(value) = value {
                    // Of duplicates the last counts; the place is that of the first, which is beside it.
                    if let Some((a, b)) = shadowed {
                        let (left, right) = value.is_there();
                        out.push((key, Tree::Secret(a.filter(|_| left), b.filter(|_| right))));
                    }
                    out.push((key, value));
                }
                out
            })
        })
        .collect();
    (members, secret(), secret(), any::<prop::sample::Index>())
        .prop_map(|(members, s, t, at)| {
            let mut members = members.concat();
            // Not between duplicates; that would do no harm, but keeps cases readable.
            let at = if members.is_empty() || at.index(2) == 0 { 0 } else { members.len() };
            members.insert(at, ("s", s));
            members.push(("z", t));
            Tree::Object(members)
        })
        .boxed()
}

/// The member `u`.
pub(super) fn part(user: BoxedStrategy<Tree>, removes: Removes) -> BoxedStrategy<Tree> {
    if removes.parts {
        prop_oneof![5 => user, 1 => field(removes), 1 => nothing_kept()].boxed()
    } else {
        prop_oneof![5 => user, 1 => field(removes)].boxed()
    }
}

pub(super) fn item(removes: Removes) -> BoxedStrategy<Tree> {
    let user = object(vec![("login", field(removes.unless(removes.replaced))), ("mail", field(removes))]);
    let tag = object(vec![("name", field(removes.unless(removes.each)))]);
    object(vec![
        ("n", field(removes.unless(removes.replaced))),
        ("t", field(removes)),
        ("u", part(user.boxed(), removes)),
        ("tags", prop_oneof![5 => prop::collection::vec(tag, 0..3).prop_map(Tree::List), 1 => field(removes)].boxed()),
    ])
}

pub(super) fn items(removes: Removes) -> BoxedStrategy<Tree> {
    let scalar = prop::sample::select(vec!["1", "\"s\"", "null", "true", "[]", "[{\"n\":1}]"]).prop_map(str::to_owned);
    let other = (scalar.clone(), scalar).prop_map(|(a, b)| Tree::Secret(Some(a), Some(b)));
    // Where `retain` narrows, a list within a list stays one.
    let list = prop::sample::select(vec!["[]", "[1,2]", "[{\"n\":1}]", "[[]]"]).prop_map(str::to_owned);
    let list = (list.clone(), list).prop_map(|(a, b)| Tree::Secret(Some(a), Some(b)));
    let element = match removes {
        Removes { others: true, kinds: true, .. } => {
            prop_oneof![10 => item(removes), 1 => nothing_kept(), 1 => list].boxed()
        }
        Removes { others: true, .. } => prop_oneof![5 => item(removes), 1 => other].boxed(),
        Removes { kinds: true, .. } => prop_oneof![5 => item(removes), 1 => nothing_kept()].boxed(),
        _ => item(removes),
    };
    let beyond = (secret_value(), secret_value()).prop_map(|(a, b)| Tree::Secret(Some(a), Some(b)));
    (prop::collection::vec(element, 0..4), prop::collection::vec(beyond, 0..3))
        .prop_map(move |(mut items, beyond)| {
            if let Some(max) = removes.items.filter(|max| items.len() >= *max) {
                items.truncate(max);
                items.extend(beyond);
            }
            Tree::List(items)
        })
        .boxed()
}

/// The document: an object around a list. `inner` is what is removed within the payload, which is `/items` or all.
pub(super) fn document(outer: Removes, inner: Removes) -> BoxedStrategy<Tree> {
    let user = object(vec![("login", field(outer.unless(outer.replaced))), ("mail", field(outer))]);
    object(vec![
        ("kind", prop::sample::select(vec!["1", "2", "\"a\"", "null"]).prop_map(Tree::Leaf).boxed()),
        ("id", field(outer.unless(outer.replaced))),
        ("u", part(user.boxed(), outer)),
        ("items", prop_oneof![8 => items(inner), 1 => public()].boxed()),
        ("total", field(outer)),
    ])
}
