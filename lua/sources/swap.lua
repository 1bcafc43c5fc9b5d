-- swap: puts a source of a feed in the place of what is there, or takes it away with what came to it.
--
-- KEYS sources came
--     sources: a HASH: name -> version, a space, the source
--     came: a HASH: name/what -> how often or when
-- ARGV name was to sources_at_most
--     was: the version that the source has, "" when there is none
--     to: what is to be stored, "" when it goes
-- DATA writes, grows
-- RETURNS "done"
-- REFUSES with "stale" when it is not as the caller thinks, "full" when it would be one too many

local call = redis.call
local name = ARGV.name
local known = call('HGET', KEYS.sources, name)
if (known and string.match(known, '^%d+') or '') ~= ARGV.was then return 'stale' end
if ARGV.to == '' then
  call('HDEL', KEYS.sources, name)
  -- A name has no slash. A feed's sources have a few hundred of these at most.
  for _, field in ipairs(call('HKEYS', KEYS.came)) do
    if string.match(field, '^[^/]*') == name then call('HDEL', KEYS.came, field) end
  end
else
  if not known and call('HLEN', KEYS.sources) >= tonumber(ARGV.sources_at_most) then return 'full' end
  call('HSET', KEYS.sources, name, ARGV.to)
end
return 'done'
