-- source_swap: puts a source of a feed in the place of what is there, or takes it away with what came to it.
--
-- KEYS 2:
--   1 sources: a HASH: name -> version, a space, the source
--   2 came: a HASH: name/what -> how often or when
-- ARGV 4:
--   1 name
--   2 was: the version that the source has, "" when there is none
--   3 to: what is to be stored, "" when it goes
--   4 sources at most
-- DATA writes, grows
-- RETURNS "done"
-- REFUSES with "stale" when it is not as the caller thinks, "full" when it would be one too many

local call = redis.call
local name = ARGV[1]
local known = call('HGET', KEYS[1], name)
if (known and string.match(known, '^%d+') or '') ~= ARGV[2] then return 'stale' end
if ARGV[3] == '' then
  call('HDEL', KEYS[1], name)
  -- A name has no slash. A feed's sources have a few hundred of these at most.
  for _, field in ipairs(call('HKEYS', KEYS[2])) do
    if string.match(field, '^[^/]*') == name then call('HDEL', KEYS[2], field) end
  end
else
  if not known and call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return 'full' end
  call('HSET', KEYS[1], name, ARGV[3])
end
return 'done'
