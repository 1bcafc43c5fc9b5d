-- retract_user: takes every row of a user back, the oldest first.
--
-- KEYS list rows hist meta policy due later ledger reports readers count tally parts left told retracted
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at begin
--     begin: how the user of such a row begins
-- DATA writes, always
-- RETURNS the header, then how many there were
-- REFUSES as ledger/append and totals/count do

settle()
local USER, prefix, theirs = '^' .. string.rep('[^\n]*\n', 11) .. '([^\n]*)', ARGV.begin, {}
for at = #entries, 1, -1 do
  local user = match(row_text(match(entries[at], '^%S+')) or '', USER)
  if user and string.sub(user, 1, #prefix) == prefix then theirs[#theirs + 1] = at end
end
take_rows(theirs)
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
retracted_commit()
ledger_commit()
return { header() .. news, int(#theirs) }
