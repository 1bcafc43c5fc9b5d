//! Gifts that a host looks at before the audience does.
//!
//! A gift that must be reviewed waits in its feed's due queue ([`super::DueKind::Review`]), where its time is when
//! the policy's default happens. What is decided about it is decided once.

use std::fmt;
use std::str::FromStr;

use serde_json::value::RawValue;

use super::json::{Object, Refused};
use super::{Gift, Millis, Person};

/// Gifts of one feed that may wait for review.
pub const REVIEWS_MAX: u64 = 1_000;

/// What a masked gift shows in place of its giver's name.
pub const MASKED_NAME: &str = "•••";

/// Which gifts wait for review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub enum ReviewMode {
    /// None.
    #[default]
    Off,
    /// Those with a message, or with a name that was not approved before.
    Messages,
    /// All.
    All,
}

impl ReviewMode {
    const ALL: [ReviewMode; 3] = [ReviewMode::Off, ReviewMode::Messages, ReviewMode::All];

    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewMode::Off => "off",
            ReviewMode::Messages => "messages",
            ReviewMode::All => "all",
        }
    }
}

impl FromStr for ReviewMode {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<ReviewMode, &'static str> {
        let found = ReviewMode::ALL.into_iter().find(|it| it.as_str() == word);
        found.ok_or("must be \"off\", \"messages\" or \"all\"")
    }
}

/// What happens to a gift that nobody decided about in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub enum ReviewDefault {
    /// It is shown as it is.
    Show,
    /// It is shown without what somebody could have written.
    #[default]
    Mask,
    /// It is not shown.
    Deny,
}

impl ReviewDefault {
    const ALL: [ReviewDefault; 3] = [ReviewDefault::Show, ReviewDefault::Mask, ReviewDefault::Deny];

    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewDefault::Show => "show",
            ReviewDefault::Mask => "mask",
            ReviewDefault::Deny => "deny",
        }
    }

    /// The decision that time takes.
    pub fn decision(self) -> Decision {
        match self {
            ReviewDefault::Show => Decision::Approve,
            ReviewDefault::Mask => Decision::Mask,
            ReviewDefault::Deny => Decision::Deny,
        }
    }
}

impl FromStr for ReviewDefault {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<ReviewDefault, &'static str> {
        let found = ReviewDefault::ALL.into_iter().find(|it| it.as_str() == word);
        found.ok_or("must be \"show\", \"mask\" or \"deny\"")
    }
}

/// What a host decides about a gift: show it; show it without message and picture, under the name •••; do not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = ReviewAction))]
pub enum Decision {
    /// It is shown as it is.
    Approve,
    /// It is shown without message and picture, under [`MASKED_NAME`].
    Mask,
    /// It is not shown.
    Deny,
}

impl Decision {
    /// Every decision there is.
    pub const ALL: [Decision; 3] = [Decision::Approve, Decision::Mask, Decision::Deny];

    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Approve => "approve",
            Decision::Mask => "mask",
            Decision::Deny => "deny",
        }
    }

    /// Reads the body of a POST: `{"action"}`.
    pub fn parse(raw: &RawValue) -> Result<Decision, Refused> {
        let mut faults = Vec::new();
        let Some(mut body) = Object::open(raw, &mut faults) else {
            return Err(Refused::Invalid(faults));
        };
        let decision = body.need("action", &mut faults).and_then(|field| {
            let word = field.string(&mut faults)?;
            let decision = Decision::ALL.into_iter().find(|it| it.as_str() == word);
            if decision.is_none() {
                field.wrong(&mut faults, "must be approve, mask or deny");
            }
            decision
        });
        body.close(&mut faults);
        match decision {
            Some(decision) if faults.is_empty() => Ok(decision),
            _ => Err(Refused::Invalid(faults)),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A gift that waits for somebody's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InReview {
    /// When it came.
    pub at: Millis,
    /// When the policy's default happens.
    pub expires_at: Millis,
    /// The event as it was accepted.
    pub gift: Gift,
}

/// What stores keep of a gift in review, beside the gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewNote {
    /// When it came.
    pub at: Millis,
    /// It is not to be shown before, as its own time or the feed's delay says; none: at once.
    pub deliver_at: Option<Millis>,
}

impl fmt::Display for ReviewNote {
    /// As stores spell it: `AT DELIVER_AT`, `-` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.deliver_at {
            Some(deliver_at) => write!(f, "{} {}", self.at.0, deliver_at.0),
            None => write!(f, "{} -", self.at.0),
        }
    }
}

impl FromStr for ReviewNote {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ReviewNote, &'static str> {
        const RULE: &str = "must be the note of a gift in review";
        let (at, deliver_at) = text.split_once(' ').ok_or(RULE)?;
        let time = |text: &str| text.parse().map(Millis).map_err(|_| RULE);
        let deliver_at = if deliver_at == "-" { None } else { Some(time(deliver_at)?) };
        Ok(ReviewNote { at: time(at)?, deliver_at })
    }
}

impl Gift {
    /// This gift without what somebody could have written: message, picture and name.
    pub fn masked(&self) -> Gift {
        let Person { id, anonymous, .. } = self.user.clone();
        let user = Person { id, name: MASKED_NAME.to_owned(), avatar: None, anonymous };
        Gift { user, message: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;

    fn gift(rest: &str) -> Gift {
        let body = format!(r#"{{"user":{{"id":"u","name":"U"}},"gift":{{"id":"g","name":"g"}}{rest}}}"#);
        Gift::parse(json::syntax(body.as_bytes()).unwrap(), None).unwrap()
    }

    #[test]
    fn a_masked_gift_says_nothing_that_its_giver_wrote() {
        let masked = gift(r#","message":"hi","value":{"amount":5,"currency":"EUR"}"#).masked();
        assert_eq!((masked.user.id.as_str(), masked.user.name.as_str()), ("u", "•••"));
        assert_eq!((masked.message, masked.user.avatar), (None, None));
        assert_eq!(masked.value.unwrap().amount, 5);
    }

    #[test]
    fn words_and_notes_are_read_back() {
        for mode in ReviewMode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        for default in ReviewDefault::ALL {
            assert_eq!(default.as_str().parse(), Ok(default));
        }
        for decision in Decision::ALL {
            let body = format!("{{\"action\":\"{decision}\"}}");
            assert_eq!(Decision::parse(json::syntax(body.as_bytes()).unwrap()), Ok(decision));
        }
        for body in ["{}", "[]", r#"{"action":"show"}"#, r#"{"action":"deny","x":1}"#] {
            assert!(Decision::parse(json::syntax(body.as_bytes()).unwrap()).is_err(), "{body}");
        }
        for deliver_at in [None, Some(Millis(-5))] {
            let note = ReviewNote { at: Millis(7), deliver_at };
            assert_eq!(note.to_string().parse(), Ok(note));
        }
        assert!("7".parse::<ReviewNote>().is_err() && "7 x".parse::<ReviewNote>().is_err());
    }
}
