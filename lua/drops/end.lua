-- end: ends a hold, by selling or by cancelling it.
--
-- KEYS list rows hist meta policy due drops ledger reports readers count tally parts left told shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder how claim trace
--     how: "confirm" or "cancel"
--     claim: that made the hold
--     trace: what the entry of the sale ends with in its second line: nothing, or a blank and the trace
-- DATA writes, always
-- RETURNS the header, then "n" and what `claims` has of it; "a" and the same (confirm: it was confirmed before);
--   "e" (it ended before, or cancel: was sold) or "u" (no such hold)
-- REFUSES e and u

local unsettled
if count_gate then unsettled = count_gate() elseif strings[9] then unsettled = { '', 'count', time } end
if unsettled then return unsettled end

-- The buyer as totals/count has one, "r USER" or "- USER": the id out of the JSON that the claim keeps.
local ESCAPES = { b = '\b', f = '\f', n = '\n', r = '\r', t = '\t' }
local function gifter_of(person)
  local id = string.gsub(match(person, '^{"id":"(.-)","name":') or '', '\\(.)(%x?%x?%x?%x?)', function(c, hex)
    if c == 'u' then return string.char(tonumber(hex, 16) % 256) end
    return (ESCAPES[c] or c) .. hex
  end)
  return (string.find(person, ',"anonymous":true}', 1, true) and '- ' or 'r ') .. id
end

sweep()
local function end_it()
  local id = ARGV.claim
  local known = stock and claim_of(id)
  local print, count, user, expires, made, row, person, message =
    match(known or '', '^(%x+) (%d+) (%S+) (%d+) (%d+) %d+ %S+ (%S+)\n([^\n]*)\n([^\n]*)\n$')
  if not print or expires == '0' then return 'u' end
  if row ~= '-' then return ARGV.how == 'confirm' and 'a' .. known or 'e' end
  local ends = tonumber(expires)
  if ends <= now or not call('ZSCORE', HOLDS, 'h ' .. count .. ' ' .. user .. ' ' .. id) then return 'e' end
  if ARGV.how == 'cancel' then
    end_hold(ends, count, user, id)
    return 'n' .. known
  end
  take_out(ends, count, user, id)
  stock.sold = stock.sold + tonumber(count)
  local text = print .. ' ' .. count .. ' ' .. user .. ' ' .. expires .. ' ' .. made .. ' ' .. sell(id, count, person, message, gifter_of(person), ARGV.trace, true)
    .. '\n' .. person .. '\n' .. message .. '\n'
  put_claim(id, text)
  return 'n' .. text
end

local answer = end_it()
local not_yet = finish()
if not_yet then return not_yet end
return { header() .. news, answer }
