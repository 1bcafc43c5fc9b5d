-- sums: sums as scripts that count have them; Rust puts this text behind feed_ledger's, in front of feed_count's
-- and totals/tally's. The same as the domain's `Sum`: a number up to 2^53-1, and above it the text "HIGH:LOW", where a
-- unit of HIGH is 2^53. So nothing is lost above what a float can tell apart, and taking back leaves what was there.

-- 2^53.
local LIMB = 9007199254740992

-- A sum and a number, which may be below 0; never less than 0.
local function sum_and(v, d)
  local high, low = 0, v
  if type(v) == 'string' then
    high, low = match(v, '^(%d+):(%d+)$')
    if high then high, low = high + 0, low + 0 else high, low = 0, v + 0 end
  end
  if d >= 0 then
    if low >= LIMB - d then high, low = high + 1, low - (LIMB - d) else low = low + d end
  elseif low + d >= 0 then
    low = low + d
  elseif high > 0 then
    high, low = high - 1, low + (LIMB + d)
  else
    low = 0
  end
  return high == 0 and low or int(high) .. ':' .. int(low)
end

-- A sum and another, added (sign 1) or taken away (-1).
local function sum_sum(v, other, sign)
  if type(other) == 'number' then return sum_and(v, sign * other) end
  local high, low = match(other, '^(%d+):(%d+)$')
  if not high then return sum_and(v, sign * other) end
  v = sum_and(v, sign * low)
  for _ = 1, high + 0 do v = sum_and(sum_and(v, sign * MAX_SAFE), sign) end
  return v
end

-- As it is stored, and read.
local function sum_text(v)
  return type(v) == 'string' and v or int(v)
end

local function sum_of(text)
  return string.find(text, ':', 1, true) and text or text + 0
end

-- As it is shown: 2^53-1 at most.
local function shown(v)
  return type(v) == 'string' and MAX_SAFE or v
end
