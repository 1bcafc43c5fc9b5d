//! A host's commands to overlays while a show runs.

use std::fmt::Write;

use serde_json::value::RawValue;

use super::RowId;
use super::json::{Object, Refused};

/// What overlays do with alerts from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// Alerts wait.
    pub paused: bool,
    /// Alerts make no sound.
    pub muted: bool,
}

/// What a host says to overlays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = OverlayAction, rename_all = "snake_case"))]
pub enum Action {
    /// Alerts wait from now on.
    Pause,
    /// Alerts go on.
    Resume,
    /// The alert that is shown goes.
    Skip,
    /// Alerts make no sound from now on.
    Mute,
    /// They do again.
    Unmute,
    /// A row is shown as an alert again, once.
    Replay,
}

/// One action, and the row it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// What to do.
    pub action: Action,
    /// Always there for a replay.
    pub row: Option<RowId>,
}

impl Action {
    const ALL: [Action; 6] =
        [Action::Pause, Action::Resume, Action::Skip, Action::Mute, Action::Unmute, Action::Replay];

    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Pause => "pause",
            Action::Resume => "resume",
            Action::Skip => "skip",
            Action::Mute => "mute",
            Action::Unmute => "unmute",
            Action::Replay => "replay",
        }
    }

    /// The action of this word.
    pub fn of(word: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

impl Controls {
    /// After `action`.
    pub fn after(self, action: Action) -> Controls {
        match action {
            Action::Pause => Controls { paused: true, ..self },
            Action::Resume => Controls { paused: false, ..self },
            Action::Mute => Controls { muted: true, ..self },
            Action::Unmute => Controls { muted: false, ..self },
            Action::Skip | Action::Replay => self,
        }
    }

    /// Appends `,"control":{…}` as snapshots carry it; nothing when neither is true.
    pub fn push_json(self, out: &mut String) {
        let Controls { paused, muted } = self;
        if paused || muted {
            let _ = write!(out, ",\"control\":{{\"paused\":{paused},\"muted\":{muted}}}");
        }
    }
}

impl Control {
    /// Reads the body of a POST.
    pub fn parse(raw: &RawValue) -> Result<Control, Refused> {
        let mut faults = Vec::new();
        let Some(mut body) = Object::open(raw, &mut faults) else {
            return Err(Refused::Invalid(faults));
        };
        let action = body.need("action", &mut faults).and_then(|field| {
            let action = Action::of(&field.string(&mut faults)?);
            if action.is_none() {
                field.wrong(&mut faults, "must be pause, resume, skip, mute, unmute or replay");
            }
            action
        });
        let row = body.take("row").map(|field| {
            let row: Option<RowId> = field.string(&mut faults).and_then(|text| text.parse().ok());
            match action {
                Some(Action::Skip | Action::Replay) | None if row.is_some() => {}
                Some(Action::Skip | Action::Replay) | None => {
                    field.wrong(&mut faults, "must be the id of a row")
                }
                Some(_) => field.wrong(&mut faults, "belongs to skip and replay only; remove it"),
            }
            row
        });
        if action == Some(Action::Replay) && row.is_none() {
            faults.push(super::json::fault("/row", "is required: the row to show again"));
        }
        body.close(&mut faults);
        match action {
            Some(action) if faults.is_empty() => Ok(Control { action, row: row.flatten() }),
            _ => Err(Refused::Invalid(faults)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;

    #[test]
    fn a_control_is_read_and_what_is_wrong_is_named() {
        let read = |body: &str| Control::parse(json::syntax(body.as_bytes()).unwrap());
        for action in Action::ALL {
            assert_eq!(Action::of(action.as_str()), Some(action));
        }
        assert_eq!(read(r#"{"action":"pause"}"#), Ok(Control { action: Action::Pause, row: None }));
        let row = "e-1".parse().ok();
        assert_eq!(read(r#"{"action":"replay","row":"e-1"}"#), Ok(Control { action: Action::Replay, row }));
        for (body, at) in [
            ("{}", "/action"),
            (r#"{"action":"stop"}"#, "/action"),
            (r#"{"action":"replay"}"#, "/row"),
            (r#"{"action":"replay","row":"no row"}"#, "/row"),
            (r#"{"action":"pause","row":"e-1"}"#, "/row"),
            (r#"{"action":"pause","x":1}"#, "/x"),
        ] {
            let Err(Refused::Invalid(faults)) = read(body) else { panic!("{body}") };
            assert!(faults.iter().any(|fault| fault.pointer == at), "{body}: {faults:?}");
        }
    }
}
