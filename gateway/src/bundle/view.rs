//! A bundle as the sender of one request sees it.

use std::sync::Arc;

use tamis_config::Access;
use tamis_config::bundle::{LeftOut, name_of, resolve, rooms};

use super::{Bundle, list};
use crate::access::KeyDigest;
use crate::exposition::{Exposition, Page};
use crate::gateway::Gateway;
use crate::upstream::Credentials;

/// Who sent a request to a bundle.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender {
    /// The process that started this one. Every part admits it.
    Parent,
    /// The sender of an HTTP request with this key, or without one.
    Key(Option<KeyDigest>),
}

/// A bundle and the state of its parts at the time of one request.
#[derive(Debug)]
pub(crate) struct View {
    /// The bundle.
    pub(crate) bundle: Arc<Bundle>,
    /// The parts, in the order of the bundle; none for a part that is not served.
    pub(super) parts: Vec<Option<Arc<Exposition>>>,
    /// How many of its tools each part may publish.
    rooms: Vec<usize>,
    store: Arc<dyn Credentials>,
    sender: Sender,
}

/// A tool that a name stands for.
#[derive(Debug)]
pub(crate) struct Found {
    /// The exposition that publishes it.
    pub(crate) exposition: Arc<Exposition>,
    /// The bundle that the name belongs to, if it does.
    pub(crate) bundle: Option<Arc<Bundle>>,
    /// The position of the tool in the exposition.
    pub(crate) tool: usize,
    /// The caller's name, if the exposition has another one than the address.
    pub(crate) caller: Option<Arc<str>>,
}

impl View {
    /// Reads the current state of the parts.
    pub(crate) fn new(gateway: &Gateway, bundle: &Arc<Bundle>, sender: Sender) -> Self {
        let slots = gateway.registry.all();
        let served = |path: &str| slots.get(path)?.state().serving().cloned();
        let parts: Vec<Option<Arc<Exposition>>> = bundle.parts.iter().map(|part| served(&part.path)).collect();
        let rooms = rooms(parts.iter().map(|part| part.as_ref().map_or(0, |exposition| exposition.tools().len())));
        Self { bundle: Arc::clone(bundle), parts, rooms, store: Arc::clone(&gateway.options.credentials), sender }
    }

    fn prefixes(&self) -> impl Iterator<Item = &str> + Clone {
        self.bundle.parts.iter().map(|part| part.prefix.as_str())
    }

    /// Returns whether a part publishes a tool, as far as other parts leave the name to it. A tool that is pinned keeps its name
    /// whatever the server of another part lists: calls of it must not lead to a server that takes the name.
    fn has(&self, part: usize, tool: &str) -> bool {
        let is_offered = self.offers(part, tool);
        if !is_offered || !self.is_followed(part) {
            return is_offered;
        }
        let name = format!("{}{tool}", self.bundle.parts[part].prefix);
        !self.prefixes().enumerate().any(|(other, prefix)| {
            let tool = name.strip_prefix(prefix).filter(|_| !self.is_followed(other));
            tool.is_some_and(|tool| self.offers(other, tool))
        })
    }

    /// Returns the tools that a server lists for a part, but whose names in the bundle are those of other parts.
    pub(super) fn taken(&self, part: usize) -> Vec<&str> {
        let Some(exposition) = self.parts[part].as_ref().filter(|_| self.is_followed(part)) else { return Vec::new() };
        let taken = |tool: &&str| {
            let name = name_of(self.prefixes(), part, tool, |part, tool| self.has(part, tool));
            !self.has(part, tool) || matches!(name, Err(LeftOut::Taken(_)))
        };
        exposition.tools().keys().take(self.rooms[part]).map(|tool| &**tool).filter(taken).collect()
    }

    /// Returns whether a part publishes what its server lists.
    fn is_followed(&self, part: usize) -> bool {
        self.parts[part].as_ref().is_some_and(|exposition| exposition.followed.is_some())
    }

    fn offers(&self, part: usize, tool: &str) -> bool {
        let number = self.parts[part].as_ref().and_then(|exposition| exposition.tools().get_index_of(tool));
        number.is_some_and(|number| number < self.rooms[part])
    }

    /// Returns the name of the sender as a part knows it, if it has names; none if the part does not admit the sender.
    pub(super) fn admission(&self, exposition: &Exposition) -> Option<Option<Arc<str>>> {
        match self.sender {
            Sender::Parent => Some(None),
            Sender::Key(key) => exposition.admit_in_bundle(&*self.store, || key).ok(),
        }
    }

    /// Returns the parts that are served and admit the sender, each with its position.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = (usize, &Arc<Exposition>)> {
        let served = self.parts.iter().enumerate().filter_map(|(number, part)| Some((number, part.as_ref()?)));
        served.filter(|(_, exposition)| self.admission(exposition).is_some())
    }

    /// Returns how many tools the sender may call. Tools whose names collide are counted too: looking at every name would
    /// make an answer expensive.
    pub(crate) fn tools(&self) -> usize {
        self.admitted().map(|(part, _)| self.rooms[part]).sum()
    }

    /// Returns the tool that a name stands for to the sender.
    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        let (part, tool) = resolve(self.prefixes(), name, |part, tool| self.has(part, tool))?;
        let exposition = self.parts[part].as_ref()?;
        let caller = self.admission(exposition)?;
        let tool = exposition.tools().get_index_of(tool)?;
        Some(Found { exposition: Arc::clone(exposition), bundle: Some(Arc::clone(&self.bundle)), tool, caller })
    }

    /// Returns the page of `tools/list` at `cursor`, or the first page without one. Returns none for a cursor that names no
    /// tool of this sender.
    pub(crate) fn list(&self, cursor: Option<&str>) -> Option<Page<'static>> {
        let from = match cursor.filter(|cursor| !cursor.is_empty()) {
            None => (0, 0),
            Some(cursor) => {
                let name = list::name_at(cursor)?;
                let (part, tool) = resolve(self.prefixes(), &name, |part, tool| self.has(part, tool))?;
                let exposition = self.parts[part].as_ref().filter(|part| self.admission(part).is_some())?;
                (part, exposition.tools().get_index_of(tool)?)
            }
        };
        let admitted = self.admitted().filter(|(part, _)| *part >= from.0);
        let admitted: Vec<_> = admitted.map(|(part, exposition)| (part, exposition, self.rooms[part])).collect();
        Some(list::page(&admitted, from, &self.prefixes(), |part, tool| self.has(part, tool)))
    }

    /// Describes the parts that the sender may call, for the model.
    pub(crate) fn instructions(&self) -> Option<String> {
        let described = self.admitted().filter_map(|(number, exposition)| {
            let description = exposition.service.document.description.as_ref()?;
            Some(match self.bundle.parts[number].prefix.as_str() {
                "" => description.clone(),
                prefix => format!("{prefix}*: {description}"),
            })
        });
        let described: Vec<_> = described.collect();
        (!described.is_empty()).then(|| described.join("\n"))
    }

    /// Returns whether answers may differ between callers: the bundle or a part asks who they are.
    pub(crate) fn is_private(&self) -> bool {
        self.bundle.access.as_ref().is_some_and(Access::authenticates)
            || self.parts.iter().flatten().any(|exposition| exposition.is_private())
    }

    /// Returns whether a header may have to repeat an argument of a tool.
    pub(crate) fn has_param_headers(&self) -> bool {
        self.parts.iter().flatten().any(|exposition| exposition.service.has_param_headers())
    }
}
