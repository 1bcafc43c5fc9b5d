-- retract_user: takes every row of a user back, the oldest first.
--
-- KEYS list hist meta policy due later ledger reports readers totals sums people unranked parts announced retracted
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at begin
--     begin: how the user of such a row begins
-- USES clock policies list feed ledger retraction
-- LATER doubt settle row rows room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, then how many there were
-- REFUSES as ledger/writer and totals/counting do

if feed.refusal then return feed.refusal end
if feed.is_unsettled then LATER.settle.apply() end
local begin, theirs, rows = ',"user":' .. ARGV.begin, {}, LATER.rows.all()
for n = #rows, 1, -1 do
  if string.find(rows[n].text, begin, 1, true) then theirs[#theirs + 1] = rows[n] end
end
retraction.take_rows(theirs)
local refusal = retraction.refusal()
if refusal then return refusal end
feed.commit()
return { feed.position() .. ledger.news, feed.int(#theirs) }
