-- retract: takes a row back.
--
-- KEYS list hist meta policy due later ledger reports readers totals sums people unranked parts announced retracted
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at row
--     row: its id
-- USES clock policies list feed ledger retraction
-- LATER doubt settle row rows room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, then "1" when the row was in the list, else "0"
-- REFUSES as ledger/writer and totals/counting do

if feed.refusal then return feed.refusal end
if feed.is_unsettled then LATER.settle.apply() end
local row = LATER.rows.find(ARGV.row)
retraction.take_rows({ row })
local refusal = retraction.refusal()
if refusal then return refusal end
feed.commit()
return { feed.position() .. ledger.news, row and '1' or '0' }
