//! How operator and gateway prove to each other that both know the group's token, without sending it.
//!
//! Who may create pods in a group's namespace can make one that claims to be a gateway. The operator asks it for
//! `/acks` all the same, so it must not hand over the token: it signs a nonce, the pod's address and the time, and
//! listens only to an answer that signs the nonce. The address keeps a pod from passing the question on to a real
//! gateway.

use std::fmt;
use std::str::FromStr;

/// The scheme in `Authorization`, and the header of the answer.
pub const SCHEME: &str = "Tamis-Proof";
/// Seconds that the clocks of operator and gateway may differ.
pub const CLOCK_SKEW: u64 = 300;

/// What the operator sends: `Tamis-Proof NONCE ADDRESS TIME SIGNATURE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Random, in hex.
    pub nonce: String,
    /// IP address and port that the operator connects to.
    pub address: String,
    /// Seconds since 1970.
    pub time: u64,
    /// HMAC-SHA256 of [`Question::signed`] in hex, keyed with the SHA-256 of the token.
    pub signature: String,
}

/// A header that is no [`Question`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected `Tamis-Proof NONCE ADDRESS TIME SIGNATURE`")]
pub struct InvalidQuestion;

impl Question {
    /// What the operator signs.
    #[must_use]
    pub fn signed(nonce: &str, address: &str, time: u64) -> String {
        format!("tamis.dev/acks operator\n{nonce}\n{address}\n{time}")
    }

    /// What the gateway signs in its answer.
    #[must_use]
    pub fn answered(nonce: &str) -> String {
        format!("tamis.dev/acks gateway\n{nonce}")
    }

    /// Whether it was made at about this time.
    #[must_use]
    pub fn is_fresh(&self, now: u64) -> bool {
        self.time.abs_diff(now) <= CLOCK_SKEW
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nonce, address, time, signature } = self;
        write!(f, "{SCHEME} {nonce} {address} {time} {signature}")
    }
}

impl FromStr for Question {
    type Err = InvalidQuestion;

    fn from_str(text: &str) -> Result<Self, InvalidQuestion> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [scheme, nonce, address, time, signature] = words.as_slice() else { return Err(InvalidQuestion) };
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(InvalidQuestion);
        }
        Ok(Self {
            nonce: (*nonce).to_owned(),
            address: (*address).to_owned(),
            time: time.parse().map_err(|_| InvalidQuestion)?,
            signature: (*signature).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_survives_its_own_text() {
        let question = Question {
            nonce: "00ff".to_owned(),
            address: "[fd00::1]:9090".to_owned(),
            time: 1_000,
            signature: "ab".to_owned(),
        };
        assert_eq!(question.to_string().parse(), Ok(question.clone()));
        for (now, fresh) in [(1_000, true), (700, true), (1_300, true), (699, false), (1_301, false), (0, false)] {
            assert_eq!(question.is_fresh(now), fresh, "{now}");
        }
        for text in
            ["", "Bearer x", "Tamis-Proof a b c d", "Tamis-Proof a b 1", "Tamis-Proof a b 1 d e", "Other a b 1 d"]
        {
            assert_eq!(text.parse::<Question>(), Err(InvalidQuestion), "{text}");
        }
        assert_ne!(Question::signed("a", "b", 1), Question::answered("a"));
    }
}
