//! Fetches page after page. A pure state machine, which names the page to fetch and takes what it held.

use std::collections::HashSet;

use tamis_config::{Pagination, PaginationKind};

use crate::upstream::PageReport;
use crate::upstream::syntax::encoded;

/// Items per page, unless the caller says otherwise.
const PAGE_SIZE: u64 = 20;
/// Pages that a call may fetch, whatever the manifest says.
const MAX_PAGES: u32 = 100;

/// Where a call begins.
#[derive(Debug, Default, Clone)]
pub(super) struct Start {
    /// Items per page. If the caller gives it, it is the number of items in all.
    pub(super) limit: Option<u64>,
    /// Whether the caller gives `limit`.
    pub(super) limit_is_total: bool,
    /// The cursor or offset.
    pub(super) position: Option<String>,
}

/// What one page holds.
#[derive(Debug, Default, Clone)]
pub(super) struct Page {
    /// Elements of the list.
    pub(super) items: usize,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
    /// Items in all, if the page says so.
    pub(super) total: Option<u64>,
}

/// The state of a paginated call.
#[derive(Debug)]
pub(super) struct Pager {
    kind: PaginationKind,
    max_pages: u32,
    limit: u64,
    wanted: Option<u64>,
    position: Option<String>,
    seen: HashSet<String>,
    pages: u32,
    items: usize,
    total: Option<u64>,
    done: bool,
}

impl Pager {
    pub(super) fn new(plan: &Pagination, start: Start) -> Self {
        let limit = start.limit.unwrap_or(PAGE_SIZE).max(1);
        let first = (plan.kind == PaginationKind::Offset).then(|| "0".to_owned());
        let position = start.position.or(first);
        Self {
            kind: plan.kind,
            max_pages: plan.max_pages.clamp(1, MAX_PAGES),
            limit,
            wanted: start.limit_is_total.then_some(limit),
            seen: position.iter().cloned().collect(),
            position,
            pages: 0,
            items: 0,
            total: None,
            done: false,
        }
    }

    /// Returns a query with the parameters of the page to fetch.
    pub(super) fn query(&self, query: Option<&str>) -> String {
        let mut query = query.map(|q| format!("{q}&")).unwrap_or_default();
        query.push_str("limit=");
        query.push_str(&self.limit.to_string());
        if let Some(position) = &self.position {
            query.extend(["&", self.kind.argument(), "=", &encoded(position)]);
        }
        query
    }

    /// Advances past a page. Returns whether to fetch another one.
    pub(super) fn advance(&mut self, page: Page) -> bool {
        self.pages += 1;
        self.items += page.items;
        self.total = page.total.or(self.total);
        self.position = match self.kind {
            PaginationKind::Cursor => page.next.filter(|_| page.items > 0),
            PaginationKind::Offset => self.next_offset(page.items),
        };
        // A position that occurs twice would never end.
        if let Some(position) = self.position.clone()
            && !self.seen.insert(position)
        {
            self.position = None;
        }
        let enough = self.wanted.is_some_and(|wanted| self.items as u64 >= wanted);
        self.done = self.position.is_none() || enough || self.pages >= self.max_pages;
        !self.done
    }

    /// Returns where the page after one of `items` begins, or `None` after the last. The number of all items, as the
    /// upstream states it, has no influence: a filter may remove it, and where the pages end would reveal it.
    fn next_offset(&self, items: usize) -> Option<String> {
        let offset: u64 = self.position.as_deref()?.parse().ok()?;
        let next = offset.checked_add(items as u64)?;
        // Upstreams cap `limit`, so only a page shorter than the usual caps is the last.
        let end = (items as u64) < self.limit.min(PAGE_SIZE);
        (items > 0 && !end).then(|| next.to_string())
    }

    /// Returns whether a page has been fetched, so that another call can fetch the rest.
    pub(super) fn has_pages(&self) -> bool {
        self.pages > 0
    }

    /// Returns the report for the caller. `next` is the position of the next page, even if this call could not fetch it.
    pub(super) fn report(self) -> PageReport {
        PageReport { pages: self.pages, items: Some(self.items), total: self.total, next: self.position }
    }
}

#[cfg(test)]
#[path = "tests/pages.rs"]
mod tests;
