-- merge: how a gift joins a row that is in the list.

local int = feed.int
local decode_gift, encode, sum_text = LATER.row.decode_gift, LATER.row.encode, LATER.row.sum_text
local MAX_SAFE = 9007199254740991

-- What a gift says that is shown on the row that it joins.
local function show_latest(it, gift)
  if gift.message ~= '' then it.message = gift.message end
  if gift.tier ~= '' then it.tier = gift.tier end
  if gift.meta ~= '' then it.meta = gift.meta end
end

-- The row changed: it has a new revision and lasts anew.
local function store(it)
  it.rev, it.updated_at, it.expires_at = int(it.rev + 1), feed.time, feed.row_expiry()
  list.replace(it.listed, encode(it))
end

-- A row that the gift may join, and the gift; nothing when the list has none of this id, or it is in another currency.
local function meet(id, n)
  local it, gift = LATER.row.find(id), decode_gift(ARGV.body[n])
  if not it or it.amount and gift.amount and it.currency ~= gift.currency then return nil end
  return it, gift
end

-- The nth gift joins a row: counts and values add up. The row's count then, and what the gift added to it. Nothing where it cannot
-- join: see `meet`, or it says something else than the row, which must not be lost.
local function join(id, n)
  local it, gift = meet(id, n)
  if not it or it.message ~= '' and gift.message ~= '' and it.message ~= gift.message then return nil end
  local count, amount = math.min(it.count + gift.count, MAX_SAFE), nil
  if gift.amount then
    amount = math.min((it.amount or 0) + gift.amount, MAX_SAFE)
    local gained = amount - (it.amount or 0)
    -- A sum that stopped at its limit gained nothing.
    gift.gained = (gained > 0 or not it.amount) and gained or nil
    it.amount, it.currency = int(amount), gift.currency
  end
  local added = sum_text(count - it.count, gift.gained, gift.currency)
  it.count, it.combo = int(count), gift.combo
  show_latest(it, gift)
  store(it)
  return it.count, added
end

-- The nth gift, a frame of a combo, joins the combo's row: count and value become the larger ones. The row's count then, and what
-- it added. "ended" in place of that where the combo has ended: then the frame changes nothing.
local function join_frame(id, n)
  local it, gift = meet(id, n)
  if not it then return nil end
  if string.sub(it.combo, 1, 1) == '1' then return it.count, 'ended' end
  local before, was, amount = encode(it), tonumber(it.count), nil
  local count = math.max(was, gift.count)
  if gift.amount and (not it.amount or tonumber(gift.amount) > tonumber(it.amount)) then
    amount = gift.amount - (it.amount or 0)
    it.amount, it.currency = gift.amount, gift.currency
  end
  local is_newest = tonumber(gift.count) >= was
  it.count, it.combo = int(count), gift.combo
  if is_newest then show_latest(it, gift) end
  if encode(it) ~= before then store(it) end
  return it.count, sum_text(count - was, amount, gift.currency)
end

-- Whether the nth gift has a message that the row does not show: it is no repeat then, and must not be lost.
local function says_more(id, n)
  local message = decode_gift(ARGV.body[n]).message
  if message == '' then return false end
  local it = LATER.row.find(id)
  return not it or it.message ~= message
end

return { join = join, join_frame = join_frame, says_more = says_more }
