-- settle: takes entries that a group has pending as done with, or gives them back: after a pause that grows with each
-- attempt, so that a handler that fails at once does not use up all attempts within seconds. One that was handed out often enough
-- is dead instead.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader how live_channel attempts dead_letters, per entry: number
--     how: "ack" or "nack"
--     live_channel: of the feed
--     attempts: how often an entry is handed out
--     dead_letters: how many are kept whose entries the ledger has no more
--     number: 16 digits
-- USES clock stored reports reader
-- DATA writes, always
-- RETURNS how many were pending, each counted once, a blank, and how many dead letters made room; or "" when there is no such group
-- REFUSES nothing

local call, int = redis.call, reports.int
-- The longest pause, in milliseconds.
local PAUSE_MAX = 60000

reader.check_types()
local it = reader.find(ARGV.reader)
if not it then return '' end
reader.let_go(it)
local settled, seen = 0, {}
for n = 1, ITEM_COUNT do
  local member = ARGV.number[n]
  if not seen[member] and call('ZSCORE', KEYS.leases, member) then
    seen[member], settled = true, settled + 1
    local attempt, text = tonumber(call('HGET', KEYS.tries, member) or '1'), nil
    if ARGV.how == 'nack' and attempt >= tonumber(ARGV.attempts) then
      text = reader.entry_of(member)
      if text then
        local reason = 'handed out ' .. int(attempt) .. ' times and given back'
        reader.bury(it, tonumber(member), text, attempt, reason, tonumber(ARGV.dead_letters))
      end
    end
    if ARGV.how == 'nack' and not text then
      local pause = math.min(1000 * 2 ^ math.max(attempt - 1, 0), PAUSE_MAX)
      call('ZADD', KEYS.leases, int(clock.now + pause), member)
    else
      call('ZREM', KEYS.pending, member)
      call('ZREM', KEYS.leases, member)
      call('HDEL', KEYS.tries, member)
      reader.end_resending(member)
    end
  end
end
reader.keep_group(it)
if ARGV.how == 'nack' and settled > 0 then call('SPUBLISH', ARGV.live_channel, '{"news":"live","epoch":"0"}') end
return int(settled) .. ' ' .. int(reader.lost_letters)
