-- feed_drop_end: ends a hold, by selling or by cancelling it.
--
-- KEYS 20:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 drops
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 shown
--   17 unpaid
--   18 claims: of the drop
--   19 holds: of the drop
--   20 units: of the drop
-- ARGV 18:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 hooks version: that of the webhooks of all feeds
--   11 registered: webhooks that rest and are in the index of jobs
--   12 ledger bounds
--   13 looked at: from then on
--   14 drop
--   15 reminder
--   16 how: "confirm" or "cancel"
--   17 claim: that made the hold
--   18 trace: what the entry of the sale ends with in its second line: nothing, or a blank and the trace
-- DATA writes, always
-- RETURNS the header, then "n" and what `claims` has of it; "a" and the same (confirm: it was confirmed before);
--   "e" (it ended before, or cancel: was sold) or "u" (no such hold)
-- REFUSES e and u

local unsettled
if count_gate then unsettled = count_gate() elseif strings[9] then unsettled = { '', 'count', time } end
if unsettled then return unsettled end

-- The buyer, as feed_gifts has a gifter: the id out of the JSON that the claim keeps.
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
  local id = ARGV[17]
  local known = stock and claim_of(id)
  local print, count, user, expires, made, row, person, message =
    match(known or '', '^(%x+) (%d+) (%S+) (%d+) (%d+) %d+ %S+ (%S+)\n([^\n]*)\n([^\n]*)\n$')
  if not print or expires == '0' then return 'u' end
  if row ~= '-' then return ARGV[16] == 'confirm' and 'a' .. known or 'e' end
  local ends = tonumber(expires)
  if ends <= now or not call('ZSCORE', HOLDS, 'h ' .. count .. ' ' .. user .. ' ' .. id) then return 'e' end
  if ARGV[16] == 'cancel' then
    end_hold(ends, count, user, id)
    return 'n' .. known
  end
  take_out(ends, count, user, id)
  stock.sold = stock.sold + tonumber(count)
  local text = print .. ' ' .. count .. ' ' .. user .. ' ' .. expires .. ' ' .. made .. ' ' .. sell(id, count, person, message, gifter_of(person), ARGV[18], true)
    .. '\n' .. person .. '\n' .. message .. '\n'
  put_claim(id, text)
  return 'n' .. text
end

local answer = end_it()
local not_yet = finish()
if not_yet then return not_yet end
return { header() .. news, answer }
