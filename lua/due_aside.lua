-- due_aside: an entry of a feed's due queue cannot be handled: it rests, or after too many tries is dead.
--
-- KEYS 5:
--   1 due
--   2 later: of a gift in review, reviews
--   3 tries: a HASH: member -> how often; forgotten after an hour without one
--   4 dead: a LIST, the newest first: "AT DUE REASON", newline, the member, newline, what later held
--   5 id: of the gift; of another kind of entry, due again
-- ARGV 9:
--   1 now, milliseconds; "-" takes the store's clock
--   2 member
--   3 gift: its id, "" for another kind of entry
--   4 reason
--   5 tries: at which it is dead
--   6 rest: how long it rests after the first try, milliseconds; each further one four times as long
--   7 dead entries: how many are kept
--   8 window: what of the dead one's id is forgotten after so long, milliseconds
--   9 due at: when it was due
-- DATA writes, always
-- RETURNS now, when the feed's first entry is due or "", then "gone" (not there any more), "rests" or "dead"
-- REFUSES nothing

local call, format = redis.call, string.format
local DUE, LATER, TRIES, DEAD, ID = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local member, gift = ARGV[2], ARGV[3]

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function answer(what)
  local first = tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2])
  return { format('%d', now), first and format('%d', first) or '', what }
end

-- Somebody else may have handled it, or set it aside.
local score = tonumber(call('ZSCORE', DUE, member))
local tries = tonumber(call('HGET', TRIES, member) or '0') + 1
local text = gift ~= '' and call('HGET', LATER, gift) or ''
call('LLEN', DEAD)
if not score or score > now then return answer('gone') end
if tries < tonumber(ARGV[5]) then
  call('HSET', TRIES, member, tries)
  call('PEXPIRE', TRIES, 3600000)
  call('ZADD', DUE, format('%d', now + tonumber(ARGV[6]) * 4 ^ (tries - 1)), member)
  return answer('rests')
end
call('ZREM', DUE, member)
call('HDEL', TRIES, member)
if gift ~= '' then
  call('HDEL', LATER, gift)
  call('PEXPIRE', ID, ARGV[8])
end
if call('EXISTS', DUE) == 0 then call('DEL', LATER, TRIES) end
call('LPUSH', DEAD, format('%d', now) .. ' ' .. ARGV[9] .. ' ' .. ARGV[4] .. '\n' .. member .. '\n' .. text)
call('LTRIM', DEAD, 0, tonumber(ARGV[7]) - 1)
return answer('dead')
