//! The people of the show, and the gifts that they send.

use serde_json::{Value, json};

use super::words::{DemoGift, FAMILIES, GIVEN, HOSTILE, KINDS, SCRIPTS};
use crate::tools::dice::Dice;

/// How many viewers a show has.
pub(super) const VIEWERS: usize = 300;

/// One viewer; `user` is the contract's `{id, name, avatar?}`.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    pub(super) user: Value,
    pub(super) currency: Currency,
}

/// A currency and what one coin costs in its minor units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Currency {
    pub(super) code: &'static str,
    pub(super) per_coin: u64,
}

/// Two, three and no decimals, and play money with a long code in small letters.
pub(super) const CURRENCIES: &[Currency] = &[
    Currency { code: "coins", per_coin: 1 },
    Currency { code: "EUR", per_coin: 1 },
    Currency { code: "USD", per_coin: 1 },
    Currency { code: "JPY", per_coin: 2 },
    Currency { code: "KRW", per_coin: 14 },
    Currency { code: "BHD", per_coin: 5 },
    Currency { code: "StarDiamonds", per_coin: 10 },
];

/// Everyone in the room, by rank: the first gives most.
pub(super) struct Cast {
    viewers: Vec<Viewer>,
    /// Running sums of 1/rank, so that a number below the last one falls on a rank by Zipf's law.
    ladder: Vec<f64>,
}

impl Cast {
    /// `hostile`: some of them try things with their names.
    pub(super) fn new(dice: &mut Dice, hostile: bool) -> Self {
        let mut viewers: Vec<Viewer> = (0..VIEWERS).map(|n| viewer(n, dice, hostile)).collect();
        // Fisher–Yates: hostile names sit at any rank, in every show others on top.
        for last in (1..viewers.len()).rev() {
            viewers.swap(last, dice.between(0, last as u64) as usize);
        }
        let mut sum = 0.0;
        let ladder = (1..=viewers.len())
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        Cast { viewers, ladder }
    }

    /// A viewer by Zipf's law: rank k comes k times less often than the first.
    pub(super) fn viewer(&self, dice: &mut Dice) -> &Viewer {
        let most = self.ladder.last().copied().unwrap_or(0.0);
        let at = dice.unit() * most;
        let rank = self.ladder.partition_point(|sum| *sum <= at);
        &self.viewers[rank.min(self.viewers.len() - 1)]
    }

    /// A kind of gift, by Zipf's law too: the list begins with the cheap ones.
    pub(super) fn kind(&self, dice: &mut Dice) -> DemoGift {
        let most = self.ladder[KINDS.len() - 1];
        let at = dice.unit() * most;
        KINDS[self.ladder.partition_point(|sum| *sum <= at).min(KINDS.len() - 1)]
    }
}

fn viewer(n: usize, dice: &mut Dice, hostile: bool) -> Viewer {
    let user = if let Some((id, name)) = HOSTILE.get(n).filter(|_| hostile) {
        let mut user = json!({ "id": id, "name": name });
        // A picture that never loads: `.example` is reserved (RFC 2606).
        if n < 2 {
            user["avatar"] = json!(format!("https://avatars.example/{n}.png?a=<b>&c=\"d\""));
        }
        user
    } else {
        json!({ "id": format!("viewer:{n}"), "name": name(n, dice) })
    };
    let currency = match dice.between(0, 9) {
        0..=4 => CURRENCIES[0],
        _ => *dice.pick(CURRENCIES),
    };
    Viewer { user, currency }
}

fn name(n: usize, dice: &mut Dice) -> String {
    match dice.between(0, 9) {
        0..=3 => format!("{} {}", dice.pick(GIVEN), dice.pick(FAMILIES)),
        4..=5 => format!("{}{}", dice.pick(GIVEN).to_lowercase(), dice.between(1, 9_999)),
        6 => format!("xX_{}_{n}_Xx", dice.pick(GIVEN)),
        _ => (*dice.pick(SCRIPTS)).to_owned(),
    }
}
