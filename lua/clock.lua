-- clock: the time by which a call goes, in milliseconds: the caller's, or where ARGV.now begins with "-" the store's own. Behind a
-- blank ARGV.now may have the steady time, where that is another: windows run by it.

local now, steady = string.match(ARGV.now, '^(%S+) ?(%d*)$')
now = tonumber(now)
if not now then
  local seconds = redis.call('TIME')
  now = seconds[1] * 1000 + math.floor(seconds[2] / 1000)
end

return {
  now = now,
  text = string.format('%d', now),
  steady = tonumber(steady) or now,
  -- Times end with the year 9999.
  MAX_TIME = 253402300799999,
}
