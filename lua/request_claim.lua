-- request_claim: records what a signed request is for, unless that is recorded already.
--
-- KEYS 1:
--   1 request: a STRING: when it came first, a space, its target
-- ARGV 3:
--   1 now, milliseconds; "-" takes the store's clock
--   2 target
--   3 kept for, milliseconds
-- DATA writes, grows
-- RETURNS "first", or how many milliseconds ago it came first
-- REFUSES with "elsewhere" when it is recorded for another target

local now = ARGV[1]
if now == '-' then
  local t = redis.call('TIME')
  now = string.format('%d', tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000))
end
local known = redis.call('GET', KEYS[1])
if not known then
  redis.call('SET', KEYS[1], now .. ' ' .. ARGV[2], 'PX', ARGV[3])
  return 'first'
end
local at, target = string.match(known, '^(%S+) (.*)$')
if target ~= ARGV[2] then return 'elsewhere' end
return string.format('%d', math.max(0, tonumber(now) - tonumber(at)))
