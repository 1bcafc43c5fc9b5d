-- report_read: entries of the ledger from a number on. Writes nothing.
--
-- KEYS 3:
--   1 ledger
--   2 reports
--   3 readers
-- ARGV 3:
--   1 now
--   2 number: from it on, or from the oldest that is kept; or "~" and the seq of a change: from what that brought on
--   3 entries at most
-- DATA reads
-- RETURNS the number of the next entry that there will be, the number of the first of these, then their lines
-- REFUSES nothing

local change, first = tonumber(match(ARGV[2], '^~(%d+)$') or nil), tonumber(ARGV[2])
if change then
  first = bisect(ledger.base, behind, function(number) return select(2, entry_time(entry_at(number))) < change end)
end
first = math.max(ledger.base, first)
local answer = { int(behind), int(first) }
if ledger.vanished or first >= behind then return answer end
local from = first - ledger.base
for n, text in ipairs(call('LRANGE', LEDGER, int(from), int(from + tonumber(ARGV[3]) - 1))) do
  answer[n + 2] = text
end
return answer
