//! Stages 2 and 7: keeps or drops what a tree of paths names.

use std::borrow::Cow;
use std::ptr;

use crate::json::{Key, Kind, Member, Node, dedupe, last_of_each};
use crate::program::{Exclude, Index, Name, Trie};
use crate::work::Work;

/// A position of a walk in the tree of paths. A value of the document has one view for each path that may lead
/// through it.
#[derive(Clone, Copy)]
pub(super) enum View<'t> {
    /// At the node itself.
    Full(&'t Trie),
    /// In an element of an array that names map over: its names apply to each element, its indices and `*` do not.
    Mapped(&'t Trie),
    /// Below a `**`: the rest of its path may begin at any place from here on.
    Deep(&'t Trie),
}

/// The name of a member, in a document or in a path.
pub(super) trait MemberName {
    /// Returns the name in WTF-8.
    fn plain(&self) -> Cow<'_, [u8]>;
    /// Returns the name as text, for patterns.
    fn text(&self) -> Cow<'_, str>;
}

impl MemberName for Key<'_> {
    fn plain(&self) -> Cow<'_, [u8]> {
        Key::plain(self)
    }

    fn text(&self) -> Cow<'_, str> {
        self.decoded()
    }
}

impl MemberName for str {
    fn plain(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }

    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl<'t> View<'t> {
    pub(super) fn end(self) -> Option<usize> {
        match self {
            Self::Full(trie) => trie.end,
            Self::Mapped(_) | Self::Deep(_) => None,
        }
    }

    fn member(self, key: &(impl MemberName + ?Sized), out: &mut Vec<View<'t>>) {
        let (trie, mapped) = match self {
            Self::Full(trie) => (trie, false),
            Self::Mapped(trie) => (trie, true),
            Self::Deep(trie) => {
                out.push(self);
                return enter(trie, out);
            }
        };
        if !trie.names.is_empty() {
            let name = key.plain();
            let named = trie.named(&name);
            let named = named.filter(|(name, _)| !(mapped && matches!(name.index, Index::At(_))));
            named.for_each(|(_, below)| enter(below, out));
        }
        if !trie.globs.is_empty() {
            let text = key.text();
            trie.globs.iter().filter(|(glob, _)| glob.matches(&text)).for_each(|(_, below)| enter(below, out));
        }
        if let (Some(any), false) = (&trie.any, mapped) {
            enter(any, out);
        }
    }

    fn element(self, index: usize, out: &mut Vec<View<'t>>) {
        match self {
            Self::Full(trie) => {
                trie.at(index).into_iter().chain(trie.any.as_deref()).for_each(|below| enter(below, out));
                if trie.maps() {
                    out.push(Self::Mapped(trie));
                }
            }
            Self::Mapped(_) => out.push(self),
            Self::Deep(trie) => {
                out.push(self);
                enter(trie, out);
            }
        }
    }

    /// Returns the steps to follow the view to a member: each pattern is compared.
    fn steps(self) -> usize {
        let (Self::Full(trie) | Self::Mapped(trie) | Self::Deep(trie)) = self;
        1 + trie.globs.len()
    }

    /// Returns whether the view covers every element of an array, not single ones.
    pub(super) fn every_element(self) -> bool {
        match self {
            Self::Full(trie) => trie.any.is_some() || trie.maps(),
            Self::Mapped(_) | Self::Deep(_) => true,
        }
    }

    fn id(self) -> (usize, u8) {
        let (trie, kind) = match self {
            Self::Full(trie) => (trie, 0),
            Self::Mapped(trie) => (trie, 1),
            Self::Deep(trie) => (trie, 2),
        };
        (ptr::from_ref(trie).addr(), kind)
    }
}

/// Adds the view of a value at which `trie` begins, and the views that a `**` there adds.
fn enter<'t>(trie: &'t Trie, out: &mut Vec<View<'t>>) {
    out.push(View::Full(trie));
    if let Some(deep) = &trie.deep {
        out.push(View::Deep(deep));
        enter(deep, out);
    }
}

/// Removes duplicate views. Below a `**` a view can be reached in several ways; following it once keeps the number of
/// views within the number of nodes of the tree.
fn distinct(mut views: Vec<View<'_>>) -> Vec<View<'_>> {
    if views.iter().any(|view| matches!(view, View::Deep(_))) {
        views.sort_unstable_by_key(|view| view.id());
        views.dedup_by_key(|view| view.id());
    }
    views
}

/// Returns the views of the value at which the paths begin.
pub(super) fn start(trie: &Trie) -> Vec<View<'_>> {
    let mut out = Vec::new();
    enter(trie, &mut out);
    out
}

/// Returns the views of a member. Empty where the stage must end, so that a walk goes no deeper.
pub(super) fn member<'t>(views: &[View<'t>], key: &(impl MemberName + ?Sized), work: &Work<'_>) -> Vec<View<'t>> {
    let mut out = Vec::new();
    for view in views {
        if !work.spend(view.steps()) {
            return Vec::new();
        }
        view.member(key, &mut out);
    }
    distinct(out)
}

/// Returns the views of element `index` of an array.
fn element<'t>(views: &[View<'t>], index: usize, work: &Work<'_>) -> Vec<View<'t>> {
    let mut out = Vec::new();
    if work.spend(views.len()) {
        views.iter().for_each(|view| view.element(index, &mut out));
    }
    distinct(out)
}

/// Returns the views of any element of an array: after stages that remove elements, indices no longer identify them.
pub(super) fn any_element<'t>(views: &[View<'t>], work: &Work<'_>) -> Vec<View<'t>> {
    let mut out = Vec::new();
    for view in views {
        let names = if let View::Full(trie) = view { trie.names.len() } else { 0 };
        if !work.spend(1 + names) {
            break;
        }
        view.element(usize::MAX, &mut out);
        if let View::Full(trie) = view {
            let single = trie.names.iter().filter(|(name, _)| matches!(name.index, Index::At(_)));
            single.for_each(|(_, below)| enter(below, &mut out));
        }
    }
    distinct(out)
}

/// What `retain` leaves besides what its paths lead to, and besides the elements on the way there.
#[derive(Clone, Copy, Default)]
pub(super) struct Stays<'b> {
    /// The rest of the path to the payload, under `Enforced`. A value on it stays, since neither its presence nor its
    /// kind may depend on data that is removed.
    pub(super) way: Option<&'b [Name]>,
    /// Whether `select` follows under `Enforced`: a list among the items of the payload then stays a list.
    pub(super) selects: bool,
    /// Whether a scalar stays where a path continues.
    pub(super) scalars: bool,
}

impl Stays<'_> {
    /// Returns what stays below a member or element. The path to the payload continues there if `goes` accepts its
    /// name.
    fn below(self, goes: impl Fn(&Name) -> bool) -> Self {
        let way = self.way.and_then(<[Name]>::split_first).filter(|(name, _)| goes(name)).map(|(_, rest)| rest);
        Self { way, ..self }
    }

    /// Returns the replacement for an element of this list in which nothing is kept; `below` belongs to the element.
    fn element(self, below: Self, kind: Kind) -> Node<'static> {
        let listed = below.way.is_some() || (self.selects && self.way.is_some_and(<[Name]>::is_empty));
        if listed { placeholder(kind) } else { Node::Object(Vec::new()) }
    }
}

/// Keeps what the paths in `trie` lead to, and what `stays`. Records in `found` which paths resolve.
pub(super) fn retain<'a>(
    document: Node<'a>,
    trie: &Trie,
    stays: Stays<'_>,
    found: &mut [bool],
    work: &Work<'_>,
) -> Node<'a> {
    let root = start(trie);
    mark(&document, &root, found, work);
    let kind = document.kind();
    narrow(document, &root, stays, work).unwrap_or_else(|| match kind {
        Kind::Object => Node::Object(Vec::new()),
        Kind::Array => Node::Array(Vec::new()),
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => Node::NULL,
    })
}

/// Keeps what the paths in `trie` lead to in an object. With `scalars`, a scalar stays where a path continues.
pub(crate) fn narrowed<'a>(object: Node<'a>, trie: &Trie, scalars: bool, work: &Work<'_>) -> Node<'a> {
    let stays = Stays { scalars, ..Stays::default() };
    narrow(object, &start(trie), stays, work).unwrap_or(Node::Object(Vec::new()))
}

/// Returns the replacement for a value in which nothing is kept. It shows at most that the value was a list.
fn placeholder(kind: Kind) -> Node<'static> {
    if kind == Kind::Array { Node::Array(Vec::new()) } else { Node::Object(Vec::new()) }
}

/// Returns what is left of a value; `None` if no path resolves in it.
fn narrow<'a>(node: Node<'a>, views: &[View<'_>], stays: Stays<'_>, work: &Work<'_>) -> Option<Node<'a>> {
    if views.iter().any(|view| view.end().is_some()) {
        return Some(node);
    }
    match node {
        Node::Object(mut all) => {
            dedupe(&mut all, work);
            let kept: Vec<_> = all
                .into_iter()
                .filter_map(|member| {
                    let views = self::member(views, &member.key, work);
                    if views.is_empty() {
                        return None;
                    }
                    let Member { key, value } = member;
                    let below = stays.below(|name| key.is(&name.text));
                    let kind = value.kind();
                    let value = narrow(value, &views, below, work);
                    value.or_else(|| below.way.map(|_| placeholder(kind))).map(|value| Member { key, value })
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
                    let views = self::element(views, i, work);
                    if views.is_empty() {
                        return None;
                    }
                    let below = stays.below(|name| name.index == Index::At(i));
                    let kind = element.kind();
                    Some(narrow(element, &views, below, work).unwrap_or_else(|| stays.element(below, kind)))
                })
                .collect();
            (every || !kept.is_empty()).then_some(Node::Array(kept))
        }
        Node::Scalar(_) | Node::String(_) => stays.scalars.then_some(node),
    }
}

/// Records which paths resolve. Paths that map over an empty array miss nothing.
fn mark(node: &Node<'_>, views: &[View<'_>], found: &mut [bool], work: &Work<'_>) {
    for id in views.iter().filter_map(|view| view.end()) {
        if let Some(found) = found.get_mut(id) {
            *found = true;
        }
    }
    match node {
        Node::Object(all) => {
            for member in last_of_each(all, work) {
                let below = self::member(views, &member.key, work);
                if !below.is_empty() {
                    mark(&member.value, &below, found, work);
                }
            }
        }
        Node::Array(all) if all.is_empty() => {
            // Of the rest of a `**` path, only what begins at this array counts: it could begin anywhere else as
            // well.
            let below_deep =
                |trie: &Trie| views.iter().any(|view| matches!(view, View::Deep(deep) if ptr::eq(*deep, trie)));
            for view in views.iter().filter(|view| view.every_element()) {
                match view {
                    View::Full(trie) | View::Mapped(trie) if !below_deep(trie) => mark_all(trie, found),
                    View::Full(_) | View::Mapped(_) | View::Deep(_) => {}
                }
            }
        }
        Node::Array(all) => {
            for (i, element) in all.iter().enumerate() {
                let below = self::element(views, i, work);
                if !below.is_empty() {
                    mark(element, &below, found, work);
                }
            }
        }
        Node::Scalar(_) | Node::String(_) => {}
    }
}

fn mark_all(trie: &Trie, found: &mut [bool]) {
    if let Some(found) = trie.end.and_then(|id| found.get_mut(id)) {
        *found = true;
    }
    let Trie { end: _, names, any, globs, deep, .. } = trie;
    // An index into an empty array stays unresolved.
    let names = names.iter().filter(|(name, _)| !matches!(name.index, Index::At(_))).map(|(_, below)| below);
    let globs = globs.iter().map(|(_, below)| below);
    names.chain(globs).chain(any.as_deref()).chain(deep.as_deref()).for_each(|below| mark_below(below, found));
}

fn mark_below(trie: &Trie, found: &mut [bool]) {
    if let Some(found) = trie.end.and_then(|id| found.get_mut(id)) {
        *found = true;
    }
    trie.children().for_each(|below| mark_below(below, found));
}

/// Records which entries of `exclude` find something to drop.
pub(super) fn resolves(node: &Node<'_>, trie: &Trie, found: &mut [bool], work: &Work<'_>) {
    if found.contains(&false) {
        mark(node, &start(trie), found, work);
    }
}

/// Drops what `exclude` names from one item.
pub(super) fn exclude(item: &mut Node<'_>, exclude: &Exclude, work: &Work<'_>) {
    if !exclude.is_empty() {
        drop_paths(item, &start(&exclude.trie), work);
    }
}

fn drop_paths(node: &mut Node<'_>, views: &[View<'_>], work: &Work<'_>) {
    let goes = |below: &[View<'_>]| below.iter().any(|view| view.end().is_some());
    match node {
        Node::Object(all) => {
            dedupe(all, work);
            all.retain_mut(|member| {
                let below = self::member(views, &member.key, work);
                let stays = !goes(&below);
                if stays && !below.is_empty() {
                    drop_paths(&mut member.value, &below, work);
                }
                stays
            });
        }
        Node::Array(all) => {
            let mut index = 0;
            all.retain_mut(|element| {
                let below = self::element(views, index, work);
                index += 1;
                let stays = !goes(&below);
                if stays && !below.is_empty() {
                    drop_paths(element, &below, work);
                }
                stays
            });
        }
        Node::Scalar(_) | Node::String(_) => {}
    }
}
