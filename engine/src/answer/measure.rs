//! How large an answer is, in the units of its budget.

use super::{ADDED, Cut, Form, Frame, OWN};
use crate::tokens::Factor;
use crate::work::Work;
use crate::{Budget, Bytes, Parts, Structured, TokenCounter, TokenReport, Tokens, stream};

/// The blocks that go to the model.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) text: String,
    pub(crate) notice: Option<String>,
    pub(crate) structured: Structured,
}

impl Output {
    /// Adds its frame to an output that is JSON.
    pub(crate) fn json(frame: Frame<'_>, text: String, cut: Cut<'_>, work: &Work<'_>) -> Self {
        if !frame.structured {
            return Self::text(frame, text, cut);
        }
        let members = frame.members(cut);
        // No name may occur twice, in any spelling: readers would take different values. What the answer itself says of
        // its cuts must not be the upstream's.
        let names = if members.is_empty() { &OWN[..] } else { &ADDED };
        let structured = match Form::of(&text) {
            Form::Wrapped => Structured::Text { members },
            Form::Object => match stream::without_members(&text, names, work) {
                None => Structured::Text { members },
                Some(text) => {
                    let json = Structured::Text { members }.to_json(&text);
                    json.map_or(Structured::None, Structured::Json)
                }
            },
        };
        Self { text, notice: frame.notice(cut), structured }
    }

    /// Adds its frame to an output without structured content.
    pub(crate) fn text(frame: Frame<'_>, text: String, cut: Cut<'_>) -> Self {
        Self { text, notice: frame.notice(cut), structured: Structured::None }
    }

    /// Returns the bytes of the text blocks or of the structured content, whichever are more.
    pub(crate) fn bytes(&self) -> Bytes {
        let Self { text, notice: _, structured } = self;
        let object = structured.parts(text).map_or(0, |Parts { open, json, rest }| {
            open.len() + json.len() + rest.iter().map(|part| part.len()).sum::<usize>()
        });
        Bytes(self.block_bytes().max(object))
    }

    /// Returns the bytes of the text blocks.
    pub(crate) fn block_bytes(&self) -> usize {
        self.text.len() + self.notice.as_ref().map_or(0, String::len)
    }
}

/// The bytes of an answer that are counted to learn how many tokens a byte has, where it is far too large.
const SAMPLE: usize = 16 << 10;

/// The size of an answer: of its text blocks or of its structured content, whichever is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: Bytes,
    /// If there is a limit in tokens. Where the answer has far more tokens than the limit, any number that is far above it.
    pub(crate) tokens: Option<Tokens>,
}

/// The budget of an answer as the unit of sizes: the whole budget is [`Scale::WHOLE`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale<'a> {
    pub(crate) budget: Budget,
    pub(crate) counter: TokenCounter<'a>,
    pub(crate) work: &'a Work<'a>,
}

impl Scale<'_> {
    /// The size of the budget.
    pub(crate) const WHOLE: u64 = 1 << 32;
    /// Tokens are counted up to this many times the limit, to learn by how much an answer exceeds it.
    const BEYOND: usize = 4;

    /// Counts the tokens of `text`, at least as far as `most`.
    pub(crate) fn count(&self, text: &str, most: Tokens) -> Tokens {
        // An interrupted run has no result, whatever its size.
        self.counter.count_within(text, most, self.work).unwrap_or_default()
    }

    /// Measures an answer.
    pub(crate) fn measure(&self, output: &Output) -> Size {
        Size { bytes: output.bytes(), tokens: self.budget.tokens.map(|_| self.tokens(output, self.most())) }
    }

    /// Returns the tokens as far as which an answer is counted: far above the limit, if there is one.
    pub(crate) fn most(&self) -> Tokens {
        Tokens(self.budget.tokens.map_or(usize::MAX, |limit| limit.0.saturating_mul(Self::BEYOND)))
    }

    /// Returns the size of an answer if it fits. Of one that does not, no more is counted than shows that.
    pub(crate) fn fitting(&self, output: &Output) -> Option<Size> {
        let bytes = Size { bytes: output.bytes(), tokens: None };
        if !self.fits(bytes) {
            return None;
        }
        let size = Size { tokens: self.budget.tokens.map(|limit| self.tokens(output, limit)), ..bytes };
        self.fits(size).then_some(size)
    }

    /// Counts the tokens of an answer, at least as far as `most`.
    fn tokens(&self, output: &Output, most: Tokens) -> Tokens {
        let Output { text, notice, structured } = output;
        let first = self.count(text, most);
        let second = notice.as_ref().map_or(Tokens(0), |notice| self.count(notice, most));
        let blocks = Tokens(first.0.saturating_add(second.0));
        if blocks > most {
            return blocks;
        }
        let structured = match structured {
            Structured::None => Tokens(0),
            Structured::Text { members } if members.is_empty() && Form::of(text) == Form::Object => first,
            Structured::Text { .. } => structured.to_json(text).map_or(Tokens(0), |object| self.count(&object, most)),
            Structured::Json(object) => self.count(object, most),
        };
        blocks.max(structured)
    }

    /// Returns about the bytes that an answer like `output`, which has `size` and does not fit, may have.
    pub(crate) fn guess(&self, output: &Output, size: Size) -> Bytes {
        let ratio = |limit: usize, of: usize, bytes: usize| {
            usize::try_from(limit as u128 * bytes as u128 / of.max(1) as u128).unwrap_or(usize::MAX)
        };
        let tokens = self.budget.tokens.map(|limit| match size.tokens {
            Some(counted) if counted <= self.most() => ratio(limit.0, counted.0, size.bytes.0),
            // So far above the limit, it is not counted to its end.
            _ => {
                let sample = &output.text[..output.text.floor_char_boundary(SAMPLE)];
                ratio(limit.0, self.count(sample, Tokens(usize::MAX)).0, sample.len())
            }
        });
        Bytes(tokens.into_iter().chain(self.budget.bytes.map(|limit| limit.0)).min().unwrap_or(usize::MAX))
    }

    /// Returns the share of the budget that a size is, rounded up. A size fits if it is at most [`Scale::WHOLE`].
    pub(crate) fn share(&self, Size { bytes, tokens }: Size) -> u64 {
        let of = |size: usize, limit: Option<usize>| {
            let limit = limit.map_or(u128::MAX, |limit| limit as u128).max(1);
            (size as u128 * u128::from(Self::WHOLE)).div_ceil(limit)
        };
        let bytes = of(bytes.0, self.budget.bytes.map(|bytes| bytes.0));
        let tokens = of(tokens.unwrap_or_default().0, self.budget.tokens.map(|tokens| tokens.0));
        u64::try_from(bytes.max(tokens)).unwrap_or(u64::MAX)
    }

    /// Returns the share of the budget that `tokens` of the tokenizer are, divided by `of` and times the factor. Only the
    /// share is rounded up, so that the shares of many texts add up.
    pub(crate) fn tokens_share(&self, tokens: u128, of: usize) -> u64 {
        let limit = self.budget.tokens.map_or(u128::MAX, |tokens| tokens.0 as u128);
        let whole = tokens.saturating_mul(self.counter.factor.millionths().into()).saturating_mul(Self::WHOLE.into());
        let limit = limit.saturating_mul(of as u128).saturating_mul(Factor::UNIT.into());
        u64::try_from(whole.div_ceil(limit.max(1))).unwrap_or(u64::MAX)
    }

    /// Returns the share of the budget that `text` takes with so many more bytes and tokens. Only the share is rounded up.
    pub(crate) fn text_share(&self, text: &str, (bytes, tokens): (usize, usize)) -> u64 {
        let bytes = self.share(Size { bytes: Bytes(text.len() + bytes), tokens: None });
        let plain = self.unrounded();
        let counted = self.budget.tokens.map_or(0, |_| plain.count(text, Tokens(usize::MAX)).0 + tokens);
        bytes.max(self.tokens_share(counted as u128, 1))
    }

    /// Returns the share of the budget that an answer takes, counted to the end. Only the share is rounded up.
    pub(crate) fn answer_share(&self, output: &Output) -> u64 {
        let Size { bytes, tokens } = self.unrounded().measure(output);
        let bytes = self.share(Size { bytes, tokens: None });
        bytes.max(self.tokens_share(tokens.unwrap_or_default().0 as u128, 1))
    }

    /// Returns a scale that counts tokens to the end, without a factor.
    fn unrounded(&self) -> Self {
        let tokens = self.budget.tokens.map(|_| Tokens(usize::MAX));
        let counter = TokenCounter { factor: Factor::ONE, ..self.counter };
        Self { budget: Budget { tokens, ..self.budget }, counter, work: self.work }
    }

    /// Returns the share that is kept free because the tokens of each of two blocks are rounded up.
    pub(crate) fn rounding(&self) -> u64 {
        let tokens = self.budget.tokens.filter(|_| !self.counter.is_exact()).map(|_| Tokens(1));
        self.share(Size { bytes: Bytes(0), tokens })
    }

    /// Returns whether a size fits into the budget.
    pub(crate) fn fits(&self, size: Size) -> bool {
        self.share(size) <= Self::WHOLE
    }

    /// Returns the report of an answer's tokens. `size` was measured of the answer: beyond the limit, tokens are counted
    /// again to the end.
    pub(crate) fn report(&self, output: &Output, size: Size) -> Option<TokenReport> {
        let counted = size.tokens.map(|counted| {
            let beyond = Some(counted) > self.budget.tokens;
            if beyond { self.tokens(output, Tokens(usize::MAX)) } else { counted }
        })?;
        Some(TokenReport { counted, tokenizer: self.counter.tokenizer.name(), exact: self.counter.is_exact() })
    }
}
