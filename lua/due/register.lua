-- register: puts a feed into the index of due feeds, before something joins its due queue. Once too
-- often does no harm. Wakes the nodes when it is to be looked at before everything else in its part.
--
-- The index is in parts, each in a slot of its own:
--   feeds  ZSET, feed -> when somebody is to look at it: its queue's first time, or a turn's end
--   marks  HASH, feed -> the mark of the last registration, "MARK" or "MARK@WHEN"; behind it "#" and how many
--          turns there were since, and "*" while somebody has one
-- The index of webhooks with something to send (ledger/job) is the same, with "READER FEED" for feed.
--
-- KEYS feeds marks
-- ARGV now at within feed mark wake_channel
--     at: a time, or ""
--     within: milliseconds from now, or ""; the earlier of the two counts
--     mark: with "@" at its end the time comes behind it
-- USES clock
-- DATA writes, always
-- RETURNS when the feed will be looked at at the latest, then in how many milliseconds that is when it
--   became the first, else ""
-- REFUSES nothing

local call, format = redis.call, string.format
local now = clock.now
local at = tonumber(ARGV.at)
local from_now = tonumber(ARGV.within)
if from_now and (not at or now + from_now < at) then at = now + from_now end

local head = tonumber(call('ZRANGE', KEYS.feeds, 0, 0, 'WITHSCORES')[2])
local mark = ARGV.mark
if string.sub(mark, -1) == '@' then mark = mark .. clock.text end
call('HSET', KEYS.marks, ARGV.feed, mark)
call('ZADD', KEYS.feeds, 'LT', format('%d', at), ARGV.feed)
local sooner = ''
if not head or at < head then
  sooner = format('%d', math.max(at - now, 0))
  call('SPUBLISH', ARGV.wake_channel, sooner)
end
return { format('%d', at), sooner }
