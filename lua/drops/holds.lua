-- holds: the holds of a user that hold now. Writes nothing.
--
-- KEYS list rows hist meta policy unpaid
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel user most
--     user: digest
--     most: the limit of the answer
-- DATA reads
-- RETURNS the header, or "" when the feed's state is doubtful, then members of `unpaid`, the earliest to end first
-- REFUSES nothing

local from, to = '[' .. ARGV.user .. ' ' .. format('%016d', now + 1), '(' .. ARGV.user .. '!'
local answer = call('ZRANGEBYLEX', KEYS.unpaid, from, to, 'LIMIT', '0', ARGV.most)
table.insert(answer, 1, (lost or strayed) and '' or header())
return answer
