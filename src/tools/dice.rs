//! A small seeded generator: the same seed rolls the same dice on every machine and version.

/// SplitMix64 by Sebastiano Vigna (public domain, <https://prng.di.unimi.it/splitmix64.c>, whose
/// constants these are): one addition and a mix per number, good for a show, not for secrets.
#[derive(Clone, Debug)]
pub(in crate::tools) struct Dice(u64);

impl Dice {
    pub(in crate::tools) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// Any 64 bits.
    pub(in crate::tools) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 ≤ x < 1, from the top 53 bits.
    pub(in crate::tools) fn unit(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `least` ≤ n ≤ `most`. The high half of a wide product: a bias below 2^-32 for the small
    /// ranges of a show, and no loop.
    pub(in crate::tools) fn between(&mut self, least: u64, most: u64) -> u64 {
        let width = u128::from(most.saturating_sub(least)) + 1;
        least + ((u128::from(self.roll()) * width) >> 64) as u64
    }

    /// True `percent` times in a hundred.
    pub(in crate::tools) fn percent(&mut self, percent: f64) -> bool {
        self.unit() * 100.0 < percent
    }

    /// One of a list that is never empty.
    pub(in crate::tools) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.between(0, from.len() as u64 - 1) as usize]
    }

    /// A gap between events that come at random with this mean (exponential), at most 10 means.
    pub(in crate::tools) fn gap(&mut self, mean: f64) -> f64 {
        let u = 1.0 - self.unit();
        (-u.ln()).min(10.0) * mean
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_dice_roll_what_the_published_generator_rolls() {
        // First numbers of splitmix64 seeded with 1234567, as Rosetta Code publishes them.
        let mut dice = Dice::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| dice.roll()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn every_roll_is_in_its_range() {
        let mut dice = Dice::new(7);
        for _ in 0..10_000 {
            assert!((3..=9).contains(&dice.between(3, 9)));
            assert!((0.0..1.0).contains(&dice.unit()));
            assert!((0.0..=20.0).contains(&dice.gap(2.0)));
        }
        assert_eq!(dice.between(0, 0), 0);
        dice.between(0, u64::MAX);
    }
}
