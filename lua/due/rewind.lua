-- rewind: puts right what was made in a feed while the clock was ahead. An entry of the due queue that was made at a time
-- which is still to come waits from now on for as long as it was to wait then, as if it had been made now; drops and totals are
-- looked at once.
-- A second is no sign of that: entries come while this walks through the feeds.
-- From the end of the queue backwards, a part in each call: what comes or goes in front of it moves nothing there.
--
-- KEYS due later reviews
-- ARGV now skip
--     skip: how many entries at the end were looked at, and stay
-- USES clock
-- DATA writes, always
-- RETURNS when the feed's first entry is due or "", what to skip in the next call or "" when all were looked at, then how
--   many were put right
-- REFUSES nothing

local call, format, match = redis.call, string.format, string.match
local DUE, SKIP, LOOK, TOLERATED = KEYS.due, tonumber(ARGV.skip), 500, 1000
-- What is kept of gifts, and how it says when they came.
local KEPT = { g = { KEYS.later, '^(%d+ %S+ )(%d+)(\n.*)$' }, r = { KEYS.reviews, '^([^\n]*\n)(%d+)( .*)$' } }
local now = clock.now

local last, moved, kept, stay = call('ZRANGE', DUE, -SKIP - LOOK, -SKIP - 1, 'WITHSCORES'), {}, {}, SKIP
for at = 1, #last, 2 do
  local due, to = tonumber(last[at + 1]), nil
  local kind, id = match(last[at], '^%d+ (%a)(.*)$')
  if due > now and KEPT[kind] then
    local key = KEPT[kind][1]
    local head, made, rest = match(call('HGET', key, id) or '', KEPT[kind][2])
    if made and tonumber(made) > now + TOLERATED then
      to = now + math.max(due - made, 0)
      -- A gift in review may have a time of its own.
      local own, behind = match(rest, '^ (%d+)(\n.*)$')
      if own then rest = ' ' .. format('%d', now + math.max(own - made, 0)) .. behind end
      kept[#kept + 1] = { key, id, head .. clock.text .. rest }
    end
  elseif due > now then
    to = now
  end
  if to then
    moved[#moved + 1] = format('%d', to)
    moved[#moved + 1] = last[at]
  else
    stay = stay + 1
  end
end
for _, it in ipairs(kept) do call('HSET', unpack(it)) end
if #moved > 0 then call('ZADD', DUE, unpack(moved)) end
-- What is due already is in front.
local is_all = #last < 2 * LOOK or tonumber(last[2]) <= now
local first = tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2])
return { first and format('%d', first) or '', is_all and '' or format('%d', stay), format('%d', #kept) }
