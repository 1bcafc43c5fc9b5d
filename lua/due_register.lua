-- due_register: puts a feed into the index of due feeds, before something joins its due queue. Once too
-- often does no harm. Wakes the nodes when it is to be looked at before everything else in its part.
--
-- The index is in parts, each in a slot of its own:
--   feeds  ZSET, feed -> when somebody is to look at it: its queue's first time, or a turn's end
--   marks  HASH, feed -> the mark of the last registration, "MARK" or "MARK@WHEN"; behind it "#" and how many
--          turns there were since, and "*" while somebody has one
-- The index of webhooks with something to send (report_job) is the same, with "READER FEED" for feed.
--
-- KEYS 2:
--   1 feeds
--   2 marks
-- ARGV 6:
--   1 now, milliseconds; "-" takes the store's clock
--   2 at: a time, or ""
--   3 in: milliseconds from now, or ""; the earlier of the two counts
--   4 feed
--   5 mark; with "@" at its end the time comes behind it
--   6 wake channel
-- DATA writes, always
-- RETURNS when the feed will be looked at at the latest, then in how many milliseconds that is when it
--   became the first, else ""
-- REFUSES nothing

local call, format = redis.call, string.format
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
local at = tonumber(ARGV[2])
local from_now = tonumber(ARGV[3])
if from_now and (not at or now + from_now < at) then at = now + from_now end

local head = tonumber(call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
local mark = ARGV[5]
if string.sub(mark, -1) == '@' then mark = mark .. format('%d', now) end
call('HSET', KEYS[2], ARGV[4], mark)
call('ZADD', KEYS[1], 'LT', format('%d', at), ARGV[4])
local sooner = ''
if not head or at < head then
  sooner = format('%d', math.max(at - now, 0))
  call('SPUBLISH', ARGV[6], sooner)
end
return { format('%d', at), sooner }
