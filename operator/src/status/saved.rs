//! `status.saved`: the percentage of the bytes from upstreams that filters removed.

use crate::acks::Totals;

/// Returns the text to show. It changes only when the saving is at least one point away from the text in the API, so
/// that calls do not cause writes all day. Without totals (no gateway has reported since the operator started) the text
/// stays.
pub(crate) fn text(shown: Option<&str>, totals: Option<Totals>) -> Option<String> {
    let shown = shown.and_then(|text| text.strip_suffix('%')?.parse::<u8>().ok()).filter(|shown| *shown <= 100);
    let moved = totals.filter(|totals| totals.input_bytes > 0).map(|totals| {
        let (input, saved) =
            (u128::from(totals.input_bytes), u128::from(totals.input_bytes.saturating_sub(totals.output_bytes)));
        let whole = u8::try_from(saved * 100 / input).unwrap_or(100);
        match shown {
            // Less than a point below the shown value. The division rounds down, which covers the other side.
            Some(shown) if whole < shown && saved * 100 + input > u128::from(shown) * input => shown,
            _ => whole,
        }
    });
    moved.or(shown).map(|percent| format!("{percent}%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(input_bytes: u64, output_bytes: u64) -> Option<Totals> {
        Some(Totals { input_bytes, output_bytes })
    }

    #[test]
    fn changes_by_whole_points() {
        for (shown, totals, text) in [
            (None, None, None),
            (None, totals(0, 0), None),
            (None, totals(1000, 70), Some("93%")),
            (None, totals(1000, 61), Some("93%")),
            (Some("93%"), None, Some("93%")),
            (Some("93%"), totals(0, 0), Some("93%")),
            (Some("93%"), totals(1000, 79), Some("93%")),
            (Some("93%"), totals(1000, 80), Some("92%")),
            (Some("93%"), totals(1000, 61), Some("93%")),
            (Some("93%"), totals(1000, 60), Some("94%")),
            (Some("93%"), totals(1000, 900), Some("10%")),
            (None, totals(100, 250), Some("0%")),
            (Some("0%"), totals(100, 250), Some("0%")),
            (Some("1%"), totals(100, 250), Some("0%")),
            (None, totals(u64::MAX, 0), Some("100%")),
            (Some("-5%"), totals(100, 50), Some("50%")),
            (Some("101%"), None, None),
            (Some("much"), totals(100, 50), Some("50%")),
        ] {
            assert_eq!(super::text(shown, totals).as_deref(), text, "{shown:?} {totals:?}");
        }
    }
}
