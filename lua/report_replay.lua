-- report_replay: sends dead letters again: a group's next claimers get them, a webhook sends them first.
--
-- KEYS 9:
--   1 ledger
--   2 reports
--   3 readers
--   4 pending: of the reader
--   5 leases: of the reader
--   6 tries: of the reader
--   7 again: of the reader
--   8 dead: of the reader
--   9 deaths: of the reader
-- ARGV 4 + 1 per dead letter:
--   1 now
--   2 reader
--   3 live channel: of the feed
--   4 which: "all", of which a thousand are sent at once, or "only" those
--   5 number, 16 digits
-- DATA writes
-- RETURNS how many there were
-- REFUSES nothing

meet_types()
local reader = reader_of(ARGV[2])
if not reader then return '0' end
let_go(reader)
local members = {}
for n = 5, #ARGV do members[n - 4] = ARGV[n] end
if ARGV[4] == 'all' then members = call('ZRANGE', DEATHS, '0', '999') end
local group, moved = sub(ARGV[2], 1, 2) == 'g:', 0
for _, member in ipairs(members) do
  local text = match(call('HGET', DEAD, member) or '', '^[^\n]*\n(.+)$')
  if text then
    call('HSET', AGAIN, member, text)
    call('HDEL', DEAD, member)
    call('ZREM', DEATHS, member)
    if group then
      call('ZADD', LEASES, '0', member)
      call('HSET', TRIES, member, '0')
    end
    moved = moved + 1
  end
end
keep_reader(reader)
if group and moved > 0 then call('SPUBLISH', ARGV[3], 'live 0 0\n=\n') end
return int(moved)
