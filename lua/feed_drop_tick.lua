-- feed_drop_tick: does everything that is due of a drop, and reads it.
--
-- KEYS 20:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 drops
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 shown
--   17 unpaid
--   18 claims: of the drop
--   19 holds: of the drop
--   20 units: of the drop
-- ARGV 15:
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
--   13 looked at: from then on
--   14 drop
--   15 reminder
-- DATA writes
-- RETURNS the header, then "m" (more is due: call again) or "", then when the due queue has something next or "",
--   then the drop as it stands, or nothing when there is none
-- REFUSES nothing

sweep()
rewind()
local not_yet = finish()
if not_yet then return not_yet end
local first = tonumber(call('ZRANGE', DUE, '0', '0', 'WITHSCORES')[2])
local answer = { header(), more and 'm' or '', first and int(first) or '' }
if stock then answer[4] = view() end
return answer
