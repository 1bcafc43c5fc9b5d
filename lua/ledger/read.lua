-- read: entries of the ledger from a number on. Writes nothing.
--
-- KEYS ledger reports readers
-- ARGV now number entries_at_most
--     number: from it on, or from the oldest that is kept
-- USES clock stored reports
-- DATA reads
-- RETURNS the number of the next entry that there will be, the number of the first of these, then these
-- REFUSES nothing

local int, ledger, behind = reports.int, reports.ledger, reports.behind
local first = math.max(ledger.base, tonumber(ARGV.number))
local answer = { int(behind), int(first) }
if ledger.vanished or first >= behind then return answer end
local from = first - ledger.base
for n, text in ipairs(redis.call('LRANGE', KEYS.ledger, int(from), int(from + tonumber(ARGV.entries_at_most) - 1))) do
  answer[n + 2] = text
end
return answer
