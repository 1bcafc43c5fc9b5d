use serde::{Deserialize, Serialize};

/// How far a combo has grown (`lua/feed/combo.lua`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComboGrowth {
    /// Until when that is remembered, by the steady time in milliseconds.
    pub until: i64,
    /// The largest count that a frame said.
    pub count: u64,
    /// The largest amount in each currency, the one that came last at the end.
    pub sums: Vec<Sum>,
}

/// An amount in minor units of a currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Its letters.
    pub currency: String,
    /// How much.
    pub amount: u64,
}
