//! What taking back, and what overlays were told, need of the tables.

/// What each feed's and each id's row has beside what the first layouts know.
pub const TABLES: &str = "
ALTER TABLE ids ADD COLUMN part TEXT NOT NULL DEFAULT '';
ALTER TABLE feeds ADD COLUMN controls INTEGER NOT NULL DEFAULT 0;
";
