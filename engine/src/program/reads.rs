//! Which parts of an output a filter reads.

use std::collections::BTreeMap;

use super::{Branch, Guard, Index, Name, Patch, Plan, Pointer, Program, Root, Step, Trie};
use crate::Enforcement;
use crate::run::METADATA;

/// The parts of an output that a filter reads: a tree of names, as far as they lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reads {
    /// Everything.
    All,
    /// Some members of an object, and parts of the elements of a list. Scalars are read in any case.
    Parts(Parts),
}

/// What is read of an object or a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// By name of a member. In a list, a number names an element, and every other name applies to each element.
    names: BTreeMap<Box<str>, Reads>,
    /// What is read of every member, or of every element.
    each: Option<Box<Reads>>,
}

impl Reads {
    /// Returns what is read of a member of an object; none if the member is not read.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        match self {
            Self::All => Some(Self::All),
            Self::Parts(Parts { names, each }) => {
                let mut read = names.get(name).cloned();
                if let Some(each) = each {
                    read.get_or_insert_with(Self::nothing).add(each);
                }
                read
            }
        }
    }

    /// Returns what is read of an element of a list.
    #[must_use]
    pub fn element(&self) -> Self {
        let Self::Parts(Parts { names, each }) = self else { return Self::All };
        let mut read = Self::nothing();
        for (name, below) in names {
            match Name::new(&**name).index {
                Index::At(_) => read.add(below),
                Index::End => {}
                Index::None => {
                    read.add(&Self::Parts(Parts { names: [(name.clone(), below.clone())].into(), each: None }));
                }
            }
        }
        if let Some(each) = each {
            read.add(each);
        }
        read
    }

    /// Returns whether every member of an object is read, at least in part.
    #[must_use]
    pub fn has_every_member(&self) -> bool {
        matches!(self, Self::All | Self::Parts(Parts { each: Some(_), .. }))
    }

    /// Returns the names of members that are read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::All => None,
            Self::Parts(Parts { names, .. }) => Some(names.keys()),
        };
        names.into_iter().flatten().map(|name| &**name)
    }

    fn nothing() -> Self {
        Self::Parts(Parts::default())
    }

    fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::All, _) => {}
            (_, Self::All) => *self = Self::All,
            (Self::Parts(own), Self::Parts(Parts { names, each })) => {
                for (name, below) in names {
                    own.names.entry(name.clone()).or_insert_with(Self::nothing).add(below);
                }
                if let Some(each) = each {
                    own.each.get_or_insert_with(|| Box::new(Self::nothing())).add(each);
                }
            }
        }
    }

    /// Returns the place below a name.
    fn at(&mut self, name: &str) -> &mut Self {
        match self {
            // Everything below is read too.
            Self::All => self,
            Self::Parts(parts) => parts.names.entry(name.into()).or_insert_with(Self::nothing),
        }
    }

    fn each(&mut self) -> &mut Self {
        match self {
            Self::All => self,
            Self::Parts(parts) => parts.each.get_or_insert_with(|| Box::new(Self::nothing())),
        }
    }

    fn pointer(&mut self, pointer: &Pointer) -> &mut Self {
        pointer.segments.iter().fold(self, |at, name| at.at(&name.text))
    }

    fn trie(&mut self, trie: &Trie) {
        let Trie { end, names, any, globs, deep, .. } = trie;
        if end.is_some() || !globs.is_empty() || deep.is_some() {
            *self = Self::All;
            return;
        }
        for (name, below) in names {
            self.at(&name.text).trie(below);
        }
        if let Some(below) = any {
            self.each().trie(below);
        }
    }

    fn step(&mut self, path: &[Step]) -> &mut Self {
        path.iter().fold(self, |at, step| match step {
            Step::Name(name) => at.at(name),
            Step::Index(_) | Step::Each => at.each(),
        })
    }
}

impl Program {
    /// Returns which parts of an output decide the answer: a server that returns just these parts gets the same answer out of the
    /// filter. Says `All` where it cannot tell.
    ///
    /// This holds for servers that send every member that they are asked for, null if it has no value, as GraphQL servers do, and
    /// for outputs of the declared type (an object, a list of objects, or null). An object must have no member `raw`: it may be
    /// text, and what else it has decides that.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let Plan { enforcement, branches, .. } = &*self.0;
        let mut reads = Reads::nothing();
        let always = branches.iter().any(|branch| matches!(branch.guard, Guard::Always | Guard::Otherwise));
        // What no branch matches passes unfiltered.
        if !always && *enforcement == Enforcement::Advisory {
            return Reads::All;
        }
        for branch in branches {
            branch.reads(*enforcement, &mut reads);
        }
        reads
    }
}

impl Branch {
    /// Adds what the branch reads.
    fn reads(&self, enforcement: Enforcement, reads: &mut Reads) {
        // A new stage does not compile until it is listed here.
        let Self {
            guard,
            allow_list: _,
            passthrough,
            retain,
            patches,
            root,
            // These work on what the others leave.
            detects_list: _,
            max_items: _,
            select,
            select_names: _,
            select_multiplies: _,
            exclude: _,
            drop_nulls: _,
            drop_empty: _,
            text,
            output: _,
            compact: _,
        } = self;
        if let Guard::Test(pointer, _) = guard {
            *reads.pointer(pointer) = Reads::All;
        }
        if *passthrough || (text.is_some() && !self.is_structural()) {
            *reads = Reads::All;
            return;
        }
        if let Some(retain) = retain {
            // Later stages see only what it keeps, and under `Enforced` the path to the payload.
            reads.trie(&retain.trie);
            if let Root::Pointer(pointer) = root {
                let _ = reads.pointer(pointer);
            }
            return;
        }
        for patch in patches {
            let (path, from) = match patch {
                Patch::Add { path, .. }
                | Patch::Remove { path }
                | Patch::Replace { path, .. }
                | Patch::Test { path, .. } => (path, None),
                Patch::Move { from, path } | Patch::Copy { from, path } => (path, Some(from)),
            };
            for pointer in [Some(path), from].into_iter().flatten() {
                *reads.pointer(pointer) = Reads::All;
            }
        }
        let enforced = enforcement == Enforcement::Enforced;
        let payload = match root {
            Root::Document | Root::List => reads,
            // Everything outside the payload goes.
            Root::Pointer(pointer) if enforced => reads.pointer(pointer),
            Root::Pointer(_) | Root::Unused | Root::Detect => {
                *reads = Reads::All;
                return;
            }
        };
        if select.is_empty() {
            *payload = Reads::All;
            return;
        }
        if !enforced {
            for name in METADATA {
                *payload.at(name) = Reads::All;
            }
        }
        // `select` applies to an object, or to the elements of a list, as names do that are no numbers.
        let is_name =
            |step: Option<&Step>| matches!(step, Some(Step::Name(name)) if Name::new(&**name).index == Index::None);
        if !select.iter().all(|field| is_name(field.path.first())) {
            *payload = Reads::All;
            return;
        }
        // An item of which nothing is selected stays as it is under `Advisory`, and patches may remove what would be selected.
        if !enforced && (!patches.is_empty() || select.iter().all(|field| field.path.len() > 1)) {
            *payload = Reads::All;
            return;
        }
        for field in select {
            *payload.step(&field.path) = Reads::All;
        }
    }
}

#[cfg(test)]
#[path = "reads_tests.rs"]
mod tests;
