//! Decides from options and environment whether traces are sent, and where. Pure.

use url::Url;

/// The path of an OTLP receiver below its base URL (OTLP specification 1, "OTLP/HTTP Request").
const PATH: &str = "v1/traces";

/// The settings for traces of the command line or a GatewayGroup.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TraceOptions {
    /// The base URL of a collector that accepts OTLP over HTTP, `http://HOST:4318`; `/v1/traces` is appended.
    pub endpoint: Option<String>,
    /// The share of calls that are traced, from 0 to 1, if the caller has not decided. The default is the environment's
    /// value, or all calls.
    pub sampling: Option<f64>,
    /// OpenTelemetry resource attributes of this process, in addition to its name, version and host.
    pub resource: Vec<(&'static str, String)>,
}

/// Where and how traces are sent.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// The whole URL.
    pub(super) endpoint: String,
    /// The share of calls; none for the environment's value.
    pub(super) sampling: Option<f64>,
}

/// Combines options and environment; options have precedence. Returns none if no traces are sent.
///
/// # Errors
/// Names the invalid value and the remedy.
pub(super) fn plan(options: &TraceOptions, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Plan>, String> {
    let is = |name: &str, wanted: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return Ok(None);
    }
    let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| ("OTEL_EXPORTER_OTLP_ENDPOINT", url, false));
    let whole =
        variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(|url| ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url, true));
    let named = options.endpoint.clone().map(|url| ("the endpoint", url, false));
    let Some((source, url, is_whole)) = named.or(whole).or(base) else { return Ok(None) };
    let endpoint = endpoint(&url, is_whole).map_err(|problem| format!("{source} {problem}"))?;
    for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        match variable(name) {
            Some(protocol) if protocol != "http/protobuf" => {
                return Err(format!(
                    "{name} is {protocol}, but only http/protobuf is supported; set it to that, and use the collector's port for \
                     it, usually 4318"
                ));
            }
            Some(_) => break,
            None => {}
        }
    }
    if let Some(ratio) = options.sampling
        && !(0.0..=1.0).contains(&ratio)
    {
        return Err(format!("the sampling ratio is {ratio}; set it to a number from 0 to 1"));
    }
    Ok(Some(Plan { endpoint, sampling: options.sampling }))
}

fn endpoint(text: &str, is_whole: bool) -> Result<String, String> {
    // The error omits the text, which may hold a password.
    let mut url = Url::parse(text).map_err(|_| "is not a URL; write http://HOST:4318".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("must begin with http:// or https://; write http://HOST:4318".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        let remedy = "put credentials into OTEL_EXPORTER_OTLP_HEADERS";
        return Err(format!("must not have a user, password, query or fragment; {remedy}"));
    }
    if !is_whole {
        let path = url.path().trim_end_matches('/');
        // Manuals of many collectors show the whole URL.
        if !path.ends_with(&format!("/{PATH}")) {
            url.set_path(&format!("{path}/{PATH}"));
        }
    }
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables, each with its value.
    type Environment = &'static [(&'static str, &'static str)];

    fn planned(
        endpoint: Option<&str>,
        sampling: Option<f64>,
        environment: &[(&str, &str)],
    ) -> Result<Option<Plan>, String> {
        let options = TraceOptions { endpoint: endpoint.map(str::to_owned), sampling, resource: Vec::new() };
        let variable =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        plan(&options, &variable)
    }

    #[test]
    fn where_spans_go() {
        const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        const WHOLE: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let cases: [(Option<&str>, Environment, Option<&str>); 11] = [
            (None, &[], None),
            (Some("http://otel:4318"), &[], Some("http://otel:4318/v1/traces")),
            (Some("http://otel:4318/"), &[], Some("http://otel:4318/v1/traces")),
            (Some("https://otel/in/"), &[], Some("https://otel/in/v1/traces")),
            (Some("http://otel:4318/v1/traces"), &[], Some("http://otel:4318/v1/traces")),
            (None, &[(BASE, "http://b:1")], Some("http://b:1/v1/traces")),
            (None, &[(WHOLE, "http://w:1/spans")], Some("http://w:1/spans")),
            (None, &[(BASE, "http://b:1"), (WHOLE, "http://w:1/")], Some("http://w:1/")),
            (
                Some("http://otel:4318"),
                &[(BASE, "http://b:1"), (WHOLE, "http://w:1")],
                Some("http://otel:4318/v1/traces"),
            ),
            (Some("http://otel:4318"), &[("OTEL_SDK_DISABLED", "true")], None),
            (Some("http://otel:4318"), &[("OTEL_TRACES_EXPORTER", "none")], None),
        ];
        for (endpoint, environment, expected) in cases {
            let plan = planned(endpoint, None, environment).expect("is valid");
            assert_eq!(plan.map(|plan| plan.endpoint).as_deref(), expected, "{endpoint:?} {environment:?}");
        }
    }

    #[test]
    fn an_invalid_setting_is_named_with_the_remedy() {
        let cases: [(Option<&str>, Option<f64>, Environment, &str); 7] = [
            (Some("otel:4318"), None, &[], "the endpoint must begin with http://"),
            (Some("/v1"), None, &[], "the endpoint is not a URL"),
            (Some("http://user:hunter2@otel"), None, &[], "OTEL_EXPORTER_OTLP_HEADERS"),
            (Some("http://otel/?key=hunter2"), None, &[], "OTEL_EXPORTER_OTLP_HEADERS"),
            (None, None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense")], "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"),
            (Some("http://otel"), None, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "only http/protobuf"),
            (Some("http://otel"), Some(1.5), &[], "from 0 to 1"),
        ];
        for (endpoint, sampling, environment, expected) in cases {
            let error = planned(endpoint, sampling, environment).expect_err("is not valid");
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
