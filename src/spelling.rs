//! Which known name somebody may have meant who wrote one that is not known.

/// The candidate that takes the fewest edits to become, if that is about a third of it or less, or one
/// that the name begins or ends.
pub fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    among
        .map(|candidate| {
            let part = name.len() > 2 && (candidate.starts_with(name) || candidate.ends_with(name));
            (if part { 1 } else { edits(name, candidate) }, candidate)
        })
        .filter(|(edits, candidate)| *edits <= candidate.len().div_ceil(3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Letters put in, left out, exchanged, or swapped with their neighbour (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let above = &rows[i - 1];
            let exchanged = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = exchanged.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_finds_none() {
        let among = |name| nearest(name, ["count", "combo", "deliver_at", "user"].into_iter());
        assert_eq!(among("cuont"), Some("count"));
        assert_eq!(among("deliver"), Some("deliver_at"));
        assert_eq!(among("users"), Some("user"));
        assert_eq!(among("colour"), None);
        assert_eq!(among(""), None);
    }

    #[test]
    fn a_slip_of_the_finger_is_one_edit() {
        for (one, other, count) in [
            ("", "", 0),
            ("", "ab", 2),
            ("rul", "url", 1),
            ("lisen", "listen", 1),
            ("ab", "ba", 1),
            ("abc", "xyz", 3),
        ] {
            assert_eq!((edits(one, other), edits(other, one)), (count, count), "{one} {other}");
        }
    }
}
