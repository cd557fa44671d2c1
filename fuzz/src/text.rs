//! The first line is a regular expression, the rest is a text. Each line is either kept or stripped by the
//! expression.

use tamis_engine::text::{PatternBudget, TextProgram};
use tamis_engine::{TextSpec, text};

pub(crate) fn run(data: &[u8]) {
    let Some((pattern, text)) = crate::halves(data) else { return };
    let (one, none) = (vec![pattern.to_owned()], Vec::new());
    let clean = |keep: &Vec<String>, strip: &Vec<String>| {
        let spec = TextSpec { keep: keep.clone(), strip: strip.clone(), strip_ansi: true, ..TextSpec::default() };
        let program = TextProgram::compile(&spec, &mut PatternBudget::default()).ok()?;
        Some(program.apply(text, false))
    };
    let Some(all) = clean(&none, &none) else { panic!("a text without expressions is refused") };
    // A text whose colours were removed has none to remove.
    assert_eq!(text::strip_ansi(&all), all);
    let (kept, stripped) = (clean(&one, &none), clean(&none, &one));
    assert_eq!(kept.is_some(), stripped.is_some(), "an expression is valid in one place and not in the other");
    if let (Some(kept), Some(stripped)) = (kept, stripped) {
        let mut lines: Vec<&str> = lines(&kept).chain(lines(&stripped)).collect();
        let mut wanted: Vec<&str> = self::lines(&all).collect();
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
    }
}

/// At the end of a text, a blank line looks like no line.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').filter(|line| !line.is_empty())
}
