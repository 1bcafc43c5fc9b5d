//! Slots of a cluster: which one a key is in, and a hash tag for each slot.

use std::sync::LazyLock;

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

/// By slot: the number with which the tag of [`tag_of_slot`] ends.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; usize::from(SLOTS)];
    let mut missing = tags.len();
    for number in 0_u32.. {
        let place = &mut tags[usize::from(slot_of_tag(&spelled(number)))];
        if place.replace(place.unwrap_or(number)).is_none() {
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags.into_iter().flatten().collect()
});

fn spelled(number: u32) -> String {
    format!("slot:{number}")
}

/// A hash tag that leads to this slot, the same one on every node. No feed has such a name.
pub fn tag_of_slot(slot: u16) -> String {
    spelled(TAGS.get(usize::from(slot)).copied().unwrap_or_default())
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
    fn there_is_a_tag_for_every_slot() {
        for slot in 0..SLOTS {
            assert_eq!(slot_of_tag(&tag_of_slot(slot)), slot);
        }
    }
}
