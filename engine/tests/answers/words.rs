//! A tokenizer whose counts do not follow from the size of a text, and do not add up.

use tamis_engine::{Boundary, Tokenizer};

/// Counts runs of letters, of up to three digits, of up to four signs, and of up to eight spaces. A space before a word
/// belongs to the word.
#[derive(Debug)]
pub(crate) struct Words;

impl Words {
    pub(crate) fn of(text: &str) -> usize {
        Self::at_most(text, usize::MAX)
    }

    /// Counts until there are more than `most`.
    fn at_most(text: &str, most: usize) -> usize {
        fn class(character: char) -> u8 {
            match character {
                ' ' => 0,
                '\n' => 1,
                _ if character.is_alphabetic() => 2,
                _ if character.is_numeric() => 3,
                _ => 4,
            }
        }
        let (mut tokens, mut last, mut run) = (0, None, 0);
        for character in text.chars() {
            let class = class(character);
            let joins = last == Some(class) && run < [8, 8, 10, 3, 4][usize::from(class)]
                || last == Some(0) && class == 2 && run == 1;
            run = if joins { run + 1 } else { 1 };
            tokens += usize::from(!joins);
            if tokens > most {
                break;
            }
            last = Some(class);
        }
        tokens
    }
}

impl Tokenizer for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        keep_going(text.len()).then(|| Self::at_most(text, most))
    }

    fn boundary(&self) -> Option<Boundary> {
        // What is no letter always begins a token after a letter, and what is no digit after a digit.
        Some(|text, at| {
            let (before, after) = (text.as_bytes()[at - 1], text.as_bytes()[at]);
            match after.is_ascii() {
                true if before.is_ascii_alphabetic() => !after.is_ascii_alphabetic(),
                true if before.is_ascii_digit() => !after.is_ascii_digit(),
                _ => false,
            }
        })
    }
}
