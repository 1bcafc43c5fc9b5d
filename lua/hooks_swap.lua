-- hooks_swap: puts a webhook of all feeds in the place of what is there, or takes it away. Another set of them is
-- another version, which every feed is brought up to before its next entry.
--
-- KEYS 2:
--   1 all: a HASH: name -> webhook, as in report_hook
--   2 version: a STRING: grows with time, so that a store that lost it does not come back to one that was
-- ARGV 6:
--   1 now, milliseconds; "-" takes the store's clock
--   2 name
--   3 was: the version that the webhook has, "" when there is none
--   4 to: what is to be stored, "" when it goes
--   5 webhooks of all feeds at most
--   6 wake channel
-- DATA writes, grows
-- RETURNS "done"
-- REFUSES with "stale" when it is not as the caller thinks, "full" when it would be one too many

local call, match = redis.call, string.match
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
local known, version = call('HGET', KEYS[1], ARGV[2]), tonumber(call('GET', KEYS[2]) or '0')
if (known and match(known, '^%d+') or '') ~= ARGV[3] then return 'stale' end
if ARGV[4] == '' then
  call('HDEL', KEYS[1], ARGV[2])
else
  if not known and call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then return 'full' end
  call('HSET', KEYS[1], ARGV[2], ARGV[4])
end
if not known or ARGV[4] == '' then
  call('SET', KEYS[2], string.format('%d', math.max(version + 1, now)))
  call('SPUBLISH', ARGV[6], '0')
end
return 'done'
