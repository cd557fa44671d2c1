//! What a legacy client can be asked for, as its `initialize` declares it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::input::{CannotAsk, InputKind};

/// A client's capabilities for input: a bit for each that the gateway knows. The gateway declares these to a server, and drops
/// all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Capabilities(u8);

const FORM: u8 = 1;
const URL: u8 = 1 << 1;
const SAMPLING: u8 = 1 << 2;
const SAMPLING_TOOLS: u8 = 1 << 3;
const SAMPLING_CONTEXT: u8 = 1 << 4;
const ROOTS: u8 = 1 << 5;

#[derive(Default, Deserialize)]
struct Declared<'a> {
    #[serde(borrow, default)]
    elicitation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    sampling: Option<&'a RawValue>,
    #[serde(borrow, default)]
    roots: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Modes<'a> {
    #[serde(borrow, default)]
    form: Option<&'a RawValue>,
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    context: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Mode<'a> {
    #[serde(borrow, default)]
    mode: Option<&'a RawValue>,
}

impl Capabilities {
    /// All of them, for a list of tools: some servers list a tool only to clients that can be asked for what it needs.
    pub(crate) const ALL: Self = Self(FORM | SAMPLING | ROOTS);

    /// Reads the member `capabilities` of `initialize`. What has a wrong type is not declared.
    pub(crate) fn read(declared: Option<&RawValue>) -> Self {
        let Declared { elicitation, sampling, roots } = object(declared).unwrap_or_default();
        let mut bits = 0;
        let mut set = |is: bool, bit| bits |= if is { bit } else { 0 };
        if let Some(Modes { form, url, .. }) = object::<Modes<'_>>(elicitation) {
            // Without modes, as the version 2025-06-18 declares it, forms are meant.
            set(form.is_some() || url.is_none(), FORM);
            set(url.is_some(), URL);
        }
        if let Some(Modes { tools, context, .. }) = object::<Modes<'_>>(sampling) {
            set(true, SAMPLING);
            set(tools.is_some(), SAMPLING_TOOLS);
            set(context.is_some(), SAMPLING_CONTEXT);
        }
        set(roots.is_some_and(|roots| roots.get().starts_with('{')), ROOTS);
        Self(bits)
    }

    /// Returns whether nothing is declared.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    pub(super) fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Returns the members of the capabilities for a server, as JSON without braces.
    pub(crate) fn members(self) -> String {
        let mut members = Vec::new();
        match (self.has(FORM), self.has(URL)) {
            (false, false) => {}
            // Servers of 2025-06-18 know no modes.
            (true, false) => members.push(r#""elicitation":{}"#.to_owned()),
            (false, true) => members.push(r#""elicitation":{"url":{}}"#.to_owned()),
            (true, true) => members.push(r#""elicitation":{"form":{},"url":{}}"#.to_owned()),
        }
        if self.has(SAMPLING) {
            let parts = [(SAMPLING_CONTEXT, r#""context":{}"#), (SAMPLING_TOOLS, r#""tools":{}"#)];
            let parts: Vec<_> = parts.into_iter().filter(|(bit, _)| self.has(*bit)).map(|(_, part)| part).collect();
            members.push(format!(r#""sampling":{{{}}}"#, parts.join(",")));
        }
        if self.has(ROOTS) {
            members.push(r#""roots":{}"#.to_owned());
        }
        members.join(",")
    }

    /// Checks that the client can be asked for this. `params` are the parameters of the server's request, as JSON.
    ///
    /// # Errors
    /// [`CannotAsk`].
    pub(crate) fn check(self, kind: InputKind, params: Option<&[u8]>) -> Result<(), CannotAsk> {
        let is_declared = match kind {
            InputKind::Elicitation => self.has(FORM | URL),
            InputKind::Sampling => self.has(SAMPLING),
            InputKind::Roots => self.has(ROOTS),
        };
        if !is_declared {
            return Err(CannotAsk::Undeclared(Some(kind)));
        }
        if kind == InputKind::Elicitation {
            let mode = params.and_then(|params| serde_json::from_slice::<Mode<'_>>(params).ok()).and_then(|m| m.mode);
            let bit = match mode.map(RawValue::get) {
                None | Some(r#""form""#) => FORM,
                Some(r#""url""#) => URL,
                Some(_) => 0,
            };
            if !self.has(bit) {
                return Err(CannotAsk::Mode);
            }
        }
        Ok(())
    }
}

fn object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    raw.filter(|raw| raw.get().starts_with('{')).and_then(|raw| serde_json::from_str(raw.get()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Capabilities {
        Capabilities::read(Some(serde_json::from_str(text).unwrap()))
    }

    #[test]
    fn the_gateway_declares_what_the_client_declares_and_it_knows() {
        for (declared, members) in [
            ("{}", ""),
            ("[]", ""),
            ("7", ""),
            (r#"{"elicitation":true,"sampling":null,"roots":[]}"#, ""),
            (r#"{"elicitation":{}}"#, r#""elicitation":{}"#),
            (r#"{"elicitation":{"form":{"applyDefaults":true}}}"#, r#""elicitation":{}"#),
            (r#"{"elicitation":{"url":{}}}"#, r#""elicitation":{"url":{}}"#),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, r#""elicitation":{"form":{},"url":{}}"#),
            (r#"{"sampling":{}}"#, r#""sampling":{}"#),
            (
                r#"{"tasks":{"list":{}},"sampling":{"tools":{},"context":{},"x":1},"roots":{"listChanged":true}}"#,
                r#""sampling":{"context":{},"tools":{}},"roots":{}"#,
            ),
        ] {
            let capabilities = read(declared);
            assert_eq!(capabilities.members(), members, "{declared}");
            assert_eq!(capabilities.is_empty(), members.is_empty(), "{declared}");
            assert_eq!(Capabilities::of_bits(capabilities.bits()), capabilities);
            assert_eq!(
                read(&format!("{{{members}}}")),
                capabilities,
                "{declared}: what the gateway declares reads the same"
            );
        }
        assert!(Capabilities::read(None).is_empty());
        assert_eq!(Capabilities::ALL.members(), r#""elicitation":{},"sampling":{},"roots":{}"#);
    }

    #[test]
    fn a_client_is_asked_for_what_it_has_declared() {
        use InputKind::{Elicitation, Roots, Sampling};
        let undeclared = |kind| Err(CannotAsk::Undeclared(Some(kind)));
        for (declared, kind, params, expected) in [
            ("{}", Elicitation, None, undeclared(Elicitation)),
            ("{}", Sampling, None, undeclared(Sampling)),
            ("{}", Roots, None, undeclared(Roots)),
            (r#"{"roots":{}}"#, Roots, None, Ok(())),
            (r#"{"sampling":{}}"#, Sampling, Some("{}"), Ok(())),
            (r#"{"elicitation":{}}"#, Elicitation, None, Ok(())),
            (r#"{"elicitation":{}}"#, Elicitation, Some(r#"{"message":"m"}"#), Ok(())),
            (r#"{"elicitation":{}}"#, Elicitation, Some(r#"{"mode":"form"}"#), Ok(())),
            (r#"{"elicitation":{}}"#, Elicitation, Some(r#"{"mode":"url"}"#), Err(CannotAsk::Mode)),
            (r#"{"elicitation":{"url":{}}}"#, Elicitation, Some(r#"{"mode":"url"}"#), Ok(())),
            (r#"{"elicitation":{"url":{}}}"#, Elicitation, Some("{}"), Err(CannotAsk::Mode)),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, Elicitation, Some(r#"{"mode":"voice"}"#), Err(CannotAsk::Mode)),
        ] {
            assert_eq!(read(declared).check(kind, params.map(str::as_bytes)), expected, "{declared} {params:?}");
        }
    }
}
