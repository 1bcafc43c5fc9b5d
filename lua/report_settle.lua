-- report_settle: takes entries that a group has pending as done with, or gives them back.
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
-- ARGV 4 + 1 per entry:
--   1 now
--   2 reader
--   3 how: "ack" or "nack"
--   4 live channel: of the feed
--   5 number, 16 digits
-- DATA writes
-- RETURNS how many were pending, each counted once, or "" when there is no such group
-- REFUSES nothing

meet_types()
local reader = reader_of(ARGV[2])
if not reader then return '' end
let_go(reader)
local settled, seen = 0, {}
for n = 5, #ARGV do
  local member = ARGV[n]
  if not seen[member] and call('ZSCORE', LEASES, member) then
    seen[member], settled = true, settled + 1
    if ARGV[3] == 'nack' then
      call('ZADD', LEASES, '0', member)
    else
      call('ZREM', PENDING, member)
      call('ZREM', LEASES, member)
      call('HDEL', TRIES, member)
      call('HDEL', AGAIN, member)
    end
  end
end
keep_group(reader)
if ARGV[3] == 'nack' and settled > 0 then call('SPUBLISH', ARGV[4], 'live 0 0\n=\n') end
return int(settled)
