-- report_settle: takes entries that a group has pending as done with, or gives them back: after a pause that grows with each
-- attempt, so that a handler that fails at once does not use up all attempts within seconds. One that was handed out often enough
-- is dead instead.
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
-- ARGV 6 + 1 per entry:
--   1 now
--   2 reader
--   3 how: "ack" or "nack"
--   4 live channel: of the feed
--   5 attempts: how often an entry is handed out
--   6 dead letters: how many are kept whose entries the ledger has no more
--   7 number, 16 digits
-- DATA writes, always
-- RETURNS how many were pending, each counted once, a blank, and how many dead letters made room; or "" when there is no such group
-- REFUSES nothing

-- The longest pause, in milliseconds.
local PAUSE_MAX = 60000

meet_types()
local reader = reader_of(ARGV[2])
if not reader then return '' end
let_go(reader)
local settled, seen = 0, {}
for n = 7, #ARGV do
  local member = ARGV[n]
  if not seen[member] and call('ZSCORE', LEASES, member) then
    seen[member], settled = true, settled + 1
    local attempt, text = tonumber(call('HGET', TRIES, member) or '1'), nil
    if ARGV[3] == 'nack' and attempt >= tonumber(ARGV[5]) then
      text = call('HGET', AGAIN, member) or entry_at(tonumber(member))
      if text then
        local reason = 'handed out ' .. int(attempt) .. ' times and given back'
        bury(reader, tonumber(member), text, attempt, reason, tonumber(ARGV[6]))
      end
    end
    if ARGV[3] == 'nack' and not text then
      local pause = math.min(1000 * 2 ^ math.max(attempt - 1, 0), PAUSE_MAX)
      call('ZADD', LEASES, int(now + pause), member)
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
return int(settled) .. ' ' .. int(lost_letters)
