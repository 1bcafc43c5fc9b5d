//! Random choices that one number repeats: the same seed, the same test.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of 0…n−1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// Dice of its own for a part of the test.
    pub fn split(&mut self) -> Dice {
        Dice(self.roll())
    }
}

/// `TIPCAST_SEED` alone when it is set, else these.
pub fn seeds(these: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("TIPCAST_SEED") {
        Ok(seed) => vec![seed.parse().expect("TIPCAST_SEED is a number")],
        Err(_) => these.collect(),
    }
}
