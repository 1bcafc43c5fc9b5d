-- source_note: counts a delivery to a source, if there is such a source.
--
-- KEYS 2:
--   1 sources: a HASH: name -> version, a space, the source
--   2 came: a HASH: name/what -> how often or when
-- ARGV 4:
--   1 name
--   2 outcome
--   3 when, milliseconds
--   4 error: what was wrong, "" when nothing was
-- DATA writes
-- RETURNS 1, or 0 when there is no such source
-- REFUSES nothing

local call = redis.call
local name = ARGV[1]
if call('HEXISTS', KEYS[1], name) == 0 then return 0 end
call('HINCRBY', KEYS[2], name .. '/' .. ARGV[2], 1)
call('HSET', KEYS[2], name .. '/last_at', ARGV[3])
if ARGV[4] ~= '' then call('HSET', KEYS[2], name .. '/error_at', ARGV[3], name .. '/error', ARGV[4]) end
return 1
