//! Remembers the members of objects: the objects of a list mostly have the same keys in the same order.
//!
//! The text between two values of an object, `,"key":` with its whitespace, is remembered together with the meaning of
//! the key. If the next object has the same bytes at the same place, one comparison replaces the search for the end of
//! the key, the lookup of the key and the checks of the punctuation. If it has others, the walk reads them as usual, and
//! they replace what was remembered. So the shapes decide how long a walk takes, and never what it finds.

use std::cell::Cell;

use super::simd;
use super::spare;

/// Maximum bytes of a text that is remembered.
const TEXT: usize = 32;

/// Maximum number of members that are remembered: as many as a [`Number`] distinguishes.
const MEMBERS: usize = 256;

/// The number of unexpected members after which their share counts.
const PATIENCE: usize = 64;

thread_local! {
    static SPARE: Cell<Option<Box<Shapes>>> = const { Cell::new(None) };
}

/// The number of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(u8);

impl Number {
    /// No member.
    const NONE: Self = Self(0);
    /// The place of the objects at which the walks begin.
    pub(super) const ROOT: Self = Self(1);

    #[inline(always)]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A member that an object had, and the first member of the objects that were its value.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// The bytes from the opening bracket or the end of the previous value to the value.
    text: [u8; TEXT],
    /// One bit for each byte of the text. If the text is too long, [`NEVER`].
    mask: u64,
    length: u8,
    /// Bytes of whitespace in the text.
    blanks: u8,
    key: Option<u32>,
    /// The member that followed.
    next: Number,
    /// The first member of the objects in the value, and the reader of those objects.
    first: Number,
    reader: usize,
}

/// A mask that no text matches.
const NEVER: u64 = 1 << TEXT;

impl Member {
    const EMPTY: Self = Self {
        text: [0; TEXT],
        mask: NEVER,
        length: 0,
        blanks: 0,
        key: None,
        next: Number::NONE,
        first: Number::NONE,
        reader: usize::MAX,
    };

    fn set(&mut self, text: &[u8], blanks: usize, key: Option<u32>) {
        self.key = key;
        self.mask = NEVER;
        if let Some(to) = self.text.get_mut(..text.len()) {
            to.copy_from_slice(text);
            self.mask = (NEVER - 1) >> (TEXT - text.len());
            // Both are at most `TEXT`.
            (self.length, self.blanks) = (text.len() as u8, blanks as u8);
        }
    }
}

/// A member where it was expected.
pub(super) struct Expected<'b> {
    /// Bytes up to the value.
    pub(super) length: usize,
    /// The number of those bytes that are whitespace.
    pub(super) blanks: usize,
    pub(super) key: Option<u32>,
    /// The bytes that follow.
    pub(super) value: &'b [u8; 32],
}

/// The place of a walk among the members of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The last member, or the member whose value the object is.
    before: Number,
    expected: Number,
}

/// The shapes of the objects in one document, for the walks with one tree of paths.
#[derive(Debug)]
pub(super) struct Shapes {
    /// The first entry is no member, and the second one is the place at which the walks begin.
    members: [Member; MEMBERS],
    /// The number of entries in use.
    used: usize,
    unexpected: usize,
    off: bool,
}

impl Shapes {
    /// Returns no shapes, in memory that the thread keeps.
    #[inline(never)]
    #[cold]
    pub(super) fn new() -> Box<Self> {
        let mut spare = spare::take(&SPARE).unwrap_or_else(|| {
            Box::new(Self { members: [Member::EMPTY; MEMBERS], used: 0, unexpected: 0, off: false })
        });
        let Self { members, used, unexpected, off } = &mut *spare;
        members[..2].fill(Member::EMPTY);
        (*used, *unexpected, *off) = (2, 0, false);
        spare
    }

    /// Returns the memory to the thread.
    pub(super) fn keep(self: Box<Self>) {
        spare::keep(&SPARE, Some(self));
    }

    /// Enters an object in the value of `member`. `reader` is the address of what decides the
    /// meanings of its keys.
    #[inline(always)]
    pub(super) fn enter(&mut self, member: Number, reader: usize) -> Place {
        let found = &self.members[member.index()];
        let expected = if found.reader == reader { found.first } else { self.enter_new(member, reader) };
        Place { before: member, expected }
    }

    #[inline(never)]
    #[cold]
    fn enter_new(&mut self, member: Number, reader: usize) -> Number {
        if member != Number::NONE && !self.off {
            let found = &mut self.members[member.index()];
            (found.first, found.reader) = (Number::NONE, reader);
        }
        Number::NONE
    }

    /// Returns the expected member if `bytes` has it at `pos`, at least 32 bytes before the end of `bytes`.
    #[inline(always)]
    pub(super) fn find<'b>(&self, place: Place, bytes: &'b [u8], pos: usize) -> Option<Expected<'b>> {
        let block = bytes.get(pos..)?.first_chunk::<{ TEXT + 32 }>()?;
        let member = &self.members[place.expected.index()];
        let equal = u64::from(simd::equal32(block.first_chunk()?, &member.text));
        if equal & member.mask != member.mask {
            return None;
        }
        let length = usize::from(member.length);
        Some(Expected {
            length,
            blanks: usize::from(member.blanks),
            key: member.key,
            value: block.get(length..)?.first_chunk()?,
        })
    }

    /// Returns the place at one of the next members that `bytes` has at `pos`: those between may be missing.
    pub(super) fn ahead(&self, place: Place, bytes: &[u8], pos: usize) -> Option<Place> {
        if self.off {
            return None;
        }
        let mut expected = place.expected;
        for _ in 0..2 {
            expected = self.members[expected.index()].next;
            let place = Place { expected, ..place };
            if expected == Number::NONE || self.find(place, bytes, pos).is_some() {
                return (expected != Number::NONE).then_some(place);
            }
        }
        None
    }

    /// Moves past the expected member. Also returns its number.
    #[inline(always)]
    pub(super) fn pass(&self, place: Place) -> (Place, Number) {
        let member = place.expected;
        (Place { before: member, expected: self.members[member.index()].next }, member)
    }

    /// Remembers the member at `place`, which is the first one of its object if `opening` is set. `values` is the number
    /// of all values so far. Returns the place at that member.
    pub(super) fn learn(
        &mut self,
        place: Place,
        opening: bool,
        (text, blanks): (&[u8], usize),
        key: Option<u32>,
        values: usize,
    ) -> Place {
        let mut expected = place.expected;
        if self.off {
            expected = Number::NONE;
        } else if expected != Number::NONE {
            self.unexpected += 1;
            if self.unexpected > PATIENCE + values / 4 {
                self.off = true;
                for member in &mut self.members {
                    (member.mask, member.first, member.next) = (NEVER, Number::NONE, Number::NONE);
                }
                expected = Number::NONE;
            }
        } else if place.before != Number::NONE
            && let Ok(number) = u8::try_from(self.used)
        {
            expected = Number(number);
            self.members[self.used] = Member::EMPTY;
            self.used += 1;
            let before = &mut self.members[place.before.index()];
            *(if opening { &mut before.first } else { &mut before.next }) = expected;
        }
        if expected != Number::NONE {
            self.members[expected.index()].set(text, blanks, key);
        }
        Place { expected, ..place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers `texts` as the members of an object in the value of `member`, each with its position as key.
    fn remember(shapes: &mut Shapes, member: Number, texts: &[&str]) -> Vec<Number> {
        let mut place = shapes.enter(member, 7);
        let mut numbers = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let blanks = text.matches(' ').count();
            place = shapes.learn(place, i == 0, (text.as_bytes(), blanks), Some(i as u32), 0);
            let number;
            (place, number) = shapes.pass(place);
            numbers.push(number);
        }
        numbers
    }

    /// Returns length, blanks and key of the expected member if `text` and enough other bytes follow.
    fn find(shapes: &Shapes, place: Place, text: &str) -> Option<(usize, usize, Option<u32>)> {
        let bytes = format!("{text}{}", " ".repeat(64));
        let found = shapes.find(place, bytes.as_bytes(), 0)?;
        assert!(found.value.iter().all(|byte| *byte == b' '));
        Some((found.length, found.blanks, found.key))
    }

    #[test]
    fn a_member_is_expected_where_it_was() {
        let mut shapes = Shapes::new();
        let long = format!(",\"{}\":", "k".repeat(28));
        let longer = format!(",\"{}\":", "k".repeat(29));
        let texts = ["{\"a\":", ",\"b\" : ", &longer, &long, ",\"e\":"];
        let numbers = remember(&mut shapes, Number::ROOT, &texts);
        let inner = remember(&mut shapes, numbers[1], &["{\"a\":"]);
        let mut place = shapes.enter(Number::ROOT, 7);
        for (i, text) in texts.iter().enumerate() {
            let expected = (text.len(), text.matches(' ').count(), Some(i as u32));
            assert_eq!(find(&shapes, place, text), (text.len() <= TEXT).then_some(expected), "{text}");
            assert_eq!(find(&shapes, place, &text.replace('"', "'")), None);
            assert!(shapes.find(place, text.as_bytes(), 0).is_none(), "too near to the end");
            let number;
            (place, number) = shapes.pass(place);
            assert_eq!(number, numbers[i]);
        }
        assert_eq!(place.expected, Number::NONE);
        assert_eq!(shapes.enter(numbers[1], 7).expected, inner[0]);
        assert_eq!(shapes.enter(numbers[1], 8).expected, Number::NONE, "another reader");
        assert_eq!(shapes.enter(numbers[1], 7).expected, Number::NONE, "the other reader came last");
    }

    #[test]
    fn one_or_two_members_may_be_missing() {
        let mut shapes = Shapes::new();
        let numbers = remember(&mut shapes, Number::ROOT, &["{\"a\":", ",\"b\":", ",\"c\":", ",\"d\":", ",\"e\":"]);
        let place = shapes.enter(Number::ROOT, 7);
        let (place, _) = shapes.pass(place);
        let ahead = |text: &str| {
            let bytes = format!("{text}{}", " ".repeat(64));
            shapes.ahead(place, bytes.as_bytes(), 0).map(|place| place.expected)
        };
        assert_eq!(ahead(",\"c\":"), Some(numbers[2]));
        assert_eq!(ahead(",\"d\":"), Some(numbers[3]));
        assert_eq!(ahead(",\"e\":"), None);
        assert_eq!(ahead(",\"x\":"), None);
    }

    #[test]
    fn as_many_members_as_there_are_numbers() {
        let mut shapes = Shapes::new();
        let numbers = remember(&mut shapes, Number::ROOT, &vec![",\"a\":"; 300]);
        assert_eq!(numbers.iter().filter(|number| **number != Number::NONE).count(), MEMBERS - 2);
        assert!(numbers[MEMBERS - 2..].iter().all(|number| *number == Number::NONE));
    }

    #[test]
    fn objects_without_a_common_shape_are_not_remembered() {
        let mut shapes = Shapes::new();
        let mut replace = |count: usize, values: usize| {
            for i in 0..count {
                let place = shapes.enter(Number::ROOT, 7);
                shapes.learn(place, true, (format!("{{\"{i}\":").as_bytes(), 0), None, values);
            }
            let place = shapes.enter(Number::ROOT, 7);
            find(&shapes, place, &format!("{{\"{}\":", count - 1)).is_some()
        };
        assert!(replace(PATIENCE + 1, 0));
        assert!(replace(100, 400), "a quarter of all values");
        assert!(!replace(1, 400));
    }

    #[test]
    fn a_document_says_nothing_about_the_next_one() {
        let mut shapes = Shapes::new();
        let before = std::ptr::from_ref(&*shapes);
        remember(&mut shapes, Number::ROOT, &["{\"a\":", ",\"b\":"]);
        shapes.keep();
        let mut shapes = Shapes::new();
        assert_eq!(std::ptr::from_ref(&*shapes), before, "the same memory");
        let place = shapes.enter(Number::ROOT, 7);
        assert_eq!(find(&shapes, place, "{\"a\":"), None);
        remember(&mut shapes, Number::ROOT, &["{\"a\":"]);
        let place = shapes.enter(Number::ROOT, 7);
        assert_eq!(shapes.pass(place).0.expected, Number::NONE);
    }
}
