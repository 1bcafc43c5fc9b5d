-- note: counts a delivery to a source, if there is such a source.
--
-- KEYS sources came
--     sources: a HASH: name -> version, a space, the source
--     came: a HASH: name/what -> how often or when
-- ARGV name outcome when error
--     when: milliseconds
--     error: what was wrong, "" when nothing was
-- DATA writes
-- RETURNS 1, or 0 when there is no such source
-- REFUSES nothing

local call = redis.call
local name = ARGV.name
if call('HEXISTS', KEYS.sources, name) == 0 then return 0 end
call('HINCRBY', KEYS.came, name .. '/' .. ARGV.outcome, 1)
call('HSET', KEYS.came, name .. '/last_at', ARGV.when)
if ARGV.error ~= '' then call('HSET', KEYS.came, name .. '/error_at', ARGV.when, name .. '/error', ARGV.error) end
return 1
