//! Stages 2 and 7: keeping and dropping by a tree of paths.

use crate::json::{Kind, Member, Node, dedupe, last_of_each};
use crate::program::{Exclude, Index, Name, Trie};

/// Where a walk is in the tree of paths.
#[derive(Clone, Copy)]
pub(super) enum View<'t> {
    /// At the node itself.
    Full(&'t Trie),
    /// Within an array that names map over: its names apply to each element, its indices and `*` are spent.
    Mapped(&'t Trie),
}

impl<'t> View<'t> {
    pub(super) fn end(self) -> Option<usize> {
        match self {
            Self::Full(trie) => trie.end,
            Self::Mapped(_) => None,
        }
    }

    /// The views of member `matches` says the name of.
    pub(super) fn member(self, matches: impl Fn(&str) -> bool, out: &mut Vec<View<'t>>) {
        let (trie, mapped) = match self {
            Self::Full(trie) => (trie, false),
            Self::Mapped(trie) => (trie, true),
        };
        let names = trie.names.iter().filter(|(name, _)| !(mapped && matches!(name.index, Index::At(_))));
        out.extend(names.filter(|(name, _)| matches(&name.text)).map(|(_, below)| Self::Full(below)));
        if !mapped {
            out.extend(trie.any.as_deref().map(Self::Full));
        }
    }

    /// The views of element `index`.
    pub(super) fn element(self, index: usize, out: &mut Vec<View<'t>>) {
        match self {
            Self::Full(trie) => {
                out.extend(trie.at(index).map(Self::Full));
                out.extend(trie.any.as_deref().map(Self::Full));
                if trie.maps() {
                    out.push(Self::Mapped(trie));
                }
            }
            Self::Mapped(_) => out.push(self),
        }
    }

    /// Whether every element of an array is meant, not single ones.
    pub(super) fn every_element(self) -> bool {
        match self {
            Self::Full(trie) => trie.any.is_some() || trie.maps(),
            Self::Mapped(_) => true,
        }
    }
}

pub(super) fn members<'t>(views: &[View<'t>], member: &Member<'_>) -> Vec<View<'t>> {
    let mut out = Vec::new();
    for view in views {
        view.member(|name| member.key.is(name), &mut out);
    }
    out
}

fn elements<'t>(views: &[View<'t>], index: usize) -> Vec<View<'t>> {
    let mut out = Vec::new();
    for view in views {
        view.element(index, &mut out);
    }
    out
}

/// What stays beside what the paths lead to.
#[derive(Clone, Copy)]
pub(super) enum Stays<'b> {
    /// As `filters.md` says of `Advisory`: elements that names or `*` map to, by what they are.
    Advisory,
    /// Every element that a path leads to, and what is on the way to the payload: neither how many elements there
    /// are nor what can be done with them may depend on what is removed.
    Enforced {
        /// The way to the payload from here; none beside it.
        way: Option<&'b [Name]>,
        /// `select` is to come, which takes out of the payload's items those that are no objects.
        selects: bool,
    },
}

impl<'b> Stays<'b> {
    /// The same for what `goes` there from here.
    fn below(self, goes: impl Fn(&Name) -> bool) -> Self {
        match self {
            Self::Enforced { way, selects } => {
                let way = way.and_then(<[Name]>::split_first).filter(|(name, _)| goes(name)).map(|(_, rest)| rest);
                Self::Enforced { way, selects }
            }
            Self::Advisory => Self::Advisory,
        }
    }

    fn on_the_way(self) -> bool {
        matches!(self, Self::Enforced { way: Some(_), .. })
    }

    /// What stays of an element of which nothing is kept; `every` element of the list is meant. This is said of the
    /// list, and `below` of the element.
    fn element(self, every: bool, below: Self, kind: Kind) -> Option<Node<'static>> {
        match self {
            _ if below.on_the_way() => Some(place_of(kind)),
            Self::Enforced { way: Some([]), selects: true } => Some(nothing_of(kind)),
            Self::Enforced { .. } => Some(Node::Object(Vec::new())),
            Self::Advisory => every.then(|| nothing_of(kind)),
        }
    }
}

/// Keeps of `document` what the paths in `trie` lead to, and what `stays`. `found` learns which paths resolve.
pub(super) fn retain<'a>(document: Node<'a>, trie: &Trie, stays: Stays<'_>, found: &mut [bool]) -> Node<'a> {
    let root = [View::Full(trie)];
    mark(&document, &root, found);
    let kind = document.kind();
    narrow(document, &root, stays).unwrap_or_else(|| nothing_of(kind))
}

/// What stays of a value of which nothing is kept.
fn nothing_of(kind: Kind) -> Node<'static> {
    match kind {
        Kind::Object => Node::Object(Vec::new()),
        Kind::Array => Node::Array(Vec::new()),
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => Node::NULL,
    }
}

/// The same on the way to the payload, where it is seen whether there is a list and nothing else.
fn place_of(kind: Kind) -> Node<'static> {
    if kind == Kind::Array { Node::Array(Vec::new()) } else { Node::Object(Vec::new()) }
}

/// `None` where no path resolves.
fn narrow<'a>(node: Node<'a>, views: &[View<'_>], stays: Stays<'_>) -> Option<Node<'a>> {
    if views.iter().any(|view| view.end().is_some()) {
        return Some(node);
    }
    match node {
        Node::Object(mut all) => {
            dedupe(&mut all);
            let kept: Vec<_> = all
                .into_iter()
                .filter_map(|member| {
                    let views = members(views, &member);
                    if views.is_empty() {
                        return None;
                    }
                    let Member { key, value } = member;
                    let below = stays.below(|name| key.is(&name.text));
                    let kind = value.kind();
                    let value = narrow(value, &views, below);
                    value.or_else(|| below.on_the_way().then(|| place_of(kind))).map(|value| Member { key, value })
                })
                .collect();
            (!kept.is_empty()).then_some(Node::Object(kept))
        }
        Node::Array(all) => {
            let every = views.iter().any(|view| view.every_element());
            let kept: Vec<_> = all
                .into_iter()
                .enumerate()
                .filter_map(|(i, element)| {
                    let views = elements(views, i);
                    if views.is_empty() {
                        return None;
                    }
                    let below = stays.below(|name| name.index == Index::At(i));
                    let kind = element.kind();
                    narrow(element, &views, below).or_else(|| stays.element(every, below, kind))
                })
                .collect();
            (every || !kept.is_empty()).then_some(Node::Array(kept))
        }
        Node::Scalar(_) | Node::String(_) => None,
    }
}

/// Notes which paths resolve. Paths that map over an empty array miss nothing.
fn mark(node: &Node<'_>, views: &[View<'_>], found: &mut [bool]) {
    for id in views.iter().filter_map(|view| view.end()) {
        if let Some(found) = found.get_mut(id) {
            *found = true;
        }
    }
    match node {
        Node::Object(all) => {
            for member in last_of_each(all) {
                let below = members(views, member);
                if !below.is_empty() {
                    mark(&member.value, &below, found);
                }
            }
        }
        Node::Array(all) if all.is_empty() => {
            for view in views.iter().filter(|view| view.every_element()) {
                mark_all(*view, found);
            }
        }
        Node::Array(all) => {
            for (i, element) in all.iter().enumerate() {
                let below = elements(views, i);
                if !below.is_empty() {
                    mark(element, &below, found);
                }
            }
        }
        Node::Scalar(_) | Node::String(_) => {}
    }
}

fn mark_all(view: View<'_>, found: &mut [bool]) {
    let (View::Full(trie) | View::Mapped(trie)) = view;
    if let Some(found) = trie.end.and_then(|id| found.get_mut(id)) {
        *found = true;
    }
    for (name, below) in &trie.names {
        // An index of an empty array stays unresolved.
        if !matches!(name.index, Index::At(_)) {
            mark_below(below, found);
        }
    }
    if let Some(any) = &trie.any {
        mark_below(any, found);
    }
}

fn mark_below(trie: &Trie, found: &mut [bool]) {
    if let Some(found) = trie.end.and_then(|id| found.get_mut(id)) {
        *found = true;
    }
    trie.names.iter().map(|(_, below)| below).chain(trie.any.as_deref()).for_each(|below| mark_below(below, found));
}

/// Whether one of the entries finds something to drop.
pub(super) fn resolves(node: &Node<'_>, trie: &Trie, ids: &mut [bool]) {
    mark(node, &[View::Full(trie)], ids);
}

/// Drops from one item what `exclude` names.
pub(super) fn exclude(item: &mut Node<'_>, exclude: &Exclude) {
    if !exclude.names.is_empty() {
        drop_names(item, &exclude.names);
    }
    if !exclude.deep.names.is_empty() || exclude.deep.any.is_some() {
        drop_paths(item, &[View::Full(&exclude.deep)]);
    }
}

/// In an item that is a list, the names are those of its elements.
fn drop_names(item: &mut Node<'_>, names: &[Box<str>]) {
    match item {
        Node::Object(all) => {
            dedupe(all);
            all.retain(|member| !names.iter().any(|name| member.key.is(name)));
        }
        Node::Array(all) => all.iter_mut().for_each(|element| drop_names(element, names)),
        Node::Scalar(_) | Node::String(_) => {}
    }
}

fn drop_paths(node: &mut Node<'_>, views: &[View<'_>]) {
    let goes = |below: &[View<'_>]| below.iter().any(|view| view.end().is_some());
    match node {
        Node::Object(all) => {
            dedupe(all);
            all.retain_mut(|member| {
                let below = members(views, member);
                let stays = !goes(&below);
                if stays && !below.is_empty() {
                    drop_paths(&mut member.value, &below);
                }
                stays
            });
        }
        Node::Array(all) => {
            let mut index = 0;
            all.retain_mut(|element| {
                let below = elements(views, index);
                index += 1;
                let stays = !goes(&below);
                if stays && !below.is_empty() {
                    drop_paths(element, &below);
                }
                stays
            });
        }
        Node::Scalar(_) | Node::String(_) => {}
    }
}
