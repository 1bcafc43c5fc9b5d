-- hooks_swap: puts a webhook of all feeds in the place of what is there, or takes it away. Another set of them is
-- another version, which every feed is brought up to before its next entry.
--
-- KEYS all version
--     all: a HASH: name -> webhook, as in ledger/hook
--     version: a STRING: grows with time, so that a store that lost it does not come back to one that was
-- ARGV now name was to webhooks_of_all_feeds_at_most wake_channel
--     was: the version that the webhook has, "" when there is none
--     to: what is to be stored, "" when it goes
-- USES clock
-- DATA writes, grows
-- RETURNS "done"
-- REFUSES with "stale" when it is not as the caller thinks, "full" when it would be one too many

local call, match = redis.call, string.match
local now = clock.now
local known, version = call('HGET', KEYS.all, ARGV.name), tonumber(call('GET', KEYS.version) or '0')
if (known and match(known, '^%d+') or '') ~= ARGV.was then return 'stale' end
if ARGV.to == '' then
  call('HDEL', KEYS.all, ARGV.name)
else
  if not known and call('HLEN', KEYS.all) >= tonumber(ARGV.webhooks_of_all_feeds_at_most) then return 'full' end
  call('HSET', KEYS.all, ARGV.name, ARGV.to)
end
if not known or ARGV.to == '' then
  call('SET', KEYS.version, string.format('%d', math.max(version + 1, now)))
  call('SPUBLISH', ARGV.wake_channel, '0')
end
return 'done'
