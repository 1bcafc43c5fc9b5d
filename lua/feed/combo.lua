-- combo: how far a combo has grown: the largest count, and the largest sum in each currency, that any frame of it said, shown or
-- not, whatever became of its rows. A row that left the list and came again is no new money.
--
--   combo  STRING {"until":MS,"count":N,"sums":[{"currency":C,"amount":N},…]}, the currency that came last at the end. It holds for
--          the policy's idempotency_window, by the steady time. PX only removes what has run out, a minute later.

-- A combo is in few currencies: of more than these the one that came first is forgotten.
local CURRENCIES_MAX = 16

local function int(number)
  return string.format('%d', number)
end

-- A frame says this count, and this amount, "" for none. How many units and how much it has grown by, and the combo as it is then.
local function grow(text, now, ends_at, units, amount, currency)
  local combo = text and cjson.decode(text)
  if not combo or now >= combo['until'] then combo = { count = 0, sums = {} } end
  local count, gained, sums = math.max(units, combo.count, 1), '', combo.sums
  if amount ~= '' then
    local before = 0
    for at, sum in ipairs(sums) do
      if sum.currency == currency then
        before = table.remove(sums, at).amount
        break
      end
    end
    local largest = math.max(amount, before)
    gained, sums[#sums + 1] = int(largest - before), { currency = currency, amount = largest }
    if #sums > CURRENCIES_MAX then table.remove(sums, 1) end
  end
  local texts = {}
  for at, sum in ipairs(sums) do
    texts[at] = '{"currency":"' .. sum.currency .. '","amount":' .. int(sum.amount) .. '}'
  end
  return int(count - combo.count), gained,
    '{"until":' .. ends_at .. ',"count":' .. int(count) .. ',"sums":[' .. table.concat(texts, ',') .. ']}'
end

return { grow = grow }
