-- clock: the time by which a call goes, in milliseconds: the caller's, or where ARGV.now begins with "-" the store's own, which is
-- asked once and only by who needs it. Behind a blank ARGV.now may have the steady time, where that is another: windows run by it.

local time, steady = string.match(ARGV.now, '^(%S+) ?(%d*)$')
time, steady = tonumber(time), tonumber(steady)

local function now()
  if not time then
    local parts = redis.call('TIME')
    time = tonumber(parts[1]) * 1000 + math.floor(tonumber(parts[2]) / 1000)
  end
  return time
end

return {
  now = now,
  text = function() return string.format('%d', now()) end,
  steady = function() return steady or now() end,
  -- Times end with the year 9999.
  MAX_TIME = 253402300799999,
}
