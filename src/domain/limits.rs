//! Bounds that are said in more than one place: here they are spelled, and `tests/it/limits.rs` compares the default
//! file, the API's document and the scripts with them. Each is (least, most), both allowed; times are milliseconds.

/// A week: the longest of most times that a user may choose.
pub const WEEK_MS: u64 = 604_800_000;

/// A year.
pub const YEAR_MS: u64 = 31_536_000_000;

/// A day.
pub const DAY_MS: u64 = 86_400_000;

/// Rows of a list.
pub const CAPACITY: (u64, u64) = (1, 100);

/// How long a dedup lock lasts.
pub const DEDUP_WINDOW_MS: (u64, u64) = (0, DAY_MS);

/// How long a row lives after its last change, where it does not live for ever (0).
pub const ROW_TTL_MS: (u64, u64) = (1_000, WEEK_MS);

/// How much later gifts are shown.
pub const DELAY_MS: (u64, u64) = (0, WEEK_MS);

/// How long changes are gathered for watchers.
pub const FLUSH_MS: (u64, u64) = (0, 1_000);

/// How long an id is remembered.
pub const IDEMPOTENCY_WINDOW_MS: (u64, u64) = (60_000, WEEK_MS);

/// How long a gift waits for review.
pub const REVIEW_TIMEOUT_MS: (u64, u64) = (1_000, 3_600_000);

/// How many of the newest changes a watcher can resume over.
pub const HISTORY: (u64, u64) = (0, 100_000);
