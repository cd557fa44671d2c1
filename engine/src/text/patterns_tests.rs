use super::*;

fn compile(patterns: &[&str], budget: &mut PatternBudget) -> Result<Arc<Patterns>, Vec<Finding>> {
    let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    let mut findings = Vec::new();
    Patterns::compile("text.keep", &patterns, budget, &mut findings).ok_or(findings)
}

fn refused(patterns: &[&str], budget: &mut PatternBudget) -> (String, String) {
    let findings = compile(patterns, budget).expect_err("too large");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].remedy.contains("smaller counted repetitions"), "{findings:?}");
    (findings[0].field.clone(), findings[0].message.clone())
}

#[test]
fn equal_lists_share_an_automaton_and_count_once() {
    let mut budget = PatternBudget::default();
    let one = compile(&["share[0-9]+", "x"], &mut budget).unwrap();
    let left = budget.left;
    let two = compile(&["share[0-9]+", "x"], &mut budget).unwrap();
    assert!(Arc::ptr_eq(&one, &two));
    assert_eq!(budget.left, left);
    assert!(!Arc::ptr_eq(&one, &compile(&["x", "share[0-9]+"], &mut budget).unwrap()), "order is part of a list");
    assert_eq!(MAX_SET_BYTES - left, one.bytes());
}

#[test]
fn an_expression_a_list_and_a_set_are_bounded_by_name() {
    let mut budget = PatternBudget::default();
    let (field, message) = refused(&["fine", r"\w{900}"], &mut budget);
    assert_eq!(
        (field.as_str(), message.as_str()),
        ("text.keep[1]", r"`\w{900}` takes more than 1024 KiB once compiled")
    );
    let some = [r"a\d{60}", r"b\d{60}", r"c\d{60}", r"d\d{60}", r"e\d{60}"];
    let one = compile(&some[..1], &mut PatternBudget::default()).unwrap().bytes();
    let many: Vec<_> = (0..=MAX_COMPILED_BYTES / one).map(|i| format!(r"x{i}\d{{60}}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let (field, message) = refused(&many, &mut budget);
    assert!(
        field.starts_with("text.keep[") && message.contains("in the list take more than 4096 KiB"),
        "{field} {message}"
    );
    let mut lists = 0;
    let refusal = loop {
        let list: Vec<_> = (0..8).map(|i| format!(r"l{lists}x{i}\d{{60}}")).collect();
        let list: Vec<_> = list.iter().map(String::as_str).collect();
        match compile(&list, &mut budget) {
            Ok(_) => lists += 1,
            Err(_) => break refused(&list, &mut budget),
        }
    };
    assert!(lists >= 1 && lists <= MAX_SET_BYTES / one, "{lists}");
    assert!(refusal.1.contains("in the filter set take more than 8192 KiB"), "{refusal:?}");
}

#[test]
fn a_set_of_large_expressions_is_refused_soon() {
    let mut budget = PatternBudget::default();
    let (mut compiled, mut refused) = (0, 0);
    for tool in 0..40 {
        let patterns: Vec<_> = (0..8).map(|i| format!(r"[01]*{tool}1\w{{90}}{i}")).collect();
        let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
        match compile(&patterns, &mut budget) {
            Ok(list) => compiled += list.bytes(),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 30 && compiled <= MAX_SET_BYTES, "{refused} of 40 refused, {compiled} bytes");
}

#[test]
fn character_classes_are_bounded_before_they_are_made() {
    let many = "(?i)".to_owned() + &r"\pL".repeat(MAX_CLASSES + 1);
    let findings = compile(&[&many], &mut PatternBudget::default()).expect_err("too many");
    assert_eq!(findings[0].message, "has 257 character classes, at most 256 are allowed");
    let mut budget = PatternBudget { classes: 3, ..PatternBudget::default() };
    assert!(compile(&["[a-c][d-f]k"], &mut budget).is_ok());
    let findings = compile(&[r"[a-d]\dk"], &mut budget).expect_err("too many together");
    assert!(findings[0].message.contains("filter set"), "{findings:?}");
}

#[test]
fn finds_what_the_regex_crate_finds() {
    let patterns = ["^E", r"\bwarn\b", r"\d{2}:\d{2}$", "(?i)straße", r"^\s*$", "a.*b", r"\p{Greek}+", "", "x*"];
    let lines = [
        "",
        " ",
        "E",
        "xE",
        "warn",
        "a warn b",
        "forewarn",
        "warné",
        "éwarn é warn",
        "at 12:30",
        "12:30 pm",
        "STRASSE",
        "STRAßE",
        "ab",
        "a\u{1f600}b",
        "αβγ",
        "x\u{301}",
        "\u{feff}E",
    ];
    for pattern in patterns.into_iter().filter(|pattern| !pattern.is_empty()) {
        let compiled = compile(&[pattern], &mut PatternBudget::default()).unwrap();
        let reference = regex_automata::meta::Regex::new(pattern).unwrap();
        let mut cache = compiled.cache();
        for line in lines {
            let found = compiled.is_match(&mut cache, line, &Work::unlimited());
            assert_eq!(found, reference.is_match(line), "{pattern} in {line:?}");
        }
    }
}

#[test]
fn a_small_cache_changes_nothing() {
    // Far more states than the cache holds.
    let compiled = compile(&["[01]*1[01]{300}x"], &mut PatternBudget::default()).unwrap();
    let mut cache = compiled.cache();
    let mut bits = 1_u32;
    let mut line = String::new();
    for _ in 0..20_000 {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        line.push(if bits >> 31 == 0 { '0' } else { '1' });
    }
    assert!(!compiled.is_match(&mut cache, &line, &Work::unlimited()));
    assert!(cache.dfa.memory_usage() <= compiled.search_bytes());
    let at = line[..19_000].rfind('1').unwrap();
    let found = format!("{}x", &line[..at + 301]);
    assert!(compiled.is_match(&mut cache, &found, &Work::unlimited()));
}
