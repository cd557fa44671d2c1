//! Validation rules of `Exposition`.

use serde_json::{Value as Json, json};
use tamis_config::{BundleDocument, BundlePart};

use super::super::structural::{RULES, rule};
use super::{MAX_NAME, MAX_TOOLS, MAX_URL, rules, set_names, text};

/// Returns the keywords to add to the schema of `Exposition`, by place.
pub(super) fn additions() -> Vec<(&'static str, Json)> {
    let anonymous = "has(self.anonymous) && self.anonymous";
    let known = "has(self.apiKeys) || has(self.jwt)";
    let only = "has(self.bundleOnly) && self.bundleOnly";
    let access = json!({ RULES: [
        rule(
            &format!("({anonymous}) || {known} || ({only})"),
            "allows no caller; set `apiKeys`, or `anonymous: true`",
        ),
        rule(
            &format!("!({anonymous} && ({known}))"),
            "`anonymous: true` cannot be combined with `apiKeys` or `jwt`, because it allows every caller; remove one of them",
        ),
        rule(
            &format!("!(({only}) && (({anonymous}) || {known}))"),
            "`bundleOnly: true` cannot be combined with other fields, because the bundle says who may call; remove the others",
        ),
    ] });
    let count = || json!({ "minimum": 1 });
    let of_a_service =
        ["filters", "enforcement", "tools", "configurationPlan", "tokens", "output", "audit", "prompts", "resources"];
    let given = of_a_service.map(|field| format!("has(self.{field})")).join(" || ");
    let bundle = rules([
        (
            "has(self.service) != has(self.expositions)",
            "must set exactly one of `service`, to publish a service, and `expositions`, to bundle other expositions",
        ),
        (
            &format!("!has(self.expositions) || !({given})"),
            "a bundle sets `gatewayGroup`, `access`, `limits` and `lists` only; set the other fields in its expositions",
        ),
        (
            "!has(self.expositions) || !has(self.access) || !has(self.access.bundleOnly)",
            "`access.bundleOnly` is not allowed in a bundle, because bundles cannot be nested; remove it",
        ),
    ]);
    let parts = json!({
        "minItems": 1,
        "maxItems": BundleDocument::MAX_PARTS,
        RULES: [rule(
            "self.all(part, self.exists_one(other, other.name == part.name))",
            "an exposition occurs twice; remove the duplicate",
        )],
    });
    vec![
        ("ExpositionSpec", bundle),
        ("ExpositionSpec.expositions", parts),
        (
            "BundlePartSpec.name",
            json!({ "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" }),
        ),
        ("BundlePartSpec.prefix", json!({ "maxLength": BundlePart::MAX_PREFIX, "pattern": "^[A-Za-z0-9_./-]*$" })),
        ("ExpositionSpec.filters", set_names()),
        ("ExpositionSpec.filters.*", text(MAX_NAME)),
        ("ToolSelection.include", json!({ "maxItems": MAX_TOOLS })),
        ("ToolSelection.include.*", text(MAX_NAME)),
        ("ToolSelection.exclude", json!({ "maxItems": MAX_TOOLS })),
        ("ToolSelection.exclude.*", text(MAX_NAME)),
        ("ContentSelection.include", json!({ "maxItems": MAX_TOOLS })),
        ("ContentSelection.include.*", text(MAX_URL)),
        ("ContentSelection.exclude", json!({ "maxItems": MAX_TOOLS })),
        ("ContentSelection.exclude.*", text(MAX_URL)),
        ("AccessSpec", access),
        ("LimitsSpec.requestsPerSecond", count()),
        ("LimitsSpec.burst", count()),
        ("LimitsSpec.concurrent", count()),
        (
            "OutputLimitsSpec",
            rules([("has(self.bytes) || has(self.tokens)", "sets no limit; set `bytes` or `tokens`, or remove it")]),
        ),
        ("OutputLimitsSpec.bytes", count()),
        ("OutputLimitsSpec.tokens", count()),
        // Not `minimum`: of a bound on a whole number, the API server drops the fraction.
        (
            "TokensSpec.factor",
            rules([(
                "self >= 0.01 && self <= 100.0",
                "must be a number from 0.01 to 100; write one, or remove the field",
            )]),
        ),
        (
            "ExpositionOutputSpec.inputs",
            json!({
                "maxItems": 16,
                RULES: [
                    rule("self.all(input, self.exists_one(other, other == input))", "an input occurs twice; remove the duplicate"),
                    rule(
                        "('offset' in self) == ('limit' in self)",
                        "`offset` and `limit` are advertised together only; add the other one, or remove both",
                    ),
                ],
            }),
        ),
        (
            "LimitsSpec",
            rules([(
                "!has(self.burst) || has(self.requestsPerSecond)",
                "`burst` has no effect without `requestsPerSecond`; set that, or remove `burst`",
            )]),
        ),
    ]
}
