-- report_read: entries of the ledger from a number on. Writes nothing.
--
-- KEYS 3:
--   1 ledger
--   2 reports
--   3 readers
-- ARGV 3:
--   1 now
--   2 number: from it on, or from the oldest that is kept
--   3 entries at most
-- DATA reads
-- RETURNS the number of the next entry that there will be, the number of the first of these, then their lines
-- REFUSES nothing

local first = math.max(ledger.base, tonumber(ARGV[2]))
local answer = { int(behind), int(first) }
if ledger.vanished or first >= behind then return answer end
local from = first - ledger.base
for n, text in ipairs(call('LRANGE', LEDGER, int(from), int(from + tonumber(ARGV[3]) - 1))) do
  answer[n + 2] = text
end
return answer
