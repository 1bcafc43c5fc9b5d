-- view: how a group stands. Writes nothing.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader
-- USES clock stored reports reader
-- DATA reads
-- RETURNS how many were never handed out, are pending, how old the oldest is that is not acknowledged in
--   milliseconds, how many are dead, were lost; or nothing when there is no such group
-- REFUSES nothing

local call, int = redis.call, reports.int
local it = reader.find(ARGV.reader)
if not it then return {} end
local oldest = clock.now
local function consider(text)
  local at = stored.entry_time(text)
  if at then oldest = math.min(oldest, at) end
end
consider(reports.entry_at(math.max(it.floor, reports.ledger.base)))
consider(reader.all_resent(1)[2])
local gone = call('ZCOUNT', KEYS.pending, '-inf', '(' .. int(reports.ledger.base))
local pending = call('ZCARD', KEYS.leases) - gone
return {
  int(math.max(reports.behind - it.handed, 0)), int(pending), int(clock.now - oldest), int(call('HLEN', KEYS.dead)),
  int(it.lost + gone - #it.gone),
}
