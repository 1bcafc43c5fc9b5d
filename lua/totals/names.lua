-- names: what totals/tally and the texts in front of it expect as locals. All of them are to be replaced together.

local call, match, format, concat, int = redis.call, string.match, string.format, table.concat, feed.int
local MAX_SAFE, MAX_TIME = 9007199254740991, clock.MAX_TIME
local now, time, in_parts = feed.now, feed.time, feed.call_in_parts
local strings = { [9] = STRINGS.count, [12] = STRINGS.left, [14] = STRINGS.sums }

local function record(op, text)
  feed.next_seq()
  feed.record(op, ',"text":' .. cjson.encode(text))
end
