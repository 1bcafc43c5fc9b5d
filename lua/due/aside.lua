-- aside: an entry of a feed's due queue cannot be handled: it rests, or after too many tries is dead.
--
-- KEYS due later tries dead id
--     later: of a gift in review, reviews
--     tries: a HASH: member -> how often; forgotten after an hour without one
--     dead: a LIST, the newest first: "AT DUE REASON", newline, the member, newline, what later held
--     id: of the gift; of another kind of entry, due again
-- ARGV now member gift reason tries rest dead_entries window due_at
--     gift: its id, "" for another kind of entry
--     tries: at which it is dead
--     rest: how long it rests after the first try, milliseconds; each further one four times as long
--     dead_entries: how many are kept
--     window: what of the dead one's id is forgotten after so long, milliseconds
--     due_at: when it was due
-- USES clock
-- DATA writes, always
-- RETURNS now, when the feed's first entry is due or "", then "gone" (not there any more), "rests" or "dead"
-- REFUSES nothing

local call, format = redis.call, string.format
local DUE, LATER, TRIES, DEAD, ID = KEYS.due, KEYS.later, KEYS.tries, KEYS.dead, KEYS.id
local member, gift = ARGV.member, ARGV.gift

local now = clock.now

local function answer(what)
  local first = tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2])
  return { clock.text, first and format('%d', first) or '', what }
end

-- Somebody else may have handled it, or set it aside.
local score = tonumber(call('ZSCORE', DUE, member))
local tries = tonumber(call('HGET', TRIES, member) or '0') + 1
local text = gift ~= '' and call('HGET', LATER, gift) or ''
call('LLEN', DEAD)
if not score or score > now then return answer('gone') end
if tries < tonumber(ARGV.tries) then
  call('HSET', TRIES, member, tries)
  call('PEXPIRE', TRIES, 3600000)
  call('ZADD', DUE, format('%d', now + tonumber(ARGV.rest) * 4 ^ (tries - 1)), member)
  return answer('rests')
end
call('ZREM', DUE, member)
call('HDEL', TRIES, member)
if gift ~= '' then
  call('HDEL', LATER, gift)
  call('PEXPIRE', ID, ARGV.window)
end
if call('EXISTS', DUE) == 0 then call('UNLINK', LATER, TRIES) end
call('LPUSH', DEAD, clock.text .. ' ' .. ARGV.due_at .. ' ' .. ARGV.reason .. '\n' .. member .. '\n' .. text)
call('LTRIM', DEAD, 0, tonumber(ARGV.dead_entries) - 1)
return answer('dead')
