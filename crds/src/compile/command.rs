//! Compiles the `command` and `appleScript` sources of a manifest: programs that are started for each call.

use indexmap::IndexMap;
use tamis_config::{
    Call, CommandArgument, CommandCall, CommandLimits, CommandSource, CommandStyle, Reason, Retry, Risk,
    ServiceDocument, ServiceTool, Source,
};

use super::environment::{self, Environment, MAX_WORD};
use super::expose::Stop;
use super::service::tools_of;
use super::{CompileEnv, action, args};
use crate::origin::FieldPath;
use crate::read::excerpt;
use crate::resources::{
    AppleScriptActionSpec, AppleScriptSpec, ArgSpec, ArgType, CommandActionSpec, CommandArgSpec, CommandArgStyle,
    CommandLimitsSpec, CommandRetrySpec, CommandSpec, ConfigurationPlanSpec, InlineScriptSpec, Memory, ResponseSpec,
    RiskLevel, RiskSpec, ScriptLanguage, duration_ms,
};
use crate::sink::DiagnosticSink;

/// The default limits of one run.
const LIMITS: CommandLimits =
    CommandLimits { timeout_ms: 60_000, output_bytes: 16 << 20, processes: 64, memory_bytes: 1 << 30 };
/// The longest time of a run, the largest output, and the most processes.
const MAX_TIMEOUT_MS: u64 = 3_600_000;
const MAX_OUTPUT: u64 = 1 << 30;
const MAX_PROCESSES: u32 = 4096;
/// The most bytes of a script.
const MAX_SCRIPT: usize = 64 << 10;
/// Exit codes by which the gateway says that the program could not be executed.
const NOT_EXECUTED: [u8; 2] = [126, 127];
/// The words of `jsonFlag` that stand for no option.
const NO_FLAG: [&str; 4] = ["none", "off", "false", "-"];
/// The program that runs scripts on macOS.
const OSASCRIPT: &str = "/usr/bin/osascript";

/// Whether this build runs on macOS.
pub(super) const ON_MACOS: bool = cfg!(target_os = "macos");

/// Checks the source and converts it for the gateway. Errors leave the result unspecified, because nothing is served then.
pub(super) fn compile(
    spec: &CommandSpec,
    env: &CompileEnv<'_>,
    sink: &mut DiagnosticSink<'_>,
) -> (Source, IndexMap<String, ServiceTool>) {
    let CommandSpec {
        executable,
        env: variables,
        env_inject,
        secret_env,
        working_dir,
        json_flag,
        success_codes,
        limits: limits_spec,
        actions,
    } = spec;
    let at = FieldPath::spec(["command"]);
    not_in_a_cluster(env, "is a program", &at, sink);
    check_executable(executable, &at.key("executable"), sink);
    let environment = Environment { env: variables, inject: Some(env_inject), secret_env, patterns: true };
    let secret_env = environment.check(&at, sink);
    if let Some(folder) = working_dir {
        let path = at.key("workingDir");
        if !folder.starts_with('/') {
            sink.error(&path, "is not an absolute path", "write one that begins with /");
        } else if folder.len() > MAX_WORD || folder.contains('\0') {
            sink.error(&path, format!("must have at most {MAX_WORD} bytes, none of them zero"), "shorten it");
        }
    }
    let source = CommandSource {
        executable: executable.clone(),
        env: variables.clone(),
        env_inject: env_inject.clone(),
        secret_env,
        working_dir: working_dir.clone(),
        limits: limits(limits_spec.as_ref(), &at.key("limits"), sink),
    };
    let own = Common {
        last_words: flag_words(json_flag.as_deref(), &at, sink),
        success_codes: codes(success_codes.as_deref(), &at.key("successCodes"), sink),
    };
    let tools = tools_of(actions, &at.key("actions"), sink, |action, at, sink| tool(action, &own, at, sink));
    (Source::Command(source), tools)
}

/// What actions have unless they say otherwise.
struct Common {
    last_words: Vec<String>,
    success_codes: Vec<u8>,
}

/// Checks scripts and converts them for the gateway. Errors leave the result unspecified, because nothing is served then.
pub(super) fn compile_scripts(
    spec: &AppleScriptSpec,
    on_macos: bool,
    env: &CompileEnv<'_>,
    sink: &mut DiagnosticSink<'_>,
) -> (Source, IndexMap<String, ServiceTool>) {
    let AppleScriptSpec { limits: limits_spec, actions } = spec;
    let at = FieldPath::spec(["appleScript"]);
    if env.cluster.is_some() {
        not_in_a_cluster(env, "is run by a program", &at, sink);
    } else if !on_macos {
        let message = "runs on macOS only: `osascript` is a part of it";
        let remedy = "serve this manifest on macOS, or write a program for `command`";
        sink.because(Reason::UnsupportedSource).error(&at, message, remedy);
    }
    let source = CommandSource {
        executable: OSASCRIPT.to_owned(),
        env: Vec::new(),
        env_inject: IndexMap::new(),
        secret_env: IndexMap::new(),
        working_dir: None,
        limits: limits(limits_spec.as_ref(), &at.key("limits"), sink),
    };
    let tools = tools_of(actions, &at.key("actions"), sink, script);
    (Source::Command(source), tools)
}

fn not_in_a_cluster(env: &CompileEnv<'_>, what: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if env.cluster.is_some() {
        let message = format!(
            "{what}, and only `tamis serve` runs programs: in a cluster it would run next to the gateway's token and the \
             credentials of every exposition of its group"
        );
        let remedy = "run the program in a server of its own, and describe that server with `http` or `mcp`";
        sink.because(Reason::UnsupportedSource).error(at, message, remedy);
    }
}

/// Checks that a program is found without regard to the current folder.
fn check_executable(name: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if name.trim().is_empty() {
        sink.error(at, "names no program", "write a name that PATH has, such as git, or an absolute path");
    } else if name.len() > MAX_WORD || name.chars().any(char::is_control) {
        sink.error(at, format!("must have at most {MAX_WORD} bytes, and no control character"), "shorten it");
    } else if !name.starts_with('/') && (name.contains('/') || matches!(name, "." | "..")) {
        let remedy = "write an absolute path, or a name that PATH has";
        sink.error(at, "depends on the current folder", remedy);
    } else if name.contains(char::is_whitespace) && !name.starts_with('/') {
        let remedy = "write the program alone, and its first arguments in `command` of each action";
        sink.error(at, "contains a space, and no shell divides it into words", remedy);
    }
}

fn limits(spec: Option<&CommandLimitsSpec>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> CommandLimits {
    let Some(CommandLimitsSpec { timeout, output, processes, memory }) = spec else { return LIMITS };
    let output_bytes = output.as_ref().map(|quantity| {
        let bytes = quantity.bytes().filter(|bytes| (1..=MAX_OUTPUT).contains(bytes));
        bytes.unwrap_or_else(|| {
            let message = format!("`{}` is not a number of bytes from 1 to 1Gi", excerpt(&quantity.0));
            sink.error(&at.key("output"), message, "write a number, optionally with k, M, G, Ki, Mi or Gi");
            LIMITS.output_bytes
        })
    });
    let memory_bytes = memory.as_ref().map(|memory| {
        memory.bytes().unwrap_or_else(|| {
            let message = format!("`{}` is not a number of bytes from 16Mi to 1024Gi", excerpt(&memory.0.0));
            sink.error(&at.key("memory"), message, "write a number, optionally with k, M, G, Ki, Mi or Gi");
            Memory::LEAST
        })
    });
    if processes.is_some_and(|count| !(1..=MAX_PROCESSES).contains(&count)) {
        sink.error(&at.key("processes"), "is out of range", format!("write 1 to {MAX_PROCESSES}"));
    }
    CommandLimits {
        timeout_ms: timeout_ms(timeout.as_deref(), &at.key("timeout"), sink).unwrap_or(LIMITS.timeout_ms),
        output_bytes: output_bytes.unwrap_or(LIMITS.output_bytes),
        processes: processes.unwrap_or(LIMITS.processes),
        memory_bytes: memory_bytes.unwrap_or(LIMITS.memory_bytes),
    }
}

fn timeout_ms(text: Option<&str>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Option<u64> {
    let text = text?;
    let timeout = duration_ms(text).filter(|ms| (1..=MAX_TIMEOUT_MS).contains(ms));
    if timeout.is_none() {
        let message = format!("`{}` is not a duration from 1ms to 1h", excerpt(text));
        sink.error(at, message, "write a number with ms, s, m or h, for example 30s");
    }
    timeout
}

/// Returns the words of the option that makes a program print JSON.
fn flag_words(flag: Option<&str>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Vec<String> {
    let Some(flag) = flag else { return vec!["--json".to_owned()] };
    if NO_FLAG.contains(&flag.trim().to_ascii_lowercase().as_str()) {
        return Vec::new();
    }
    let path = at.key("jsonFlag");
    let words: Vec<String> = flag.split_whitespace().map(str::to_owned).collect();
    match words.first() {
        None => sink.error(&path, "is empty", "write the option, or `none`"),
        Some(first) if !first.starts_with('-') => {
            sink.error(&path, format!("`{}` is not an option", excerpt(first)), "begin it with -, or write `none`");
        }
        Some(_) => environment::words(&words, &path, sink),
    }
    words
}

fn codes(codes: Option<&[u8]>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Vec<u8> {
    let Some(codes) = codes else { return vec![0] };
    if codes.is_empty() {
        sink.error(at, "is empty, so no call would succeed", "write [0]");
    }
    for (index, code) in codes.iter().enumerate().filter(|(_, code)| NOT_EXECUTED.contains(code)) {
        let message = format!("{code} says that the program could not be executed");
        sink.error(&at.index(index), message, "remove it");
    }
    codes.to_vec()
}

fn tool(spec: &CommandActionSpec, own: &Common, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> ServiceTool {
    let CommandActionSpec {
        title,
        description,
        warnings,
        command,
        args: arg_specs,
        end_of_options,
        json_flag,
        success_codes,
        ndjson,
        response,
        risk: risk_spec,
        idempotent,
        retry: retry_spec,
        error_mapping,
    } = spec;
    environment::words(command, &at.key("command"), sink);
    let plain: IndexMap<String, ArgSpec> = arg_specs.iter().map(|(name, arg)| (name.clone(), arg.as_arg())).collect();
    args::check(&plain, &at.key("args"), sink);
    if let Some(word) = end_of_options
        && (!word.starts_with("--") || word.len() > MAX_WORD || word.contains('\0'))
    {
        sink.error(&at.key("endOfOptions"), "is not an option", "write `--`, or what the program has in its place");
    }
    let risk = risk(*risk_spec, *idempotent);
    ServiceTool {
        title: title.clone(),
        description: action::described(description.as_deref(), warnings),
        input_schema: args::input_schema(&plain),
        output_schema: None,
        response_type: response.as_ref().and_then(|response| response.kind),
        risk,
        pagination: None,
        call: Call::Command(Box::new(CommandCall {
            words: command.clone(),
            arguments: arguments(arg_specs, &at.key("args"), sink),
            defaults: args::defaults(&plain),
            last_words: match json_flag {
                None => own.last_words.clone(),
                flag => flag_words(flag.as_deref(), at, sink),
            },
            end_of_options: end_of_options.clone(),
            json_input: false,
            success_codes: match success_codes {
                None => own.success_codes.clone(),
                own => codes(own.as_deref(), &at.key("successCodes"), sink),
            },
            ndjson: *ndjson,
            extract: extract(response.as_ref(), at, sink),
            retry: retry_spec.as_ref().and_then(|spec| retry(spec, risk, &at.key("retry"), sink)),
            error_mapping: action::texts_by_code(
                error_mapping,
                1..=u8::MAX,
                ("is not an exit code of a failure", "write 1 to 255"),
                &at.key("errorMapping"),
                sink,
            ),
            timeout_ms: None,
        })),
    }
}

/// Returns how each argument is written.
fn arguments(
    specs: &IndexMap<String, CommandArgSpec>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> IndexMap<String, CommandArgument> {
    let mut arguments = IndexMap::new();
    let mut list: Option<&str> = None;
    let mut flags: Vec<(String, &str)> = Vec::new();
    for (name, spec) in specs {
        let at = at.key(name);
        let style = style(spec);
        let is_list = spec.kind == ArgType::Array;
        let misfit = match (style, spec.kind) {
            (CommandStyle::Boolean, ArgType::Boolean) | (CommandStyle::Json, _) => None,
            (CommandStyle::Boolean, _) => Some("`boolean` is for arguments of type boolean"),
            (CommandStyle::Comma, ArgType::Array) => None,
            (CommandStyle::Comma, _) => Some("`comma` is for arguments of type array"),
            (_, ArgType::Object) => Some("an object has no text"),
            _ => None,
        };
        if let Some(misfit) = misfit {
            sink.error(&at.key("style"), misfit, "choose another style, or `json`, which is for any type");
        }
        let has_parts = spec.items.as_ref().is_some_and(|items| matches!(items.kind, ArgType::Array | ArgType::Object));
        if is_list && has_parts && style != CommandStyle::Json {
            sink.error(&at.key("items"), "elements that are lists or objects have no text", "set `style: json`");
        }
        if style == CommandStyle::Positional {
            if let Some(flag) = &spec.flag {
                let message = format!("`{}` has no place: the argument is positional", excerpt(flag));
                sink.error(&at.key("flag"), message, "remove it, or set another style");
            }
            // The elements of a list would move what comes after them.
            if let Some(list) = list {
                let message = format!("comes after the list `{list}`, whose elements would move it");
                sink.error(&at, message, "write the list last");
            }
            list = list.or(is_list.then_some(name));
            arguments.insert(name.clone(), CommandArgument { style, flag: None });
            continue;
        }
        let flag = spec.flag.clone().unwrap_or_else(|| format!("--{}", name.replace('_', "-")));
        check_flag(&flag, spec.flag.is_some(), style, &at, sink);
        if let Some((_, other)) = flags.iter().find(|(known, _)| *known == flag) {
            let message = format!("`{}` is the option of `{other}` too", excerpt(&flag));
            sink.error(&at, message, "set another `flag` for one of them");
        }
        flags.push((flag.clone(), name));
        arguments.insert(name.clone(), CommandArgument { style, flag: Some(flag) });
    }
    arguments
}

fn style(spec: &CommandArgSpec) -> CommandStyle {
    match (spec.style, spec.kind) {
        (Some(CommandArgStyle::Positional), _) => CommandStyle::Positional,
        (Some(CommandArgStyle::Flag), _) => CommandStyle::Flag,
        (Some(CommandArgStyle::Joined), _) => CommandStyle::Joined,
        (Some(CommandArgStyle::Boolean), _) | (None, ArgType::Boolean) => CommandStyle::Boolean,
        (Some(CommandArgStyle::Comma), _) => CommandStyle::Comma,
        (Some(CommandArgStyle::Json), _) | (None, ArgType::Object) => CommandStyle::Json,
        (None, _) => CommandStyle::Flag,
    }
}

fn check_flag(flag: &str, is_own: bool, style: CommandStyle, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let name = flag.trim_start_matches('-');
    let dashes = flag.len() - name.len();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let path = if is_own { at.key("flag") } else { at.clone() };
    if !(1..=2).contains(&dashes) || name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        let message = format!("`{}` is not an option", excerpt(flag));
        sink.error(&path, message, "write - or -- and a name of A-Z a-z 0-9 - _ .");
    } else if style == CommandStyle::Joined && dashes == 1 {
        let remedy = "write an option that begins with --, or set `style: flag`";
        sink.error(&path, "`joined` writes --name=VALUE, which an option with one dash has not", remedy);
    }
}

/// Programs change something unless the manifest says otherwise, or calls the harm low.
fn risk(spec: Option<RiskSpec>, idempotent: Option<bool>) -> Risk {
    let RiskSpec { level, mutating } = spec.unwrap_or_default();
    let mutating = mutating.unwrap_or(level != Some(RiskLevel::Low));
    let harmful = level.is_some_and(|level| level >= RiskLevel::High);
    Risk { mutating, destructive: mutating && harmful, idempotent: idempotent.unwrap_or(!mutating) }
}

fn extract(response: Option<&ResponseSpec>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Option<String> {
    let extract = response?.extract.as_ref().filter(|path| !path.is_empty())?;
    action::dotted(extract, &at.key("response").key("extract"), sink);
    Some(extract.clone())
}

fn retry(spec: &CommandRetrySpec, risk: Risk, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Option<Retry> {
    let CommandRetrySpec { max_attempts, backoff_ms, retry_on } = spec;
    let backoff_ms = action::attempts(*max_attempts, *backoff_ms, at, sink);
    if retry_on.is_empty() {
        sink.error(&at.key("retryOn"), "is empty, so nothing is repeated", "write exit codes, or remove `retry`");
    }
    if risk.mutating && !risk.idempotent && *max_attempts > 1 {
        sink.warning(at, "a call that changes something may be executed twice", "remove it, or set `idempotent: true`");
    }
    let retry_on = retry_on.iter().copied().map(u16::from).collect();
    Some(Retry { max_attempts: *max_attempts, backoff_ms, retry_on })
}

fn script(spec: &AppleScriptActionSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> ServiceTool {
    let AppleScriptActionSpec {
        title,
        description,
        warnings,
        inline_script,
        args: arg_specs,
        response,
        risk: risk_spec,
        idempotent,
    } = spec;
    let InlineScriptSpec { language, timeout, source } = inline_script;
    let path = at.key("inlineScript");
    if source.trim().is_empty() || source.len() > MAX_SCRIPT || source.contains('\0') {
        let message = format!("must have 1 to {MAX_SCRIPT} bytes, none of them zero");
        sink.error(&path.key("source"), message, "write the script");
    }
    args::check(arg_specs, &at.key("args"), sink);
    for (name, _) in arg_specs.iter().filter(|(_, arg)| arg.style.is_some()) {
        let message = "has no meaning: a script gets its arguments as JSON";
        sink.error(&at.key("args").key(name).key("style"), message, "remove it");
    }
    let language = match language.unwrap_or(ScriptLanguage::Jxa) {
        ScriptLanguage::Jxa => "JavaScript",
        ScriptLanguage::AppleScript => "AppleScript",
    };
    ServiceTool {
        title: title.clone(),
        description: action::described(description.as_deref(), warnings),
        input_schema: args::input_schema(arg_specs),
        output_schema: None,
        response_type: response.as_ref().and_then(|response| response.kind),
        risk: risk(*risk_spec, *idempotent),
        pagination: None,
        call: Call::Command(Box::new(CommandCall {
            words: ["-l", language, "-e", source.as_str()].map(str::to_owned).to_vec(),
            arguments: IndexMap::new(),
            defaults: args::defaults(arg_specs),
            last_words: Vec::new(),
            end_of_options: None,
            json_input: true,
            success_codes: vec![0],
            ndjson: false,
            extract: extract(response.as_ref(), at, sink),
            retry: None,
            error_mapping: IndexMap::new(),
            timeout_ms: timeout_ms(timeout.as_deref(), &path.key("timeout"), sink),
        })),
    }
}

/// Stops an exposition whose ConfigurationPlan changes requests: a program gets none.
pub(super) fn check_plan(
    document: &ServiceDocument,
    plan: &ConfigurationPlanSpec,
    path: &FieldPath,
) -> Result<(), Stop> {
    if matches!(document.source, Source::Program(_) | Source::Command(_))
        && (plan.endpoint.is_some() || plan.auth.is_some() || plan.headers.is_some())
    {
        let message = "the plan changes requests, and a program gets none";
        let remedy = "remove `endpoint`, `auth` and `headers` from the plan, or use a plan without them";
        return Err(Stop::new(Reason::InvalidManifest, path.clone(), message, remedy));
    }
    Ok(())
}
