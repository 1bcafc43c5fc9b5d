-- feed_retract: takes a row back.
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
--   10 row: its id
-- RETURNS the header, then "1" when the row was in the list, else "0"
-- REFUSES nothing

settle()
local found = '0'
for at, entry in ipairs(entries) do
  if match(entry, '^%S+') == ARGV[10] then
    drop(at)
    record('retracted ' .. ARGV[10], '')
    found = '1'
    break
  end
end
commit('=')
return { header(), found }
