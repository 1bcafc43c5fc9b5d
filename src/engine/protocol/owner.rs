//! Whose a key is. Damage in a key makes its owner unavailable, and no other feed.

/// Whose a key is, as its spelling says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// A feed's, of this name.
    Feed(&'a [u8]),
    /// What is about several feeds: the name of the index or list.
    Shared(&'a [u8]),
    /// It is worth nothing after a restart, and is never written down.
    Fleeting,
}

/// Says whose a key is.
pub type Owners = fn(&[u8]) -> Owner<'_>;

impl Owner<'_> {
    /// One word for it; none of what is never written down.
    pub(crate) fn word(self) -> Option<Vec<u8>> {
        match self {
            Owner::Feed(name) => Some([b"f", name].concat()),
            Owner::Shared(name) => Some([b"s", name].concat()),
            Owner::Fleeting => None,
        }
    }
}

/// The feed's name in an owner's word; none of what feeds share.
pub(crate) fn feed_of(word: &[u8]) -> Option<&[u8]> {
    word.strip_prefix(b"f")
}

/// An owner's word, as an operator reads it.
pub(crate) fn shown(word: &[u8]) -> String {
    let name = String::from_utf8_lossy(word.get(1..).unwrap_or_default());
    match word.first() {
        Some(b'f') => format!("the feed {name:?}"),
        _ => format!("what all feeds share ({name})"),
    }
}
