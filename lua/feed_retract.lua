-- feed_retract: takes a row back.
--
-- KEYS 16:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 later
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 retracted
-- ARGV 14:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 hooks version: that of the webhooks of all feeds
--   11 registered: webhooks that rest and are in the index of jobs
--   12 ledger bounds
--   13 looked at: from when on the feed is known to be looked at by whoever does what is due
--   14 row: its id
-- DATA writes, always
-- RETURNS the header, then "1" when the row was in the list, else "0"
-- REFUSES as feed_ledger and feed_count do

settle()
local found = '0'
for at, entry in ipairs(entries) do
  if match(entry, '^%S+') == ARGV[14] then
    take_rows({ at })
    found = '1'
    break
  end
end
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
retracted_commit()
ledger_commit()
return { header() .. news, found }
