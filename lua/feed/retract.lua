-- retract: takes a row back.
--
-- KEYS list rows hist meta policy due later ledger reports readers count tally parts left told retracted
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at row
--     row: its id
-- DATA writes, always
-- RETURNS the header, then "1" when the row was in the list, else "0"
-- REFUSES as ledger/append and totals/count do

settle()
local found = '0'
for at, entry in ipairs(entries) do
  if match(entry, '^%S+') == ARGV.row then
    take_rows({ at })
    found = '1'
    break
  end
end
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
retracted_commit()
ledger_commit()
return { header() .. news, found }
