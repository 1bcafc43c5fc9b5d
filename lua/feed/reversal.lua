-- reversal: takes a gift or a sale back, or refunds a part of its value. What it added to its row leaves it, and a row of which nothing
-- is left goes.
--
-- Of what is reversed, `it`, a receipt has what is needed (receipt): row, status, added, given, counted, entry, test, and what was
-- reversed before: refunded, retracted.

local int, now = feed.int, feed.now

-- Takes what it added out of its row, or the minor units that are lost.
local function take_out(row, added, lost)
  local left = lost and row.count or math.max(row.count - added.units, 0)
  if left == 0 then
    LATER.rows.remove(row.listed)
    feed.next_seq()
    feed.record('retracted', ',"id":"' .. row.id .. '"')
    return
  end
  if row.amount and added.amount then
    local rest = math.max(row.amount - (lost and math.min(lost, added.amount) or added.amount), 0)
    row.amount = (rest > 0 or added.amount == 0) and rest or nil
  end
  row.rev, row.updated_at, row.count = row.rev + 1, now, left
  LATER.rows.replace(row.listed, LATER.row.encode(row))
end

-- What of it is refunded now. Returns an answer instead if that is nothing: see apply.
local function lost_by(it, given, refunded, row_id)
  local before = it.refunded or 0
  if not given.amount then return nil, { 'n' } end
  local value = given.amount + before
  if refunded > value then return nil, { 'a', int(value) } end
  if refunded <= before then return nil, { 'f', int(before), row_id } end
  return refunded - before, nil
end

-- Reverses `it`, changing it. `gift` is what the entry says besides: id, reason, and drop and who where these are known. `refunded` is
-- all that is refunded by now, in minor units; nil takes it back. Returns what is answered, and whether anything is to be written:
-- "1" when it is taken back, now or before, or "f" when part of it is refunded; behind both how much is refunded, and its row or "-".
-- Or "n" when it has no value; "a" and its value when that is less.
local function apply(it, gift, refunded)
  local row_id = it.row or '-'
  if it.retracted then return { '1', int(it.refunded or 0), row_id }, false end
  -- What it added to its row, and what was given with it, less what was refunded of it.
  local added, given = it.added, it.given or it.added
  -- Whether its row was taken back, and it with the row.
  local is_shown = row_id ~= '-' and it.status ~= 'suppressed'
  local is_gone = is_shown and not LATER.rows.find(row_id) and retraction.is_retracted(row_id)
  if is_gone and refunded then return { '1', int(it.refunded or 0), row_id }, false end

  -- The minor units that are refunded now; all of the value takes it back.
  local lost, refusal = nil, nil
  if refunded then
    lost, refusal = lost_by(it, given, refunded, row_id)
    if refusal then return refusal, false end
    it.refunded = refunded
    if lost == given.amount then lost = nil end
  end

  if feed.is_unsettled then LATER.settle.apply() end
  -- Neither a test has an entry nor what was taken back with its row.
  local has_entry, is_seen = not it.test and not is_gone, false
  local known = has_entry and retraction.find_gift(gift.id, it.entry) or {}
  gift.who, gift.drop = known.who or gift.who, known.drop or gift.drop
  gift.given = lost and { units = 0, amount = lost, currency = given.currency } or given
  local row = LATER.row.find(row_id)
  if row then
    gift.who = gift.who or LATER.row.giver(row)
    if (added.amount or 0) ~= 0 or added.units ~= 0 and not lost then
      take_out(row, added, lost)
      is_seen = true
    end
  end
  if STRINGS.totals and it.counted then
    if lost then
      it.counted = LATER.counting.take_value(it.counted, is_shown and row_id, lost)
    elseif not is_gone then
      LATER.counting.take_gift(it.counted, is_shown and row_id)
    end
  end
  if has_entry then retraction.append(lost and 'refunded' or 'retracted', row_id ~= '-' and row_id or nil, gift, not is_seen) end

  if lost then
    it.given = { units = given.units, amount = given.amount - lost, currency = given.currency }
    if added.amount then added.amount = math.max(added.amount - lost, 0) end
  else
    it.added, it.given, it.counted, it.keep_until, it.retracted = nil, nil, nil, nil, true
  end
  return { lost and 'f' or '1', int(it.refunded or 0), row_id }, true
end

return { apply = apply }
