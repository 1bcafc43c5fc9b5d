-- hook: puts a webhook of a feed in the place of what is there, or takes it away.
--
-- What is stored of a webhook, of a feed and of all: its version, a blank, and it as JSON.
--
-- KEYS ledger reports readers pending leases tries again dead deaths hooks
--     hooks: a HASH: name -> webhook
-- ARGV now reader name was to gathers readers_at_most stamp
--     was: the version that it has, "" when there is none
--     to: what is to be stored, "" when it goes
--     gathers: how long it gathers entries, milliseconds
--     readers_at_most: but for webhooks of all feeds
-- USES clock stored reports reader
-- DATA writes
-- RETURNS "done"
-- REFUSES with "stale" when it is not as the caller thinks, "full" when it would be one reader too many

local call = redis.call
reader.check_types()
local known = call('HGET', KEYS.hooks, ARGV.name)
if (known and string.match(known, '^%d+') or '') ~= ARGV.was then return 'stale' end
if ARGV.to == '' then
  call('HDEL', KEYS.hooks, ARGV.name)
  reader.forget(ARGV.reader)
  return 'done'
end
if not known or not reports.find(ARGV.reader) then
  if not known and reports.is_full(tonumber(ARGV.readers_at_most)) then return 'full' end
  call('HDEL', KEYS.readers, ARGV.reader)
  reader.clear()
  reports.keep_reader(reports.new_reader(ARGV.reader, reports.behind))
  reports.ledger.readers = call('HLEN', KEYS.readers)
  reports.rest(ARGV.reader, ARGV.gathers, ARGV.stamp)
  reports.keep()
end
call('HSET', KEYS.hooks, ARGV.name, ARGV.to)
return 'done'
