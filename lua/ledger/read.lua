-- read: entries of the ledger from a number on. Writes nothing.
--
-- KEYS ledger reports readers
-- ARGV now number entries_at_most
--     number: from it on, or from the oldest that is kept; or "~" and the seq of a change: from what that brought on
-- DATA reads
-- RETURNS the number of the next entry that there will be, the number of the first of these, then their lines
-- REFUSES nothing

local change, first = tonumber(match(ARGV.number, '^~(%d+)$') or nil), tonumber(ARGV.number)
if change then
  first = bisect(ledger.base, behind, function(number) return select(2, entry_time(entry_at(number))) < change end)
end
first = math.max(ledger.base, first)
local answer = { int(behind), int(first) }
if ledger.vanished or first >= behind then return answer end
local from = first - ledger.base
for n, text in ipairs(call('LRANGE', LEDGER, int(from), int(from + tonumber(ARGV.entries_at_most) - 1))) do
  answer[n + 2] = text
end
return answer
