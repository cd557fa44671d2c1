//! The check of one document. It counts its steps, and ends at the fifth failure.

mod equality;

use std::cmp::Ordering;
use std::collections::hash_map::RandomState;
use std::fmt;

use smallvec::SmallVec;

use crate::decimal::Decimal;
use crate::document::{Document, Kind, Value, clipped};
use crate::node::{
    ArrayRules, Condition, Constants, Logic, Node, NodeId, NumberRules, ObjectRules, Property, Schema, StringRules,
    Types,
};
use crate::pattern::Searches;

/// The steps that every check may take.
pub const STEPS: u64 = 100_000;
/// The additional steps that a check may take for each byte of the document.
pub const STEPS_PER_BYTE: u64 = 64;
/// The number of failures that are named.
const NAMED: usize = 5;
/// The number of schemas within each other on the path to one value.
const FRAMES: usize = 512;
/// The bytes of text that count as one step.
const STRIDE: usize = 16;

/// Returns the steps that a check of `bytes` bytes may take.
///
/// A step is one schema applied to one value, 16 bytes of text, or eight states of a pattern for one byte of text.
#[must_use]
pub fn steps_for(bytes: usize) -> u64 {
    STEPS + STEPS_PER_BYTE * bytes as u64
}

/// Why a document is not valid. Names places and rules of the schema, never a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// The first failures, and whether the check ended before it found all.
    Failures(Vec<String>, bool),
    /// The check needs more than this number of steps.
    Work(u64),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failures(named, more) => {
                f.write_str(&named.join("; "))?;
                f.write_str(if *more { "; and perhaps more" } else { "" })
            }
            Self::Work(steps) => {
                write!(
                    f,
                    "checking the arguments takes more than {steps} steps; send fewer values, or simplify the input schema"
                )
            }
        }
    }
}

impl Schema {
    /// Validates a document.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn check(&self, document: &Document<'_>) -> Result<(), Invalid> {
        self.check_within(document, steps_for(document.bytes())).map(drop)
    }

    /// Validates a document within a given number of steps. Returns the number of steps that it took.
    ///
    /// # Errors [`Invalid`].
    pub fn check_within(&self, document: &Document<'_>, steps: u64) -> Result<u64, Invalid> {
        let mut check = Check {
            schema: self,
            left: steps,
            frames: 0,
            path: SmallVec::new(),
            failures: Vec::new(),
            hashing: None,
            searches: Searches::default(),
        };
        match check.value(self.root, document.root(), true, None) {
            Ok(true) => Ok(steps - check.left),
            Ok(false) => Err(Invalid::Failures(check.failures, false)),
            Err(Stop::Enough) => Err(Invalid::Failures(check.failures, true)),
            Err(Stop::Work) => Err(Invalid::Work(steps)),
        }
    }
}

/// Why a check ends early.
enum Stop {
    /// It has found enough failures.
    Enough,
    /// It has used all its steps.
    Work,
}

type Verdict = Result<bool, Stop>;

/// Which members or elements of one value a schema has evaluated.
type Marks = Vec<bool>;

#[derive(Clone, Copy)]
enum Place<'d> {
    Key(Value<'d>),
    Index(usize),
}

struct Check<'s, 'd> {
    schema: &'s Schema,
    left: u64,
    frames: usize,
    path: SmallVec<[Place<'d>; 4]>,
    failures: Vec<String>,
    hashing: Option<RandomState>,
    searches: Searches<'s>,
}

/// Continues after a failure if failures are named; otherwise returns the verdict at once.
macro_rules! hold {
    ($valid:ident, $say:expr, $verdict:expr) => {
        if !$verdict {
            $valid = false;
            if !$say {
                return Ok(false);
            }
        }
    };
}

impl<'s, 'd> Check<'s, 'd> {
    fn spend(&mut self, steps: u64) -> Result<(), Stop> {
        self.left = self.left.checked_sub(steps).ok_or(Stop::Work)?;
        Ok(())
    }

    fn spend_text(&mut self, bytes: usize) -> Result<(), Stop> {
        self.spend(1 + (bytes / STRIDE) as u64)
    }

    /// Records a failure if failures are named.
    fn fail(&mut self, say: bool, what: impl FnOnce() -> String) -> Verdict {
        if say {
            let place = self.place();
            let what = what();
            self.failures.push(if place.is_empty() { what } else { format!("`{place}`: {what}") });
            if self.failures.len() == NAMED {
                return Err(Stop::Enough);
            }
        }
        Ok(false)
    }

    fn place(&self) -> String {
        let segments = self.path.iter().map(|place| match place {
            Place::Key(key) => clipped(&key.as_str().unwrap_or_default()),
            Place::Index(index) => index.to_string(),
        });
        let place = segments.collect::<Vec<_>>().join(".");
        match place.char_indices().nth(200) {
            Some((at, _)) => format!("{}..", &place[..at]),
            None => place,
        }
    }

    /// Applies a schema to a part of the current value.
    fn part(&mut self, place: Place<'d>, id: NodeId, value: Value<'d>, say: bool) -> Verdict {
        self.path.push(place);
        let verdict = self.value(id, value, say, None);
        self.path.pop();
        verdict
    }

    /// Applies a schema to a value. `marks` collects what is evaluated, for an enclosing `unevaluated..`.
    fn value(&mut self, id: NodeId, value: Value<'d>, say: bool, marks: Option<&mut Marks>) -> Verdict {
        self.spend(1)?;
        if self.frames == FRAMES {
            return Err(Stop::Work);
        }
        self.frames += 1;
        let verdict = self.rules(&self.schema.nodes[id], value, say, marks);
        self.frames -= 1;
        verdict
    }

    fn rules(&mut self, node: &'s Node, value: Value<'d>, say: bool, marks: Option<&mut Marks>) -> Verdict {
        let Node { never, types, constants, number, string, array, object, logic } = node;
        if *never {
            return self.fail(say, || "is not allowed".to_owned());
        }
        let mut valid = true;
        let kind = value.kind();
        if let Some(types) = types {
            hold!(valid, say, self.types(*types, kind, value, say)?);
        }
        if let Some(constants) = constants {
            hold!(valid, say, self.constants(constants, value, say)?);
        }
        let unevaluated = match kind {
            Kind::Array => array.as_ref().and_then(|rules| rules.unevaluated),
            Kind::Object => object.as_ref().and_then(|rules| rules.unevaluated),
            _ => None,
        };
        let mut own = match unevaluated {
            Some(_) => Some(self.marks(value)?),
            None => None,
        };
        let (mut outer, mut inner) = match &mut own {
            Some(own) => (marks, Some(own)),
            None => (None, marks),
        };
        match kind {
            Kind::Number => {
                if let Some(rules) = number {
                    hold!(valid, say, self.number(rules, value, say)?);
                }
            }
            Kind::String => {
                if let Some(rules) = string {
                    hold!(valid, say, self.string(rules, value, say)?);
                }
            }
            Kind::Array => {
                if let Some(rules) = array {
                    hold!(valid, say, self.array(rules, value, say, inner.as_deref_mut())?);
                }
            }
            Kind::Object => {
                if let Some(rules) = object {
                    hold!(valid, say, self.object(rules, value, say, inner.as_deref_mut())?);
                }
            }
            Kind::Null | Kind::Boolean => {}
        }
        if let Some(logic) = logic {
            hold!(valid, say, self.logic(logic, value, say, inner)?);
        }
        if let (Some(id), Some(own)) = (unevaluated, &mut own) {
            hold!(valid, say, self.unevaluated(id, value, say, own)?);
            if let Some(outer) = &mut outer {
                outer.fill(true);
            }
        }
        Ok(valid)
    }

    fn types(&mut self, types: Types, kind: Kind, value: Value<'d>, say: bool) -> Verdict {
        let mut bits = Types::bit(kind);
        if kind == Kind::Number && types.0 & Types::INTEGER != 0 {
            self.spend_text(value.raw().len())?;
            if Decimal::parse(value.raw()).is_some_and(|number| number.is_integer()) {
                bits |= Types::INTEGER;
            }
        }
        if types.0 & bits != 0 { Ok(true) } else { self.fail(say, || format!("is not of type {}", types.describe())) }
    }

    fn constants(&mut self, constants: &'s Constants, value: Value<'d>, say: bool) -> Verdict {
        let mut valid = true;
        for list in &constants.lists {
            let found = match value.as_str() {
                Some(text) => {
                    self.spend_text(text.len())?;
                    list.strings.contains(text.as_ref())
                }
                None => {
                    let mut found = false;
                    for at in &list.others {
                        found = found || self.equal(self.schema.source.value(*at), value)?;
                    }
                    found
                }
            };
            if !found {
                valid = self.fail(say, || format!("is not one of {}", list.described))?;
            }
        }
        Ok(valid)
    }

    fn number(&mut self, rules: &'s NumberRules, value: Value<'d>, say: bool) -> Verdict {
        let NumberRules { minimum, above, maximum, below, multiple } = rules;
        let source = &self.schema.source;
        self.spend_text(value.raw().len())?;
        let Some(number) = Decimal::parse(value.raw()) else { return self.fail(say, || "is not a number".to_owned()) };
        let bound = |at: &Option<usize>| at.map(|at| source.value(at).raw());
        let compared = |text: &str| Decimal::parse(text).map(|bound| number.cmp(&bound));
        let mut valid = true;
        type Bound<'t> = (Option<&'t str>, fn(Ordering) -> bool, &'static str);
        let rules: [Bound<'_>; 4] = [
            (bound(minimum), Ordering::is_ge, "is less than"),
            (bound(above), Ordering::is_gt, "is not greater than"),
            (bound(maximum), Ordering::is_le, "is greater than"),
            (bound(below), Ordering::is_lt, "is not less than"),
        ];
        for (text, fits, word) in rules {
            let Some(text) = text else { continue };
            self.spend_text(text.len())?;
            if !compared(text).is_some_and(fits) {
                valid = self.fail(say, || format!("{word} {text}"))?;
            }
        }
        if let Some((divisor, at)) = multiple
            && !divisor.divides(&number)
        {
            valid = self.fail(say, || format!("is not a multiple of {}", source.value(*at).raw()))?;
        }
        Ok(valid)
    }

    fn string(&mut self, rules: &'s StringRules, value: Value<'d>, say: bool) -> Verdict {
        let StringRules { min, max, pattern } = rules;
        self.spend_text(value.raw().len())?;
        let text = value.as_str().unwrap_or_default();
        let mut valid = true;
        if min.is_some() || max.is_some() {
            let length = text.chars().count();
            hold!(valid, say, self.size(length, *min, *max, "characters", say)?);
        }
        if let Some(pattern) = pattern {
            self.spend(pattern.cost(text.len()))?;
            if !self.searches.is_match(pattern, &text) {
                valid = self.fail(say, || format!("does not match {}", clipped(&pattern.text)))?;
            }
        }
        Ok(valid)
    }

    fn size(&mut self, size: usize, min: Option<usize>, max: Option<usize>, what: &str, say: bool) -> Verdict {
        if let Some(min) = min.filter(|min| size < *min) {
            return self.fail(say, || format!("has fewer than {min} {what}"));
        }
        if let Some(max) = max.filter(|max| size > *max) {
            return self.fail(say, || format!("has more than {max} {what}"));
        }
        Ok(true)
    }

    fn array(&mut self, rules: &'s ArrayRules, value: Value<'d>, say: bool, mut marks: Option<&mut Marks>) -> Verdict {
        let ArrayRules {
            prefix,
            items,
            contains,
            min_contains,
            max_contains,
            min,
            max,
            unique,
            unevaluated: _,
            contains_evaluates,
        } = rules;
        let mut valid = true;
        hold!(valid, say, self.size(value.count(), *min, *max, "elements", say)?);
        if !prefix.is_empty() || items.is_some() {
            for (index, element) in value.elements().enumerate() {
                let Some(id) = prefix.get(index).or(items.as_ref()) else { break };
                hold!(valid, say, self.part(Place::Index(index), *id, element, say)?);
                if let Some(marks) = &mut marks {
                    marks[index] = true;
                }
            }
        }
        if let Some(id) = contains {
            let mut found = 0;
            for (index, element) in value.elements().enumerate() {
                if self.part(Place::Index(index), *id, element, false)? {
                    found += 1;
                    if let Some(marks) = marks.as_mut().filter(|_| *contains_evaluates) {
                        marks[index] = true;
                    }
                }
            }
            let few = found < min_contains.unwrap_or(1);
            if few || max_contains.is_some_and(|max| found > max) {
                let what = if few { "few" } else { "many" };
                valid = self.fail(say, || format!("has too {what} elements that fit `contains`"))?;
            }
        }
        if *unique && !self.are_unique(value)? {
            valid = self.fail(say, || "has two elements that are equal".to_owned())?;
        }
        Ok(valid)
    }

    fn object(
        &mut self,
        rules: &'s ObjectRules,
        value: Value<'d>,
        say: bool,
        mut marks: Option<&mut Marks>,
    ) -> Verdict {
        let ObjectRules {
            properties,
            required,
            required_names,
            patterns,
            additional,
            names,
            min,
            max,
            dependent_required,
            dependent_schemas,
            unevaluated: _,
        } = rules;
        let mut valid = true;
        hold!(valid, say, self.size(value.count(), *min, *max, "members", say)?);
        let mut there = 0;
        let by_name = !properties.is_empty() || !patterns.is_empty() || additional.is_some() || names.is_some();
        for (index, (key, member)) in value.members().enumerate().filter(|_| by_name) {
            let name = key.as_str().unwrap_or_default();
            self.spend_text(name.len())?;
            let Property { schema, required } = properties.get(name.as_ref()).copied().unwrap_or_default();
            there += usize::from(required);
            let mut evaluated = false;
            if let Some(id) = schema {
                evaluated = true;
                hold!(valid, say, self.part(Place::Key(key), id, member, say)?);
            }
            for (pattern, id) in patterns {
                self.spend(pattern.cost(name.len()))?;
                if self.searches.is_match(pattern, &name) {
                    evaluated = true;
                    hold!(valid, say, self.part(Place::Key(key), *id, member, say)?);
                }
            }
            if let (false, Some(id)) = (evaluated, additional) {
                evaluated = true;
                hold!(valid, say, self.additional(key, *id, member, say)?);
            }
            if let Some(id) = names {
                hold!(valid, say, self.part(Place::Key(key), *id, key, say)?);
            }
            if let (true, Some(marks)) = (evaluated, &mut marks) {
                marks[index] = true;
            }
        }
        if there < *required {
            hold!(valid, say, self.required(required_names, value, say)?);
        }
        for (name, needed) in dependent_required {
            if self.has(value, name)? {
                hold!(valid, say, self.required(needed, value, say)?);
            }
        }
        for (name, id) in dependent_schemas {
            if self.has(value, name)? {
                hold!(valid, say, self.value(*id, value, say, marks.as_deref_mut())?);
            }
        }
        Ok(valid)
    }

    /// Checks a member that no other rule of the object names. If no such member is allowed, the failure is at the
    /// member and says that its name is unknown.
    fn additional(&mut self, key: Value<'d>, id: NodeId, member: Value<'d>, say: bool) -> Verdict {
        if self.schema.nodes[id].never {
            self.path.push(Place::Key(key));
            let verdict = self.fail(say, || "is not known here".to_owned());
            self.path.pop();
            return verdict;
        }
        self.part(Place::Key(key), id, member, say)
    }

    fn required(&mut self, names: &'s [Box<str>], value: Value<'d>, say: bool) -> Verdict {
        let mut valid = true;
        for name in names {
            if !self.has(value, name)? {
                valid = self.fail(say, || format!("`{}` is required", clipped(name)))?;
                if !say {
                    break;
                }
            }
        }
        Ok(valid)
    }

    fn has(&mut self, value: Value<'d>, name: &str) -> Verdict {
        self.spend(1 + value.count() as u64)?;
        Ok(value.get(name).is_some())
    }

    fn logic(&mut self, logic: &'s Logic, value: Value<'d>, say: bool, mut marks: Option<&mut Marks>) -> Verdict {
        let Logic { all, any, one, not, condition } = logic;
        let mut valid = true;
        for id in all {
            hold!(valid, say, self.value(*id, value, say, marks.as_deref_mut())?);
        }
        if let Some(any) = any {
            let mut found = false;
            for id in any {
                found |= self.branch(*id, value, marks.as_deref_mut())?;
                // Every branch that is valid contributes to what is evaluated.
                if found && marks.is_none() {
                    break;
                }
            }
            if !found {
                valid = self.fail(say, || "fits none of the schemas of `anyOf`".to_owned())?;
            }
        }
        if let Some(one) = one {
            let mut found = 0;
            for id in one {
                found += usize::from(self.branch(*id, value, marks.as_deref_mut())?);
                if found == 2 {
                    break;
                }
            }
            if found != 1 {
                let word = if found == 0 { "none" } else { "more than one" };
                valid = self.fail(say, || format!("fits {word} of the schemas of `oneOf`"))?;
            }
        }
        if let Some(id) = not
            && self.value(*id, value, false, None)?
        {
            valid = self.fail(say, || "fits the schema of `not`".to_owned())?;
        }
        if let Some(Condition { when, then, otherwise }) = *condition {
            let chosen = if self.branch(when, value, marks.as_deref_mut())? { then } else { otherwise };
            if let Some(id) = chosen {
                hold!(valid, say, self.value(id, value, say, marks)?);
            }
        }
        Ok(valid)
    }

    /// Applies a schema that may fail without failing the whole. What it evaluates counts only if it is valid.
    fn branch(&mut self, id: NodeId, value: Value<'d>, marks: Option<&mut Marks>) -> Verdict {
        let Some(marks) = marks else { return self.value(id, value, false, None) };
        let mut own = self.marks(value)?;
        let fits = self.value(id, value, false, Some(&mut own))?;
        if fits {
            marks.iter_mut().zip(own).for_each(|(mark, own)| *mark |= own);
        }
        Ok(fits)
    }

    /// Returns marks for the members or elements of a value, with none set.
    fn marks(&mut self, value: Value<'d>) -> Result<Marks, Stop> {
        self.spend_text(value.count())?;
        Ok(vec![false; value.count()])
    }

    fn unevaluated(&mut self, id: NodeId, value: Value<'d>, say: bool, marks: &[bool]) -> Verdict {
        let mut valid = true;
        let left = |index: &usize| !marks.get(*index).copied().unwrap_or_default();
        for (index, element) in value.elements().enumerate().filter(|(index, _)| left(index)) {
            hold!(valid, say, self.part(Place::Index(index), id, element, say)?);
        }
        for (_, (key, member)) in value.members().enumerate().filter(|(index, _)| left(index)) {
            hold!(valid, say, self.additional(key, id, member, say)?);
        }
        Ok(valid)
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
