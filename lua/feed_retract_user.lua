-- feed_retract_user: takes every row of a user back, the oldest first.
--
-- KEYS 5:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
-- ARGV 10:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 begin: how the user of such a row begins
-- RETURNS the header, then how many there were
-- REFUSES nothing

settle()
local USER, prefix, gone_rows = '^' .. string.rep('[^\n]*\n', 11) .. '([^\n]*)', ARGV[10], 0
for at = #entries, 1, -1 do
  local id = match(entries[at], '^%S+')
  local user = match(row_text(id) or '', USER)
  if user and string.sub(user, 1, #prefix) == prefix then
    drop(at)
    record('retracted ' .. id, '')
    gone_rows = gone_rows + 1
  end
end
commit('=')
return { header(), int(gone_rows) }
