-- row: what a row of the list says. How a gift joins one: see merge.
--
-- A row is JSON. These members come first, and change when gifts join the row or leave it:
--   id, rev, seq, at, updated_at, expires_at  rev counts its changes; seq is that of the change that added it; no expires_at where
--                                             rows do not expire
--   count, amount, currency, ended, message, tier, meta  no amount and currency where it has no value; ended: of a combo; meta is
--                                             JSON as text
-- The others are as the gift that began it gave them, and stay:
--   test, combo_key, combo, drop, left, user, gift  always test, user and gift, and in this order
-- A gift's body, ARGV.body, has those from count on.

local int, find, sub = feed.int, string.find, string.sub

-- What a row or, where the text has no id, a gift says. `rest` is what stays, as text.
local function decode(text)
  local at = find(text, ',"test":', 1, true)
  local it = at and cjson.decode(sub(text, 1, at - 1) .. '}')
  if it then it.rest = sub(text, at) end
  return it
end

local function decode_gift(body)
  return decode('{' .. body .. '}')
end

-- What the row says that the list has; nil if its text is no row.
local function decode_listed(listed)
  local it = decode(listed.text)
  if it then it.listed = listed end
  return it
end

-- What the row of this id says. Returns nil if the list has none, or its text is no row.
local function find_row(id)
  local listed = LATER.rows.find(id)
  return listed and decode_listed(listed)
end

-- Who gave what: two members as text, `,"user":{…},"gift":{…}`.
local function giver(it)
  return sub(it.rest, find(it.rest, ',"user":', 1, true), -2)
end

local function member(name, text)
  return text and ',"' .. name .. '":' .. cjson.encode(text) or ''
end

-- Numbers are written exactly, where cjson would round them to 14 digits.
local function encode(it)
  return '{"id":"' .. it.id .. '","rev":' .. int(it.rev) .. ',"seq":' .. int(it.seq) .. ',"at":' .. int(it.at)
    .. ',"updated_at":' .. int(it.updated_at) .. (it.expires_at and ',"expires_at":' .. int(it.expires_at) or '')
    .. ',"count":' .. int(it.count) .. (it.amount and ',"amount":' .. int(it.amount) .. ',"currency":"' .. it.currency .. '"' or '')
    .. (it.ended and ',"ended":true' or '') .. member('message', it.message)
    .. (it.tier and ',"tier":' .. int(it.tier) or '') .. member('meta', it.meta) .. it.rest
end

-- Units and money as receipts have them.
local function sum_text(units, amount, currency)
  return '{"units":' .. int(units) .. (amount and ',"amount":' .. int(amount) .. ',"currency":"' .. currency .. '"}' or '}')
end

return {
  decode = decode_listed, find = find_row, decode_gift = decode_gift, giver = giver, encode = encode, sum_text = sum_text,
}
