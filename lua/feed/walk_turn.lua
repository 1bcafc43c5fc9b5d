-- walk_turn: the turn to walk on through all feeds and take a user's rows back: begins a walk, or saves how far one is, and
-- says which is to go on. One node walks at a time; one that dies loses the turn with its lease.
--
-- KEYS walks
--     walks: HASH, user -> "SINCE PLACES", when it was begun and how far it is; "" -> "NODE UNTIL", whose turn it is
-- ARGV now node lease rest user before after
--     node: who asks, or "" for one that only begins or ends a walk
--     lease: milliseconds
--     rest: so long after its begin a walk goes on at the earliest, milliseconds
--     user: whose walk is begun, saved or ended; "" none
--     before: what is known of that walk; "" begins it anew, whatever is known
--     after: how far it is now, as PLACES; "" ends it
-- USES clock
-- DATA writes, always
-- RETURNS "" when there is nothing to do for this node now, else the user, then "SINCE PLACES" of the walk that it has the
--   turn of. A walk is neither saved nor ended when it was begun anew meanwhile
-- REFUSES nothing

local call, match, format = redis.call, string.match, string.format
local now, NODE, USER, BEFORE, AFTER = clock.now, ARGV.node, ARGV.user, ARGV.before, ARGV.after
local WALKS = KEYS.walks

if USER ~= '' then
  if BEFORE == '' and AFTER == '' then
    call('HDEL', WALKS, USER)
  elseif BEFORE == '' then
    call('HSET', WALKS, USER, clock.text .. ' ' .. AFTER)
  elseif call('HGET', WALKS, USER) == BEFORE then
    local since, places = match(BEFORE, '^(%d+) (.*)$')
    -- One that came no further, because a shard is away, is behind all others from now on.
    if places == AFTER then since = format('%d', now - ARGV.rest) end
    if AFTER == '' then call('HDEL', WALKS, USER) else call('HSET', WALKS, USER, since .. ' ' .. AFTER) end
  end
end
if NODE == '' then return { '' } end

local held, til = match(call('HGET', WALKS, '') or '', '^(%S+) (%d+)$')
-- A lease that lasts longer than any was given while the clock was ahead.
if held and held ~= NODE and now < tonumber(til) and tonumber(til) <= now + ARGV.lease then return { '' } end
local all, oldest, first = call('HGETALL', WALKS), nil, nil
for at = 1, #all, 2 do
  local since = tonumber(match(all[at + 1], '^(%d+) '))
  if all[at] ~= '' and since and (not first or since < first) then oldest, first = at, since end
end
if not oldest then
  -- Nothing of it is left behind.
  if held then call('HDEL', WALKS, '') end
  return { '' }
end
-- A clock that was set back does not hold it up for longer than it rests.
if now < first + tonumber(ARGV.rest) and now >= first then return { '' } end
call('HSET', WALKS, '', NODE .. ' ' .. format('%d', now + tonumber(ARGV.lease)))
return { all[oldest], all[oldest + 1] }
