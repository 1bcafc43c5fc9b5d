//! The show: an endless, seeded run of gifts, as a busy room sends them.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::cast::{CURRENCIES, Cast, Viewer};
use super::words::{BIG, DemoGift, HOSTILE_MESSAGES, KINDS, MESSAGES};
use crate::tools::dice::Dice;

/// Gifts that a retry may send again.
const RECENT: usize = 32;
/// Combos that run at the same time.
const RUNS: usize = 6;

/// A show without end: each item is the body of one `POST /v1/feeds/{feed}/gifts`.
///
/// The same seed plays the same show, gift for gift. In it: a few hundred viewers by Zipf's law,
/// bursts, combos whose frames skip, repeat, overtake each other and come after the end, retries
/// (an earlier item again, equal in every byte), the same gift again within the dedup window, big
/// gifts, several currencies also of one viewer, test gifts, and names and messages that are long or
/// right-to-left, in a hostile show also blank or an attack. Every item keeps to the contract, none is scheduled.
pub struct Show {
    dice: Dice,
    /// Apart from `dice`, so that the pace has no say in what is sent.
    rhythm: Dice,
    cast: Cast,
    hostile: bool,
    name: String,
    /// Gifts made so far; the last part of their ids.
    made: u64,
    /// Frames of the combos that are under way.
    runs: Vec<VecDeque<Value>>,
    recent: VecDeque<Value>,
    /// Who sent which plain gift last.
    last: Option<(Viewer, DemoGift)>,
    /// Gifts left of the burst that is on, and what everybody sends in it.
    burst: Option<(u64, DemoGift)>,
    pace: f64,
}

impl Show {
    /// The hostile show of this seed: everything that a feed must stand.
    pub fn new(seed: u64) -> Self {
        Self::named(seed, &format!("s{seed}"), true)
    }

    /// The show of this seed with other ids: ids and combo ids begin with `name` (at most 40 of
    /// `A-Z a-z 0-9 _ - .`), so that a feed takes a second run of it for new gifts.
    pub fn named(seed: u64, name: &str, hostile: bool) -> Self {
        let mut dice = Dice::new(seed);
        let cast = Cast::new(&mut dice, hostile);
        Show {
            rhythm: Dice::new(!seed),
            dice,
            cast,
            hostile,
            name: name.to_owned(),
            made: 0,
            runs: Vec::new(),
            recent: VecDeque::with_capacity(RECENT),
            last: None,
            burst: None,
            pace: 0.0,
        }
    }

    /// How long after the item before it the last item came, in units of the mean gap: about 1 on
    /// average, far less within a burst.
    pub fn pace(&self) -> f64 {
        self.pace
    }

    fn step(&mut self) -> Value {
        self.turn_burst();
        if !self.recent.is_empty() && self.dice.percent(3.0) {
            let again = self.dice.between(0, self.recent.len() as u64 - 1) as usize;
            return self.recent[again].clone();
        }
        let gift =
            if !self.runs.is_empty() && self.dice.percent(50.0) { self.next_frame() } else { self.fresh() };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(gift.clone());
        gift
    }

    /// In the mean 125 calm gifts, then 50 of a burst; 125 · 1.35 + 50 · 0.12 is one gap each.
    fn turn_burst(&mut self) {
        self.burst = match self.burst.take() {
            Some((left, kind)) if left > 1 => Some((left - 1, kind)),
            Some(_) => None,
            None if self.dice.percent(0.8) => {
                let kind = self.cast.kind(&mut self.dice);
                Some((self.dice.between(20, 80), kind))
            }
            None => None,
        };
        self.pace = self.rhythm.gap(if self.burst.is_some() { 0.12 } else { 1.35 });
    }

    fn next_frame(&mut self) -> Value {
        let at = self.dice.between(0, self.runs.len() as u64 - 1) as usize;
        match self.runs[at].pop_front() {
            Some(frame) => {
                if self.runs[at].is_empty() {
                    self.runs.swap_remove(at);
                }
                frame
            }
            // A run is never kept empty.
            None => self.fresh(),
        }
    }

    fn fresh(&mut self) -> Value {
        if let Some((_, kind)) = self.burst {
            let viewer = self.cast.viewer(&mut self.dice).clone();
            return self.plain(viewer, kind);
        }
        if let Some((viewer, kind)) = self.last.clone().filter(|_| self.dice.percent(20.0)) {
            return self.plain(viewer, kind);
        }
        let viewer = self.cast.viewer(&mut self.dice).clone();
        if self.dice.percent(1.5) {
            let kind = *self.dice.pick(&KINDS[BIG..]);
            return self.plain(viewer, kind);
        }
        let kind = self.cast.kind(&mut self.dice);
        if kind.tier < 5 && self.runs.len() < RUNS && self.dice.percent(12.0) {
            return self.start_run(&viewer, kind);
        }
        self.plain(viewer, kind)
    }

    fn plain(&mut self, viewer: Viewer, kind: DemoGift) -> Value {
        let count = match self.dice.between(0, 99) {
            0..=79 => 1,
            80..=94 => self.dice.between(2, 10),
            95..=98 => *self.dice.pick(&[66, 99, 188, 520, 1_314]),
            _ if kind.price < 10 => *self.dice.pick(&[10_000, 1_000_000]),
            _ => 1,
        };
        let mut gift = self.base(&viewer, kind);
        if count > 1 || self.dice.percent(50.0) {
            gift["count"] = json!(count);
        }
        if self.dice.percent(85.0) {
            // Now and then a viewer pays from another purse: no merge then, a row of its own.
            let mut money = viewer.currency;
            if self.dice.percent(4.0) {
                money = *self.dice.pick(CURRENCIES);
            }
            let amount = kind.price * count * money.per_coin;
            gift["value"] = json!({ "amount": amount, "currency": money.code });
        }
        self.decorate(&mut gift);
        self.last = Some((viewer, kind));
        gift
    }

    /// Plans every frame of a combo, keeps them for later and gives the first.
    fn start_run(&mut self, viewer: &Viewer, kind: DemoGift) -> Value {
        let combo = format!("{}:combo/{}", self.name, self.made);
        let most = if self.dice.percent(10.0) { 300 } else { 40 };
        let goal = self.dice.between(3, most);
        let priced = self.dice.percent(85.0);
        let mut frames = VecDeque::new();
        let mut at = 0;
        while at < goal {
            let skipped = if self.dice.percent(40.0) { self.dice.between(1, 9) } else { 0 };
            let units = (1 + skipped).min(goal - at);
            at += units;
            let repeats = if self.dice.percent(8.0) { 2 } else { 1 };
            for _ in 0..repeats {
                let mut frame = self.base(viewer, kind);
                frame["count"] = json!(units);
                frame["combo"] = json!({ "id": combo, "count": at });
                if priced {
                    let amount = kind.price * at * viewer.currency.per_coin;
                    frame["value"] = json!({ "amount": amount, "currency": viewer.currency.code });
                }
                frames.push_back(frame);
            }
        }
        if self.dice.percent(75.0)
            && let Some(frame) = frames.back_mut()
        {
            frame["combo"]["end"] = json!(true);
        }
        // Neighbours overtake each other, also the end.
        for left in 1..frames.len() {
            if self.dice.percent(6.0) {
                frames.swap(left - 1, left);
            }
        }
        let first = frames.pop_front().unwrap_or_else(|| self.base(viewer, kind));
        if !frames.is_empty() {
            self.runs.push(frames);
        }
        first
    }

    /// The required fields and a fresh id.
    fn base(&mut self, viewer: &Viewer, kind: DemoGift) -> Value {
        self.made += 1;
        let mut gift = json!({
            "id": format!("{}:{}", self.name, self.made),
            "user": viewer.user,
            "gift": { "id": kind.id, "name": kind.name },
        });
        if kind.tier > 0 {
            gift["tier"] = json!(kind.tier);
        }
        gift
    }

    /// The optional fields that any gift may carry.
    fn decorate(&mut self, gift: &mut Value) {
        if self.dice.percent(12.0) {
            let hostile = self.hostile && self.dice.percent(40.0);
            gift["message"] = json!(self.dice.pick(if hostile { HOSTILE_MESSAGES } else { MESSAGES }));
        } else if self.dice.percent(0.5) {
            gift["message"] = json!("长 message ".repeat(20));
        }
        if self.dice.percent(2.0) {
            gift["test"] = json!(true);
        }
        if self.dice.percent(4.0) {
            let level = self.dice.between(1, 60);
            gift["meta"] = json!({ "level": level, "badges": ["fan", "周年"], "<x>": null });
        }
        if self.dice.percent(10.0) {
            let (minute, second) = (self.made / 60 % 60, self.made % 60);
            let ms = self.dice.between(0, 999);
            gift["occurred_at"] = json!(format!("2026-01-31T20:{minute:02}:{second:02}.{ms:03}Z"));
        }
    }
}

impl Iterator for Show {
    type Item = Value;

    /// The next gift; never `None`.
    fn next(&mut self) -> Option<Value> {
        Some(self.step())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn combo_of(gift: &Value) -> Option<(&str, u64)> {
        Some((gift["combo"]["id"].as_str()?, gift["combo"]["count"].as_u64()?))
    }

    #[test]
    fn the_same_seed_plays_the_same_show() {
        let play = |seed| Show::new(seed).take(2_000).collect::<Vec<_>>();
        assert_eq!(play(1), play(1));
        assert_ne!(play(1), play(2));
    }

    #[test]
    fn another_name_changes_the_ids_and_nothing_else() {
        let ids_cut = |name| {
            Show::named(5, name, true)
                .take(2_000)
                .map(|gift| gift.to_string().replace(&format!("{name}:"), ""))
                .collect()
        };
        let (one, other): (Vec<String>, Vec<String>) = (ids_cut("evening"), ids_cut("morning"));
        assert_eq!(one, other);
    }

    #[test]
    fn the_same_id_always_carries_the_same_payload() {
        let mut seen: HashMap<String, Value> = HashMap::new();
        let mut retries = 0;
        for gift in Show::new(3).take(5_000) {
            let id = gift["id"].as_str().unwrap().to_owned();
            retries += usize::from(seen.get(&id).is_some_and(|before| *before == gift));
            assert_eq!(*seen.entry(id).or_insert_with(|| gift.clone()), gift);
        }
        assert!(retries > 50, "{retries}");
    }

    #[test]
    fn combos_skip_and_repeat_and_overtake_and_speak_after_their_end() {
        let (mut high, mut ended) = (HashMap::new(), HashSet::new());
        let (mut skips, mut repeats, mut backwards, mut late) = (0, 0, 0, 0);
        for gift in Show::new(4).take(20_000) {
            let Some((id, count)) = combo_of(&gift) else { continue };
            let before = high.entry(id.to_owned()).or_insert(0);
            skips += usize::from(count > *before + 1);
            repeats += usize::from(count == *before);
            backwards += usize::from(count < *before);
            late += usize::from(ended.contains(id));
            *before = count.max(*before);
            if gift["combo"]["end"] == true {
                ended.insert(id.to_owned());
            }
        }
        assert!(high.len() > 100 && !ended.is_empty() && ended.len() < high.len());
        assert!(
            skips > 100 && repeats > 20 && backwards > 20 && late > 5,
            "{skips} {repeats} {backwards} {late}"
        );
    }

    #[test]
    fn few_viewers_give_most_and_many_give_something() {
        let mut gifts_of: HashMap<String, usize> = HashMap::new();
        for gift in Show::new(6).take(10_000) {
            *gifts_of.entry(gift["user"]["id"].to_string()).or_default() += 1;
        }
        let mut counts: Vec<usize> = gifts_of.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: usize = counts.iter().take(30).sum();
        assert!(counts.len() > 200, "{}", counts.len());
        assert!(top > 5_000, "{top}");
    }

    #[test]
    fn a_friendly_show_attacks_nobody() {
        let gifts: Vec<Value> = Show::named(8, "f", false).take(20_000).collect();
        let all = serde_json::to_string(&gifts).unwrap();
        for part in ["<script>", "\\u0000", "\u{202E}", "onerror", "DROP TABLE"] {
            assert!(!all.contains(part), "{part}");
        }
        assert!(all.contains("小明") && all.contains("محمد") && all.contains("StarDiamonds"));
    }

    #[test]
    fn the_show_has_everything_that_a_feed_must_stand() {
        let gifts: Vec<Value> = Show::new(8).take(20_000).collect();
        let all = serde_json::to_string(&gifts).unwrap();
        for part in [
            "<script>",
            "\\u0000",
            "\u{202E}",
            "小明",
            "محمد",
            "🚀",
            "\"test\":true",
            "\"meta\"",
            "\"occurred_at\"",
            "\"avatar\"",
            "StarDiamonds",
            "JPY",
            "BHD",
            "\"count\":1000000",
            "\"tier\":9",
            "club:vip",
            "vip:rose",
        ] {
            assert!(all.contains(part), "{part}");
        }
        assert!(!all.contains("deliver_at") && !all.contains("delay_ms"));
        let long = gifts.iter().filter_map(|g| g["message"].as_str()).any(|m| m.chars().count() > 190);
        assert!(long);
    }

    #[test]
    fn the_mean_pace_is_one_and_bursts_are_far_faster() {
        let mut show = Show::new(9);
        let paces: Vec<f64> = (0..20_000)
            .map(|_| {
                show.next();
                show.pace()
            })
            .collect();
        let mean = paces.iter().sum::<f64>() / paces.len() as f64;
        assert!((0.8..1.25).contains(&mean), "{mean}");
        let fast = paces.windows(20).any(|w| w.iter().sum::<f64>() < 4.0);
        assert!(fast);
    }
}
