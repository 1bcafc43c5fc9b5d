-- feed_retract_user: takes every row of a user back, the oldest first.
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
--   14 begin: how the user of such a row begins
-- DATA writes, always
-- RETURNS the header, then how many there were
-- REFUSES as feed_ledger and feed_count do

settle()
local USER, prefix, theirs = '^' .. string.rep('[^\n]*\n', 11) .. '([^\n]*)', ARGV[14], {}
for at = #entries, 1, -1 do
  local user = match(row_text(match(entries[at], '^%S+')) or '', USER)
  if user and string.sub(user, 1, #prefix) == prefix then theirs[#theirs + 1] = at end
end
take_rows(theirs)
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
retracted_commit()
ledger_commit()
return { header() .. news, int(#theirs) }
