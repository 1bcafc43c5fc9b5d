//! The words of a call in one buffer. A call has about fifty words and crosses threads, so one allocation each would be slow.

/// Words in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    bytes: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
}

impl Words {
    /// An empty list with this capacity.
    pub fn with_capacity(words: usize, bytes: usize) -> Words {
        Words { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    /// Adds a word, given in pieces.
    pub fn push(&mut self, pieces: &[&[u8]]) {
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.ends.push(self.bytes.len());
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes they are together.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let word = &self.bytes[begin..*end];
            begin = *end;
            word
        })
    }
}

impl<'w> FromIterator<&'w [u8]> for Words {
    fn from_iter<I: IntoIterator<Item = &'w [u8]>>(words: I) -> Words {
        let mut all = Words::default();
        words.into_iter().for_each(|word| all.push(&[word]));
        all
    }
}
