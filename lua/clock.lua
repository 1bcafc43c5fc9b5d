-- clock: the time by which a call goes, in milliseconds: the caller's, or where ARGV.now is "-" the store's own.

local now = tonumber(ARGV.now)
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
return { now = now, text = string.format('%d', now) }
