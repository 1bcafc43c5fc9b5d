-- retract_gift: takes one gift back by its id, or refunds a part of its value. What it added to its row leaves it, and a
-- row of which nothing is left goes; a gift that waits is cancelled.
--
-- KEYS list hist meta policy due later ledger reports readers totals sums people unranked parts announced retracted id
--     id: of the gift
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at gift refunded reason
--     gift: its id
--     refunded: how much of its value is refunded by now, in minor units; "" to take the gift back
--     reason: as JSON, or ""
-- USES clock policies list feed ledger receipt retraction
-- LATER doubt settle row rows schedule room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, then "1" when it is taken back, now or before, or "f" when part of it is refunded; behind both how much is
--   refunded, and its row or "-". Or "v" for one in review, which is to be denied (feed/review), and of a refund also for one
--   that waits; "n" when it has no value; "a" and its value when that is less; or "0" when the id is not, or no longer,
--   remembered with its part
-- REFUSES as ledger/writer and totals/counting do

if feed.refusal then return feed.refusal end
local int, now = feed.int, feed.now
local it, id, refunded = receipt.read(STRINGS.id), ARGV.gift, ARGV.refunded

local function answer(...)
  return { feed.position() .. ledger.news, ... }
end

-- A gift that waits leaves the due queue.
local function cancel()
  local due_at = LATER.schedule.cancel(id)
  if not due_at then return answer('0') end
  receipt.cancel(it, due_at)
  feed.commit()
  return answer('1', '0', '-')
end

if it and it.status == 'in_review' then return answer('v') end
if not it or not receipt.is_kept(it, feed.steady) and now >= (it.keep_until or 0) then return answer('0') end
if it.status == 'cancelled' then return answer('1', '0', '-') end
if it.status == 'scheduled' then return refunded == '' and cancel() or answer('v') end

local row_id, refunded_before = it.row or '-', it.refunded or 0
if it.retracted then return answer('1', int(refunded_before), row_id) end
-- What it added to its row, and what was given with it, less what was refunded of it.
local added, given = it.added, it.given or it.added
-- Whether its row was taken back, and the gift with it.
local is_shown = row_id ~= '-' and it.status ~= 'suppressed'
local is_gone = is_shown and not LATER.rows.find(row_id) and retraction.is_retracted(row_id)
if is_gone and refunded ~= '' then return answer('1', int(refunded_before), row_id) end

-- The minor units that are refunded now; all of the value takes the gift back.
local lost = nil
if refunded ~= '' then
  if not given.amount then return answer('n') end
  local value = given.amount + refunded_before
  refunded = tonumber(refunded)
  if refunded > value then return answer('a', int(value)) end
  if refunded <= refunded_before then return answer('f', int(refunded_before), row_id) end
  lost = refunded < value and refunded - refunded_before or nil
  refunded_before = refunded
end

-- Takes what the gift added out of its row, or the minor units that are lost. Whether watchers see that.
local function take_out(row)
  local left = lost and row.count or math.max(row.count - added.units, 0)
  if left == 0 then
    LATER.rows.remove(row.listed)
    feed.next_seq()
    feed.record('retracted', ',"id":"' .. row_id .. '"')
    return true
  end
  if row.amount and added.amount then
    local rest = math.max(row.amount - (lost and math.min(lost, added.amount) or added.amount), 0)
    row.amount = (rest > 0 or added.amount == 0) and rest or nil
  end
  row.rev, row.updated_at, row.count = row.rev + 1, now, left
  LATER.rows.replace(row.listed, LATER.row.encode(row))
  return true
end

if feed.is_unsettled then LATER.settle.apply() end
-- Neither a test has an entry nor what was taken back with its row.
local has_entry, is_seen = not it.test and not is_gone, false
local gift = has_entry and retraction.find_gift(id, it.entry) or {}
gift.id, gift.reason = id, ARGV.reason ~= '' and ARGV.reason or nil
gift.given = lost and { units = 0, amount = lost, currency = given.currency } or given
local row, is_counted = LATER.row.find(row_id), STRINGS.totals and it.counted
if row then
  gift.who = gift.who or LATER.row.giver(row)
  if (added.amount or 0) ~= 0 or added.units ~= 0 and not lost then is_seen = take_out(row) end
end
if lost then
  if is_counted then it.counted = LATER.counting.take_value(it.counted, is_shown and row_id, lost) end
elseif not is_gone and is_counted then
  LATER.counting.take_gift(it.counted, is_shown and row_id)
end
if has_entry then retraction.append(lost and 'refunded' or 'retracted', row_id ~= '-' and row_id or nil, gift, not is_seen) end
local refusal = retraction.refusal()
if refusal then return refusal end

feed.commit()
it.refunded = refunded_before > 0 and refunded_before or nil
if lost then
  it.given = { units = given.units, amount = given.amount - lost, currency = given.currency }
  if added.amount then added.amount = math.max(added.amount - lost, 0) end
else
  receipt.taken_back(it)
end
redis.call('SET', KEYS.id, receipt.write(it), 'KEEPTTL')
return answer(lost and 'f' or '1', int(refunded_before), row_id)
