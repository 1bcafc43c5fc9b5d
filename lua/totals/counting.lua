-- counting: how gifts count, for feeds that count something. It wraps totals/sums and totals/count, which share their locals, and
-- supplies the names that they expect. Both are to be replaced together with what adds up.

local call, match, format, concat, int = redis.call, string.match, string.format, table.concat, feed.int
local MAX_SAFE, MAX_TIME = 9007199254740991, clock.MAX_TIME
local now, time, policy = feed.now, feed.time, feed.policy
local strings, leaving = { [9] = STRINGS.count, [12] = STRINGS.left }, {}
local count_gate, count_gift, count_sale, count_refuses, count_commit

local function record(op, text)
  feed.next_seq()
  feed.record(op, ',"text":' .. cjson.encode(text))
end
