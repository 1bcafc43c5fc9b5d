//! Random bits of the operating system. It lacks them only while it starts, and keys, secrets and marks that repeat could not be
//! repaired afterwards: a process that gets none ends.

/// Random bytes, good for secrets.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        std::process::abort();
    }
    bytes
}

/// A random number.
pub fn number() -> u64 {
    u64::from_ne_bytes(bytes())
}

/// From 0 to 1, evenly spread.
pub fn share() -> f64 {
    number() as f64 / u64::MAX as f64
}
