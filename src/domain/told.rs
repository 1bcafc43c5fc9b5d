//! What a feed's watchers were told beside its rows.

use super::drop::push_drops;
use super::{Controls, Drops, Op};

/// The part of a snapshot that is no row. Folded by the same changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The feed's drops.
    pub drops: Drops,
    /// What overlays do.
    pub controls: Controls,
}

impl Told {
    /// Folds a change; what is about rows changes nothing here.
    pub fn fold(&mut self, op: &Op) {
        match op {
            Op::Drop(view) => drop(self.drops.insert(view.drop.clone(), view.clone())),
            Op::Control(control) => self.controls = self.controls.after(control.action),
            Op::Add(_) | Op::Update(_) | Op::Remove { .. } | Op::Reset => {}
        }
    }

    /// Appends the members that a snapshot has for it, each with a comma in front.
    pub fn push_json(&self, out: &mut String) {
        push_drops(out, self.drops.values());
        self.controls.push_json(out);
    }
}
