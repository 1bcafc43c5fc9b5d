//! Which known name somebody may have meant who wrote one that is not known.

/// Characters of a name beyond which nothing is suggested, so that a stranger's name costs bounded time. No name that we
/// know is longer.
const NAME_MAX: usize = 32;

/// The candidate that takes the fewest edits to become, if that is about a third of it or less, or one
/// that the name begins or ends.
pub fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters = Letters::of(name)?;
    among
        .filter_map(|candidate| {
            let most = candidate.len().div_ceil(3);
            let part = name.len() > 2 && (candidate.starts_with(name) || candidate.ends_with(name));
            let edits = match part {
                true => 1,
                false => edits(&letters, &Letters::of(candidate)?, most)?,
            };
            Some((edits, candidate))
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// The characters of a short name.
struct Letters {
    all: [char; NAME_MAX],
    len: usize,
}

impl Letters {
    /// `None` for a name that is too long.
    fn of(name: &str) -> Option<Letters> {
        // No name has more characters than bytes, and none has more than four bytes for each.
        if name.len() > 4 * NAME_MAX {
            return None;
        }
        let mut letters = Letters { all: ['\0'; NAME_MAX], len: 0 };
        for letter in name.chars() {
            *letters.all.get_mut(letters.len)? = letter;
            letters.len += 1;
        }
        Some(letters)
    }

    fn as_slice(&self) -> &[char] {
        &self.all[..self.len]
    }
}

/// Letters put in, left out, exchanged, or swapped with their neighbour (optimal string alignment); `None` if it takes
/// more than `most`.
fn edits(a: &Letters, b: &Letters, most: usize) -> Option<usize> {
    let (a, b) = (a.as_slice(), b.as_slice());
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    // Three rows of the table: before the last, the last, and the present one.
    let mut rows = [[0; NAME_MAX + 1]; 3];
    rows[1] = std::array::from_fn(|j| j);
    for i in 1..=a.len() {
        rows[2][0] = i;
        for j in 1..=b.len() {
            let exchanged = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = exchanged.min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = least;
        }
        rows.rotate_left(1);
    }
    Some(rows[1][b.len()]).filter(|edits| *edits <= most)
}

#[cfg(test)]
mod tests {
    use super::{Letters, edits, nearest};

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
            let (a, b) = (Letters::of(one).unwrap(), Letters::of(other).unwrap());
            assert_eq!((edits(&a, &b, 9), edits(&b, &a, 9)), (Some(count), Some(count)), "{one} {other}");
            assert_eq!(edits(&a, &b, count), Some(count), "{one} {other}");
            assert!(count == 0 || edits(&a, &b, count - 1).is_none(), "{one} {other}");
        }
    }

    #[test]
    fn nothing_is_suggested_for_a_long_name() {
        let long = "deliver_at".repeat(4);
        assert_eq!(nearest(&long, [long.as_str()].into_iter()), None);
        assert_eq!(nearest(&"é".repeat(1_000_000), ["count"].into_iter()), None);
    }
}
