//! Members in the order of score and name, that know their rank: blocks of bounded length, so that no step moves or walks
//! more than one block and the list of blocks.

use std::cmp::Ordering;
use std::sync::Arc;

/// Members of one block at most; a full one is cut in halves.
const BLOCK: usize = 512;

/// A member's place in the order.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// Never NaN.
    pub score: f64,
    /// The member's name.
    pub member: Arc<[u8]>,
}

impl Ranked {
    /// Where it is in the order of scores, then members.
    pub fn compare(&self, score: f64, member: &[u8]) -> Ordering {
        // Minus zero and zero are one score.
        self.score.partial_cmp(&score).unwrap_or(Ordering::Equal).then_with(|| (*self.member).cmp(member))
    }
}

/// Members in the order of score and name, in blocks.
#[derive(Debug, Default)]
pub struct RankedList {
    /// No block is empty.
    blocks: Vec<Vec<Ranked>>,
    length: usize,
}

impl RankedList {
    /// How many members there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of members for which `before` holds; it must hold for a beginning of the order and nothing behind.
    pub fn partition(&self, before: impl Fn(&Ranked) -> bool) -> usize {
        let block = self.blocks.partition_point(|block| block.last().is_some_and(&before));
        let ahead: usize = self.blocks[..block].iter().map(Vec::len).sum();
        ahead + self.blocks.get(block).map_or(0, |block| block.partition_point(&before))
    }

    /// Puts a member in that is not there.
    pub fn insert(&mut self, score: f64, member: Arc<[u8]>) {
        let (at, within) = self.place(score, &member);
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        }
        let at = at.min(self.blocks.len() - 1);
        let block = &mut self.blocks[at];
        let within = within.unwrap_or(block.len());
        block.insert(within, Ranked { score, member });
        if block.len() > BLOCK {
            let half = block.split_off(BLOCK / 2);
            self.blocks.insert(at + 1, half);
        }
        self.length += 1;
    }

    /// Takes a member out that has this score.
    pub fn remove(&mut self, score: f64, member: &[u8]) {
        let (at, within) = self.place(score, member);
        let (Some(block), Some(within)) = (self.blocks.get_mut(at), within) else { return };
        if block.get(within).is_none_or(|it| it.compare(score, member) != Ordering::Equal) {
            return;
        }
        block.remove(within);
        if block.is_empty() {
            self.blocks.remove(at);
        }
        self.length -= 1;
    }

    /// The members from this rank on.
    pub fn from_rank(&self, rank: usize) -> impl DoubleEndedIterator<Item = &Ranked> {
        let (mut at, mut left) = (0, rank.min(self.length));
        while at < self.blocks.len() && left >= self.blocks[at].len() {
            left -= self.blocks[at].len();
            at += 1;
        }
        let first = self.blocks.get(at).map_or(&[][..], |block| &block[left..]);
        first.iter().chain(self.blocks.get(at + 1..).unwrap_or_default().iter().flatten())
    }

    /// The members of these ranks, in order.
    pub fn ranks(&self, from: usize, to: usize) -> impl Iterator<Item = &Ranked> {
        self.from_rank(from).take(to.saturating_sub(from))
    }

    /// The block in which a member is or belongs, and where in it; no place at the end of all.
    fn place(&self, score: f64, member: &[u8]) -> (usize, Option<usize>) {
        let before = |it: &Ranked| it.compare(score, member) == Ordering::Less;
        let at = self.blocks.partition_point(|block| block.last().is_some_and(before));
        (at, self.blocks.get(at).map(|block| block.partition_point(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_a_sorted_vector_whatever_comes_and_goes() {
        let (mut list, mut plain) = (RankedList::default(), Vec::<(i64, Vec<u8>)>::new());
        let mut state = 7_u64;
        let mut dice = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..20_000 {
            let (score, member) = (dice(50) as i64, format!("m{}", dice(3_000)).into_bytes());
            match plain.binary_search(&(score, member.clone())) {
                Ok(at) => {
                    list.remove(score as f64, &member);
                    plain.remove(at);
                }
                Err(at) => {
                    list.insert(score as f64, member.as_slice().into());
                    plain.insert(at, (score, member));
                }
            }
            assert_eq!(list.len(), plain.len());
            if step % 500 == 0 {
                let all: Vec<_> = list.from_rank(0).map(|it| (it.score as i64, it.member.to_vec())).collect();
                assert_eq!(all, plain);
                let (from, score) = (dice(plain.len() as u64 + 1) as usize, dice(50));
                let some: Vec<_> =
                    list.ranks(from, from + 9).map(|it| (it.score as i64, it.member.to_vec())).collect();
                assert_eq!(some, plain[from..(from + 9).min(plain.len())]);
                let below = plain.partition_point(|it| it.0 < score as i64);
                assert_eq!(list.partition(|it| it.score < score as f64), below);
            }
        }
        assert!(list.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK));
    }
}
