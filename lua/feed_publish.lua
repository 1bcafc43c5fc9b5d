-- feed_publish: takes gifts in order, as one step.
--
-- KEYS 5 + 2 per gift:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 id of the gift
--   7 lock of its user and kind
-- ARGV 9 + 4 per gift:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 fingerprint, hex
--   11 when to show: "" by policy, "-" at once, "+" later, or a time
--   12 combo key, "" without explicit combo
--   13 body, eight lines as in the row it starts: count (of a combo the cumulative count), value "AMOUNT
--      CURRENCY" or "", combo key, "ENDED COMBO_ID" or "", test, user, gift, message JSON or "", and
--      "TIER META", each may be ""
-- RETURNS the header, then one text per gift: "n" (new) or "d" (came before) and what is remembered of
--   its id, or "l" (for later; nothing written)
-- REFUSES nothing

local function take(a, index)
  local known = lookup(ids, index)
  if known then
    local over = match(known, '^(%d+) %x+ [ams] %S+ %d+ %S+ %S+$')
    if over and now < tonumber(over) then return 'd' .. known end
  end
  local show = ARGV[a + SHOW]
  if show == '' then
    if policy.delay > 0 then return 'l' end
  elseif show ~= '-' and (show == '+' or tonumber(show) > now) then
    return 'l'
  end
  return 'n' .. take_now(a, index)
end

local answers = {}
for gift = 0, (#KEYS - 5) / 2 - 1 do
  answers[gift + 2] = take(10 + gift * GIFT_ARGS, 6 + gift * 2)
end
commit('=')
remember()
answers[1] = header()
return answers
