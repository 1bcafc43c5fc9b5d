-- holds: the holds of a user that hold now. Writes nothing.
--
-- KEYS list hist meta policy unpaid
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel user most
--     user: digest
--     most: the limit of the answer
-- USES clock policies list feed
-- LATER doubt
-- DATA reads
-- RETURNS where the feed stands, or "" when the feed's state is doubtful, then members of `unpaid`, the earliest to end first
-- REFUSES nothing

if feed.refusal then return feed.refusal end
local from, to = '[' .. ARGV.user .. ' ' .. string.format('%016d', feed.now + 1), '(' .. ARGV.user .. '!'
local answer = redis.call('ZRANGEBYLEX', KEYS.unpaid, from, to, 'LIMIT', '0', ARGV.most)
table.insert(answer, 1, (feed.is_lost or feed.is_strayed) and '' or feed.position())
return answer
