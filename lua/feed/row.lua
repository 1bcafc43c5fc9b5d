-- row: what a row of the list says. How a gift joins one: see merge.
--
-- A row is stored as lines, in this order: id; rev; seq of the change that added it; at, updated_at, expires_at (0 for none); and
-- the nine lines of the gift that began it: count; value, "AMOUNT CURRENCY"; combo_key; combo, "ENDED ID"; test, with "LEFT DROP"
-- behind it for a sale; user, gift and message as JSON; tier_meta, "TIER META". Each may be "".

local match, int = string.match, feed.int
local LINE = '([^\n]*)\n'
local GIFT = '^' .. string.rep(LINE, 8) .. '(%S*) ([^\n]*)\n$'
local ROW = '^' .. string.rep(LINE, 6) .. '()'

-- Reads the nine lines of a gift, from this place of the text on. Returns nil if they are no gift.
local function decode_gift(text, from)
  local count, value, combo_key, combo, test, user, gift, message, tier, meta = match(text, GIFT, from)
  if not meta then return nil end
  local amount, currency = match(value, '^(%d+) (.+)$')
  return {
    count = count, amount = amount, currency = currency, combo_key = combo_key, combo = combo, test = test, user = user, gift = gift,
    message = message, tier = tier, meta = meta,
  }
end

-- What a row of the list says; nil if its text is no row. `listed` is the row as the list has it.
local function decode(listed)
  local id, rev, seq, at, updated_at, expires_at, gift_at = match(listed.text, ROW)
  local it = gift_at and decode_gift(listed.text, gift_at)
  if not it then return nil end
  it.listed, it.id, it.rev, it.seq, it.at, it.updated_at, it.expires_at = listed, id, rev, seq, at, updated_at, expires_at
  return it
end

-- What the row of this id says. Returns nil if the list has none, or its text is no row.
local function find(id)
  local listed = list.find(id)
  return listed and decode(listed)
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

return { decode = decode, find = find, decode_gift = decode_gift, encode = encode, sum_text = sum_text }
