//! Reads pages, and merges them into one list.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::LINK;
use url::Url;

use super::extract::{self, Object};
use super::pages::Page;
use crate::upstream::UpstreamError;

/// Paths that usually hold the next cursor, for a manifest without `next_path`.
const NEXT: [&str; 5] =
    ["next_cursor", "nextCursor", "response_metadata.next_cursor", "next_page_token", "nextPageToken"];
/// Paths that usually hold the number of all items.
const TOTAL: [&str; 5] = ["total", "total_count", "totalCount", "meta.total", "pagination.total"];

/// The body of a successful response, and what its headers say about further pages.
pub(super) struct Document {
    pub(super) body: Bytes,
    /// The number of all items, from a header.
    total: Option<u64>,
    /// The next cursor, from a header (RFC 8288): a body that is a bare list has no place for it.
    next: Option<String>,
}

impl Document {
    pub(super) fn new(mut body: Bytes, headers: &HeaderMap) -> Self {
        // Some servers put a UTF-8 byte order mark before their JSON (RFC 8259 section 8.1).
        if body.starts_with(b"\xef\xbb\xbf") {
            body.advance(3);
        }
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
        let total = number("x-total").or_else(|| number("x-total-count"));
        let next = headers.get(LINK).and_then(|link| linked_cursor(link.to_str().ok()?));
        Self { body, total, next }
    }

    /// Returns what the response says about further pages. `detect`: whether to look for an undeclared cursor in the body.
    /// Not under `Enforced`: data that the filter removes must not decide which pages are fetched.
    pub(super) fn page(&self, next_path: Option<&str>, detect: bool) -> Page {
        let paths = next_path.into_iter().chain(NEXT).chain(TOTAL);
        let names: Vec<&str> = paths.map(|path| path.split('.').next().unwrap_or(path)).collect();
        let Ok(Some(object)) = Object::read(&self.body, &names) else {
            return Page { items: 0, next: self.next.clone(), total: self.total };
        };
        let next = match next_path {
            Some(path) => object.scalar(path),
            None if detect => NEXT.iter().find_map(|path| object.scalar(path)),
            None => None,
        };
        let total = || TOTAL.iter().find_map(|path| object.scalar(path)?.parse().ok());
        // Some APIs return the whole URL of the next page, with the cursor as a parameter.
        let next = next.map(|next| Url::parse(&next).ok().and_then(|url| cursor(&url)).unwrap_or(next));
        Page { items: 0, next: next.or_else(|| self.next.clone()), total: self.total.or_else(total) }
    }
}

fn cursor(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == "cursor").map(|(_, value)| value.into_owned())
}

/// Returns the cursor in the URL of a `Link` header with `rel="next"`.
fn linked_cursor(link: &str) -> Option<String> {
    let mut rest = link;
    while let Some((_, from)) = rest.split_once('<') {
        let (target, after) = from.split_once('>')?;
        // The parameters of this link end where the next link begins.
        let parameters = after.split('<').next().unwrap_or_default();
        let is_next = parameters.split([';', ',']).filter_map(|p| p.trim().split_once('=')).any(|(name, value)| {
            let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel") && relations.any(|r| r.eq_ignore_ascii_case("next"))
        });
        if is_next {
            // The target may be relative; only its query counts.
            return Url::parse("http://relative.invalid").ok()?.join(target).ok().as_ref().and_then(cursor);
        }
        rest = after;
    }
    None
}

/// The lists of all pages so far.
#[derive(Default)]
pub(super) struct Merged {
    /// The text between the brackets of each list that is not empty.
    pages: Vec<Bytes>,
    /// The member that held the list of the first page.
    member: Option<String>,
}

impl Merged {
    /// Returns the list of a page: the output itself, or the member that held the list of the first page. `None` if there is
    /// no list.
    ///
    /// # Errors
    /// The output is not JSON. Without `detect`, the output is not a list: the first page alone would be cut silently.
    pub(super) fn find(&mut self, output: &Bytes, detect: bool) -> Result<Option<Bytes>, UpstreamError> {
        if extract::first(output) == Some(b'[') {
            return Ok(Some(output.clone()));
        }
        if !detect {
            return Err(UpstreamError::Malformed("is not a list, and `extract` does not say where one is".to_owned()));
        }
        let names: Vec<&str> = extract::LISTS.into_iter().chain(self.member.as_deref()).collect();
        let object = Object::read(output, &names).map_err(UpstreamError::Malformed)?;
        if let Some(member) = &self.member {
            // The member of a last page may be `null` or absent.
            let list = object.and_then(|o| o.get(member)).filter(|text| text.starts_with('['));
            return Ok(Some(list.map_or(Bytes::from_static(b"[]"), |text| output.slice_ref(text.as_bytes()))));
        }
        let Some((name, list)) = object.as_ref().and_then(Object::find_list) else { return Ok(None) };
        self.member = Some(name.to_owned());
        Ok(Some(output.slice_ref(list.as_bytes())))
    }

    pub(super) fn push(&mut self, elements: Bytes) {
        if !elements.is_empty() {
            self.pages.push(elements);
        }
    }

    /// Returns the largest length that the merged list can have.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.len() as u64 + 1).sum::<u64>() + 2
    }

    pub(super) fn finish(self) -> Bytes {
        let mut all = BytesMut::with_capacity(usize::try_from(self.bytes()).unwrap_or_default());
        all.extend_from_slice(b"[");
        for (i, page) in self.pages.iter().enumerate() {
            if i > 0 {
                all.extend_from_slice(b",");
            }
            all.extend_from_slice(page);
        }
        all.extend_from_slice(b"]");
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::{Document, linked_cursor};

    #[test]
    fn a_byte_order_mark_before_pages_is_skipped() {
        let body = Bytes::from_static("\u{feff}{\"items\":[1],\"next_cursor\":\"c\"}".as_bytes());
        let document = Document::new(body, &HeaderMap::new());
        assert_eq!(&*document.body, br#"{"items":[1],"next_cursor":"c"}"#);
        assert_eq!(document.page(None, true).next.as_deref(), Some("c"));
    }

    #[test]
    fn links() {
        for (link, cursor) in [
            (r#"<https://h/p?cursor=a%3Db&limit=2>; rel="next""#, Some("a=b")),
            (
                r#"<https://h/p?cursor=1>; rel="previous"; results="true", </p?cursor=2>; results="true"; rel=next"#,
                Some("2"),
            ),
            (r#"<?cursor=1,2>; REL="self Next""#, Some("1,2")),
            (r#"<https://h/p?page=2>; rel="next""#, None),
            (r#"<https://h/p?cursor=1>; rel="last""#, None),
            (r#"<https://h/p?cursor=1>"#, None),
            ("<https://h/p?cursor=1", None),
            ("", None),
        ] {
            assert_eq!(linked_cursor(link).as_deref(), cursor, "{link}");
        }
    }
}
