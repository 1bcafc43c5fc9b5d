-- turns: gives turns in one part of the index of due feeds back, and takes new ones. A feed whose turn
-- is taken stands at the turn's end, so that it comes back by itself when its taker does not.
--
-- KEYS feeds marks
-- ARGV now turn most, per turn: feed mark next
--     turn: how long it lasts, milliseconds
--     most: the limit of feeds to take
--     mark: its own when its turn began
--     next: when it has something due again, a time, "+" and milliseconds from now, or ""
-- LATER clock
-- DATA writes, always
-- RETURNS in how many milliseconds the next feed is due or "", how many feeds are there, then per feed whose
--   turn it is now: its name, its mark, "1" when another's turn ran out, else "0"
-- REFUSES nothing

local call, format, sub = redis.call, string.format, string.sub
local FEEDS, MARKS = KEYS.feeds, KEYS.marks
-- What an idle node asks most of the time.
if ITEM_COUNT == 0 and call('EXISTS', FEEDS) == 0 then return { '', '0' } end
local now = LATER.clock.now

-- A caller that registers a feed adds to its queue afterwards, within this many milliseconds or not at all: what is not
-- there before may still come.
local PROMISE = 5000

-- A mark without what says that somebody has the turn, and the registration that it came from.
local function plain(mark)
  if sub(mark, -1) == '*' then return sub(mark, 1, -2) end
  return mark
end
local function registration(mark)
  return (string.match(mark, '^[^#*]*'))
end

for n = 1, ITEM_COUNT do
  local feed, mark, next_due = ARGV.feed[n], ARGV.mark[n], tonumber(ARGV.next[n])
  if sub(ARGV.next[n], 1, 1) == '+' then next_due = now + tonumber(sub(ARGV.next[n], 2)) end
  local since = tonumber(string.match(mark, '@(%d+)') or nil)
  if since and now >= since and now < since + PROMISE then
    next_due = math.min(next_due or since + PROMISE, since + PROMISE)
  end
  local known = call('HGET', MARKS, feed)
  if not known then
    -- Somebody else found its queue empty. What was seen here may be older: look again.
    if next_due then
      call('HSET', MARKS, feed, mark)
      call('ZADD', FEEDS, 'LT', format('%d', math.max(next_due, now)), feed)
    end
  elseif registration(known) ~= registration(mark) then
    -- Something came meanwhile, perhaps after the queue was looked at: it is there for that already.
    if next_due then call('ZADD', FEEDS, 'LT', format('%d', math.max(next_due, now)), feed) end
  elseif plain(known) ~= mark then
    -- This turn ran out, and somebody else has, or had, the next one.
  elseif next_due then
    call('HSET', MARKS, feed, mark)
    call('ZADD', FEEDS, format('%d', math.max(next_due, now)), feed)
  else
    call('HDEL', MARKS, feed)
    call('ZREM', FEEDS, feed)
  end
end

local answer = { '', '' }
local taken = call('ZRANGE', FEEDS, '-inf', LATER.clock.text, 'BYSCORE', 'LIMIT', 0, ARGV.most)
for _, feed in ipairs(taken) do
  local known = call('HGET', MARKS, feed) or '0'
  local turns = tonumber(string.match(known, '#(%d+)') or '0')
  local mark = registration(known) .. '#' .. format('%d', turns + 1)
  answer[#answer + 1] = feed
  answer[#answer + 1] = mark
  answer[#answer + 1] = plain(known) == known and '0' or '1'
  call('HSET', MARKS, feed, mark .. '*')
  call('ZADD', FEEDS, format('%d', now + tonumber(ARGV.turn)), feed)
end
local head = tonumber(call('ZRANGE', FEEDS, 0, 0, 'WITHSCORES')[2])
answer[1] = head and format('%d', math.max(head - now, 0)) or ''
answer[2] = format('%d', call('ZCARD', FEEDS))
return answer
