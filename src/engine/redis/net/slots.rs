//! Slots of a cluster: which one a key is in, and a hash tag that leads to a wanted one.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM of every byte, by which slots are defined.
const TABLE: [u16; 256] = {
    let mut table = [0_u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The slot of keys with this hash tag.
pub fn slot_of_tag(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS
}

/// The slot of a key that has a hash tag, as all of ours have.
pub fn slot_of_key(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    slot_of_tag(tag.filter(|tag| !tag.is_empty()).unwrap_or(key))
}

/// A hash tag that begins with `name` and whose slot is wanted: a number is tried after the other.
pub fn tag_for(name: &str, wanted: impl Fn(u16) -> bool) -> String {
    // Every slot is met within some hundred thousand numbers; where nothing is wanted, any tag will do.
    let tags = (0..1_000_000).map(|n| format!("{name}.{n}"));
    tags.into_iter().find(|tag| wanted(slot_of_tag(tag))).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_the_specification_of_clusters_gives() {
        assert_eq!(slot_of_tag("123456789"), 0x31C3);
        // As CLUSTER KEYSLOT says.
        assert_eq!(slot_of_key("foo"), 12182);
        assert_eq!(slot_of_key("tc:{foo}:list"), 12182);
        assert_eq!(slot_of_key("{}x"), slot_of_tag("{}x"));
    }

    #[test]
    fn a_tag_is_found_for_every_slot() {
        for slot in [0, 1, 8_191, 16_383] {
            assert_eq!(slot_of_tag(&tag_for("p", |found| found == slot)), slot);
        }
    }
}
