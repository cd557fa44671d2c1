//! The upstream's answers.

use std::fmt::Write as _;

use bytes::Bytes;

/// Returns a JSON list of about `kb` kB: items of 250 bytes, shaped like issues.
pub(crate) fn payload(kb: usize) -> Bytes {
    let mut out = String::from("[");
    let mut number = 1;
    while out.len() < kb * 1000 - 125 {
        if number > 1 {
            out.push(',');
        }
        let _ = write!(
            out,
            concat!(
                r#"{{"id":{},"number":{},"title":"Crash when opening file {}","state":"open","#,
                r#""locked":false,"comments":{},"user":{{"login":"octocat","id":583231,"type":"User"}},"#,
                r#""body":"It crashes on start, every time I open it.","assignee":null}}"#
            ),
            1_000_000 + number,
            number,
            number,
            number % 7
        );
        number += 1;
    }
    out.push(']');
    Bytes::from(out)
}
