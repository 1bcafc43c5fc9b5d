//! Answers about blocks.

use serde::Serialize;

use crate::domain::{Block, Millis};

/// A user whose gifts are not shown.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[cfg_attr(test, schema(as = Block))]
pub struct BlockEntry {
    /// The user's id.
    pub user: String,
    /// Since when.
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub at: Millis,
    /// Until when; absent for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    pub until: Option<Millis>,
}

impl From<&Block> for BlockEntry {
    fn from(block: &Block) -> BlockEntry {
        BlockEntry { user: block.user.clone(), at: block.at, until: block.until }
    }
}

/// Blocks that hold, by user.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct BlockList {
    #[cfg_attr(test, schema(max_items = 1000))]
    pub blocks: Vec<BlockEntry>,
}

/// A block has ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Unblocked {
    /// The user's id.
    user: String,
}

impl Unblocked {
    /// This user's gifts are shown again.
    pub fn of(user: &str) -> Unblocked {
        Unblocked { user: user.to_owned() }
    }
}
