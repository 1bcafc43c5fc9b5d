//! How many turns each part of an index may give, when so many are wanted in all.

/// By part. Parts that come first this time come later the next: `round` counts.
pub(super) fn shares(wanted: usize, parts: usize, round: usize) -> Vec<usize> {
    let (each, more) = (wanted / parts.max(1), wanted % parts.max(1));
    (0..parts).map(|part| each + usize::from((part + parts - round % parts) % parts < more)).collect()
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn every_part_has_its_turn_and_no_more_are_given_than_wanted() {
        assert_eq!(shares(7, 1, 5), [7]);
        assert_eq!(shares(3, 4, 0), [1, 1, 1, 0]);
        assert_eq!(shares(3, 4, 2), [1, 0, 1, 1]);
        assert_eq!(shares(9, 4, 1), [2, 3, 2, 2]);
        assert_eq!(shares(0, 4, 1), [0; 4]);
    }
}
