-- report_hook: puts a webhook of a feed in the place of what is there, or takes it away.
--
-- What is stored of a webhook, of a feed and of all: its version, a blank, and it as JSON.
--
-- KEYS 10:
--   1 ledger
--   2 reports
--   3 readers
--   4 pending: of the reader
--   5 leases: of the reader
--   6 tries: of the reader
--   7 again: of the reader
--   8 dead: of the reader
--   9 deaths: of the reader
--   10 hooks: a HASH: name -> webhook
-- ARGV 8:
--   1 now
--   2 reader
--   3 name
--   4 was: the version that it has, "" when there is none
--   5 to: what is to be stored, "" when it goes
--   6 gathers: how long it gathers entries, milliseconds
--   7 readers at most: but for webhooks of all feeds
--   8 stamp
-- DATA writes
-- RETURNS "done"
-- REFUSES with "stale" when it is not as the caller thinks, "full" when it would be one reader too many

meet_types()
local known = call('HGET', KEYS[10], ARGV[3])
if (known and match(known, '^%d+') or '') ~= ARGV[4] then return 'stale' end
if ARGV[5] == '' then
  call('HDEL', KEYS[10], ARGV[3])
  forget(ARGV[2])
  return 'done'
end
if not known or not reader_of(ARGV[2]) then
  if not known and is_full(tonumber(ARGV[7])) then return 'full' end
  call('HDEL', READERS, ARGV[2])
  call('DEL', PENDING, LEASES, TRIES, AGAIN, DEAD, DEATHS)
  keep_reader(new_reader(ARGV[2], behind))
  ledger.readers = call('HLEN', READERS)
  rest(ARGV[2], ARGV[6], ARGV[8])
  keep_reports()
end
call('HSET', KEYS[10], ARGV[3], ARGV[5])
return 'done'
