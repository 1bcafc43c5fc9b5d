-- request_claim: records what a signed request is for, unless that is recorded already.
--
-- KEYS request
--     request: a STRING: when it came first, a space, its target
-- ARGV now target kept_for
--     kept_for: milliseconds
-- USES clock
-- DATA writes, grows
-- RETURNS "first", or how many milliseconds ago it came first
-- REFUSES with "elsewhere" when it is recorded for another target

local known = redis.call('GET', KEYS.request)
if not known then
  redis.call('SET', KEYS.request, clock.text .. ' ' .. ARGV.target, 'PX', ARGV.kept_for)
  return 'first'
end
local at, target = string.match(known, '^(%S+) (.*)$')
if target ~= ARGV.target then return 'elsewhere' end
return string.format('%d', math.max(0, clock.now - tonumber(at)))
