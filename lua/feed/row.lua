-- row: what a row of the list says, and how a gift joins one.
--
-- A row is stored as lines, in this order: id; rev; seq of the change that added it; at, updated_at, expires_at (0 for none); and
-- the nine lines of the gift that began it: count; value, "AMOUNT CURRENCY"; combo_key; combo, "ENDED ID"; test, with "LEFT DROP"
-- behind it for a sale; user, gift and message as JSON; tier_meta, "TIER META". Each may be "".

local match, int = string.match, feed.int
local MAX_SAFE = 9007199254740991
local LINE = '([^\n]*)\n'
local GIFT = '^' .. string.rep(LINE, 8) .. '(%S*) ([^\n]*)\n$'
local ROW = '^' .. string.rep(LINE, 6) .. '()'

-- What the nine lines of a gift say, from this place of a text on; nothing where they are not there.
local function decode_gift(text, from)
  local count, value, combo_key, combo, test, user, gift, message, tier, meta = match(text, GIFT, from)
  if not meta then return nil end
  local amount, currency = match(value, '^(%d+) (.+)$')
  return {
    count = count, amount = amount, currency = currency, combo_key = combo_key, combo = combo, test = test, user = user, gift = gift,
    message = message, tier = tier, meta = meta,
  }
end

-- The same of a row, with the lines that it has of its own; nothing where it is none.
local function decode(text)
  local id, rev, seq, at, updated_at, expires_at, gift_at = match(text, ROW)
  local it = gift_at and decode_gift(text, gift_at)
  if not it then return nil end
  it.id, it.rev, it.seq, it.at, it.updated_at, it.expires_at = id, rev, seq, at, updated_at, expires_at
  return it
end

local function encode(it)
  return table.concat({
    it.id, it.rev, it.seq, it.at, it.updated_at, it.expires_at, it.count, it.amount and it.amount .. ' ' .. it.currency or '',
    it.combo_key, it.combo, it.test, it.user, it.gift, it.message, it.tier .. ' ' .. it.meta, '',
  }, '\n')
end

-- Units and money as receipts have them.
local function sum_text(units, amount, currency)
  return '{"units":' .. int(units) .. (amount and ',"amount":' .. int(amount) .. ',"currency":"' .. currency .. '"}' or '}')
end

-- What a gift says that is shown on the row that it joins.
local function show_latest(it, gift)
  if gift.message ~= '' then it.message = gift.message end
  if gift.tier ~= '' then it.tier = gift.tier end
  if gift.meta ~= '' then it.meta = gift.meta end
end

-- The row changed: it has a new revision and lasts anew.
local function store(it)
  it.rev, it.updated_at, it.expires_at = int(it.rev + 1), feed.time, feed.row_expiry()
  list.replace(it.id, encode(it))
end

-- A row that the gift may join, and the gift; nothing when the list has none of this id, or it is in another currency.
local function meet(id, n)
  local text = list.text_of(id)
  local it, gift = text and decode(text), decode_gift(ARGV.body[n])
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
  local text = list.text_of(id)
  local it = text and decode(text)
  return not it or it.message ~= message
end

return {
  decode = decode, decode_gift = decode_gift, join = join, join_frame = join_frame, says_more = says_more, sum_text = sum_text,
}
