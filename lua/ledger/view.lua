-- view: how a group stands. Writes nothing.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader
-- USES clock
-- DATA reads
-- RETURNS how many were never handed out, are pending, how old the oldest is that is not acknowledged in
--   milliseconds, how many are dead, were lost; or nothing when there is no such group
-- REFUSES nothing

local reader = reader_of(ARGV.reader)
if not reader then return {} end
local oldest = now
local function consider(text)
  local at = entry_time(text)
  if at then oldest = math.min(oldest, at) end
end
consider(entry_at(reader.floor))
for _, text in ipairs(call('HVALS', AGAIN)) do consider(text) end
local pending = call('ZCARD', LEASES) - #reader.gone
return {
  int(math.max(behind - reader.handed, 0)), int(pending), int(now - oldest), int(call('HLEN', DEAD)),
  int(reader.lost),
}
