-- feed_holds: the holds of a user that hold now. Writes nothing.
--
-- KEYS 6:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 unpaid
-- ARGV 11:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 user, digest
--   11 most: at most so many
-- DATA reads
-- RETURNS the header, or "" when the feed's state is doubtful, then members of `unpaid`, the earliest to end first
-- REFUSES nothing

local from, to = '[' .. ARGV[10] .. ' ' .. format('%016d', now + 1), '(' .. ARGV[10] .. '!'
local answer = call('ZRANGEBYLEX', KEYS[6], from, to, 'LIMIT', '0', ARGV[11])
table.insert(answer, 1, (lost or strayed) and '' or header())
return answer
