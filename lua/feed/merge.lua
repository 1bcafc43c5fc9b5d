-- merge: how a gift joins a row that is in the list.

local encode, sum_text = LATER.row.encode, LATER.row.sum_text
local MAX_SAFE = 9007199254740991

-- What a gift says that is shown on the row that it joins.
local function show_latest(it, gift)
  it.message, it.tier, it.meta = gift.message or it.message, gift.tier or it.tier, gift.meta or it.meta
end

-- The row changed: it has a new revision and lasts anew.
local function store(it)
  it.rev, it.updated_at, it.expires_at = it.rev + 1, feed.now, feed.row_expiry()
  LATER.rows.replace(it.listed, encode(it))
end

-- A row that the gift may join, and the gift; nothing when the list has none of this id, or it is in another currency.
local function meet(id, n)
  local it, gift = LATER.row.find(id), LATER.row.decode_gift(ARGV.body[n])
  if not it or it.amount and gift.amount and it.currency ~= gift.currency then return nil end
  return it, gift
end

-- The nth gift joins a row: counts and values add up. The row's count then, and what the gift added to it. Nothing where it cannot
-- join: see `meet`, or it says something else than the row, which must not be lost.
local function join(id, n)
  local it, gift = meet(id, n)
  if not it or it.message and gift.message and it.message ~= gift.message then return nil end
  local count, gained = math.min(it.count + gift.count, MAX_SAFE), nil
  if gift.amount then
    local amount = math.min((it.amount or 0) + gift.amount, MAX_SAFE)
    -- A sum that stopped at its limit gained nothing.
    if amount > (it.amount or -1) then gained = amount - (it.amount or 0) end
    it.amount, it.currency = amount, gift.currency
  end
  local added = sum_text(count - it.count, gained, gift.currency)
  it.count, it.ended = count, gift.ended
  show_latest(it, gift)
  store(it)
  return feed.int(count), added
end

-- The nth gift, a frame of a combo, joins the combo's row: count and value become the larger ones. The row's count then, and what
-- it added. "ended" in place of that where the combo has ended: then the frame changes nothing.
local function join_frame(id, n)
  local it, gift = meet(id, n)
  if not it then return nil end
  if it.ended then return feed.int(it.count), 'ended' end
  local before, was, gained = encode(it), it.count, nil
  if gift.amount and gift.amount > (it.amount or -1) then
    gained = gift.amount - (it.amount or 0)
    it.amount, it.currency = gift.amount, gift.currency
  end
  it.count, it.ended = math.max(was, gift.count), gift.ended
  if gift.count >= was then show_latest(it, gift) end
  if encode(it) ~= before then store(it) end
  return feed.int(it.count), sum_text(it.count - was, gained, gift.currency)
end

-- Whether the nth gift has a message that the row does not show: it is no repeat then, and must not be lost.
local function says_more(id, n)
  local message = LATER.row.decode_gift(ARGV.body[n]).message
  if not message then return false end
  local it = LATER.row.find(id)
  return not it or it.message ~= message
end

return { join = join, join_frame = join_frame, says_more = says_more }
