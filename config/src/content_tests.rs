use super::*;

fn patterns(include: Option<&[&str]>, exclude: &[&str]) -> NamePatterns {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    NamePatterns { include: include.map(owned), exclude: owned(exclude) }
}

#[test]
fn patterns_select_names() {
    // include, exclude, name, whether it is published.
    let table = [
        (None, vec![], "a", true),
        (Some(vec![]), vec![], "a", false),
        (Some(vec!["docs://*"]), vec![], "docs://a/b", true),
        (Some(vec!["docs://*"]), vec![], "file:///a", false),
        (Some(vec!["*"]), vec!["*.bin"], "a.bin", false),
        (None, vec!["a?c"], "abc", false),
        (None, vec!["a?c"], "ac", true),
    ];
    for (include, exclude, name, expected) in table {
        assert_eq!(patterns(include.as_deref(), &exclude).selects(name), expected, "{include:?} {exclude:?} {name}");
    }
}

#[test]
fn what_both_publish_is_common_and_enforcement_removes_unfiltered_data() {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut content = PublishedContent {
        prompts: own(&["a", "b"]),
        resources: own(&["r:/1"]),
        templates: own(&["t:/{x}", "t:/{y}"]),
        server_prompts: Some(patterns(None, &[])),
        server_resources: None,
    };
    let other = PublishedContent {
        prompts: own(&["b", "c"]),
        resources: Vec::new(),
        templates: own(&["t:/{y}"]),
        server_prompts: Some(patterns(Some(&["x"]), &[])),
        server_resources: Some(patterns(None, &[])),
    };
    content.retain_common(&other);
    assert_eq!(
        content,
        PublishedContent {
            prompts: own(&["b"]),
            resources: Vec::new(),
            templates: own(&["t:/{y}"]),
            server_prompts: Some(patterns(Some(&["x"]), &[])),
            server_resources: None,
        }
    );
    let looser = PublishedContent { server_prompts: Some(patterns(None, &["y"])), ..content.clone() };
    content.retain_common(&looser);
    assert_eq!(content.server_prompts, Some(patterns(Some(&["x"]), &["y"])), "a looser choice adds nothing");
    content.enforce();
    assert_eq!(content, PublishedContent { prompts: own(&["b"]), ..PublishedContent::default() });
    assert!(!content.is_empty() && PublishedContent::default().is_empty());
}
