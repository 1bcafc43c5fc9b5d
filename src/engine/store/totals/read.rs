//! `lua/totals/read.lua`.

use crate::domain::tally::TotalsView;
use crate::domain::{FeedId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::records::read_periods;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

impl Store {
    /// What each period that is counted has, or had in its last run that ended; without leaders. `None` if nothing
    /// is counted.
    pub async fn read_totals(
        &self,
        feed: &FeedId,
        back: bool,
        now: Millis,
    ) -> StoreResult<Option<TotalsView>> {
        self.measured(Operation::Totals, Some(feed), async {
            let what = if back { "ended" } else { "open" };
            let texts = self.parts.writer.read_all(feed, what, now).await?;
            if texts.first().is_none_or(|text| text != "counted") {
                return Ok(None);
            }
            let mut totals = TotalsView::new();
            for text in &texts[1..] {
                let periods = read_periods(text).ok_or(Corrupt("totals"))?;
                totals.extend(periods.into_iter().filter_map(|(period, view)| Some((period, view?))));
            }
            Ok(Some(totals))
        })
        .await
    }
}
