//! Which known name somebody may have meant who wrote one that is not known.

/// Characters of a name beyond which nothing is suggested, so that a stranger's name costs bounded time. No name that we
/// know is longer.
const NAME_MAX: usize = 32;

/// The candidate that takes the fewest edits to become, two letters that swap places being one, if that is about a third of it or
/// less; or one that the name begins or ends.
pub fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // In bytes first: counting the characters of a long name costs time as well.
    if name.len() > 4 * NAME_MAX || name.chars().count() > NAME_MAX {
        return None;
    }
    let edits = |candidate: &str| match candidate.starts_with(name) || candidate.ends_with(name) {
        true if name.len() > 2 => 1,
        _ => strsim::osa_distance(name, candidate),
    };
    let near = among.map(|candidate| (edits(candidate), candidate));
    let near = near.filter(|(edits, candidate)| *edits <= candidate.len().div_ceil(3));
    near.min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

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
        for (slip, meant) in [("rul", "url"), ("lisen", "listen"), ("isd", "id")] {
            assert_eq!(nearest(slip, [meant].into_iter()), Some(meant));
        }
        assert_eq!(nearest("rlu", ["url"].into_iter()), None);
    }

    #[test]
    fn nothing_is_suggested_for_a_long_name() {
        let long = "deliver_at".repeat(4);
        assert_eq!(nearest(&long, [long.as_str()].into_iter()), None);
        assert_eq!(nearest(&"é".repeat(1_000_000), ["count"].into_iter()), None);
    }
}
