-- retract_gift: takes one gift back by its id, or refunds a part of its value. What it added to its row leaves it, and a
-- row of which nothing is left goes; a gift that waits is cancelled.
--
-- KEYS list rows hist meta policy due later ledger reports readers count tally parts left told retracted id
--     id: of the gift
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at gift refunded reason
--     gift: its id
--     refunded: how much of its value is refunded by now, in minor units; "" to take the gift back
--     reason: as JSON, or ""
-- DATA writes, always
-- RETURNS the header, then "1" when it is taken back, now or before, or "f" when part of it is refunded; behind both how much is
--   refunded, and its row or "-". Or "v" for one in review, which is to be denied (feed/review), and of a refund also for one
--   that waits; "n" when it has no value; "a" and its value when that is less; or "0" when the id is not, or no longer,
--   remembered with its part
-- REFUSES as ledger/append and totals/count do

local it, id, refunded, reason = receipt.read(strings[15]), ARGV.gift, ARGV.refunded, ARGV.reason
if it and it.status == 'in_review' then return { header(), 'v' } end
if not it or not receipt.is_kept(it, steady) and now >= (it.keep_until or 0) then return { header(), '0' } end
if it.status == 'cancelled' then return { header(), '1', '0', '-' } end

if it.status == 'scheduled' then
  if refunded ~= '' then return { header(), 'v' } end
  local entry = call('HGET', LATER, id)
  local member = entry and match(entry, '^%d+ %S+')
  local score = member and tonumber(call('ZSCORE', DUE, member))
  if not score then return { header(), '0' } end
  due_remove(member, id)
  commit('=')
  local cancelled = receipt.cancelled(it, math.min(steady + policy.idempotency_window_ms, MAX_TIME), score)
  call('SET', KEYS.id, cancelled, 'PX', int(policy.idempotency_window_ms + 60000))
  due_commit()
  return { header(), '1', '0', '-' }
end

local row, before = it.row or '-', it.refunded or 0
if it.retracted then return { header(), '1', int(before), row } end
-- What it added to its row, and what was given with it, less what was refunded of it.
local added, given = it.added, it.given or it.added
-- Whether its row was taken back, and the gift with it.
local shown, is_listed = row ~= '-' and it.status ~= 'suppressed', false
for _, entry in ipairs(entries) do is_listed = is_listed or match(entry, '^%S+') == row end
local gone_before = shown and not is_listed and is_retracted(row)
if gone_before and refunded ~= '' then return { header(), '1', int(before), row } end

-- What is refunded now; all of it takes the gift back.
local lost = false
if refunded ~= '' then
  if not given.amount then return { header(), 'n' } end
  local value = given.amount + before
  refunded = tonumber(refunded)
  if refunded > value then return { header(), 'a', int(value) } end
  if refunded <= before then return { header(), 'f', int(before), row } end
  lost = refunded < value and refunded - before
  before = refunded
end

-- Takes the part out of the row at this index, or these minor units.
local function take_out(at)
  local text = row_text(row)
  local name, rev, added_at, expires, shows, value, from =
    match(text or '', '^([^\n]*\n)(%d+)(\n[^\n]*\n[^\n]*\n)[^\n]*\n([^\n]*\n)(%d+)\n([^\n]*)\n()')
  if not name then return end
  local left = lost and tonumber(shows) or math.max(shows - added.units, 0)
  if left == 0 then
    drop(at)
    record('retracted ' .. row, '')
    return
  end
  local mine, its = match(value, '^(%d+) (.+)$')
  if mine and added.amount then
    local rest = math.max(mine - (lost and math.min(lost, added.amount) or added.amount), 0)
    value = (rest > 0 or added.amount == 0) and int(rest) .. ' ' .. its or ''
  end
  text = name .. int(rev + 1) .. added_at .. time .. '\n' .. expires .. int(left) .. '\n' .. value .. '\n'
    .. string.sub(text, from)
  put_row(row, text)
  record('update', text)
end

settle()
-- Neither a test has an entry nor what was taken back with its row.
local has_entry = not it.test and not gone_before
local gift = has_entry and find_gift(id, it.entry) or { mark = '0', user = '', kind = '' }
gift.id, gift.reason = id, reason
if lost then
  gift.count, gift.amount, gift.currency = '0', int(lost), given.currency
else
  gift.count, gift.amount, gift.currency = int(given.units), given.amount and int(given.amount) or '', given.currency
end
for at, entry in ipairs(entries) do
  if match(entry, '^%S+') == row then
    if gift.user == '' then
      gift.user, gift.kind = match(row_text(row) or '', '^' .. string.rep('[^\n]*\n', 11) .. '([^\n]*)\n([^\n]*)\n')
    end
    if (added.amount or 0) ~= 0 or added.units ~= 0 and not lost then take_out(at) end
    break
  end
end
local listed = changes[#changes]
listed = listed and (match(listed, '^%d+ %d+ %d+ update\n') or match(listed, '^%d+ %d+ %d+ retracted '))
if lost then
  it.counted = uncount_value(it.counted, shown and row, lost)
elseif not gone_before then
  uncount_gift(it.counted, shown and row)
end
if has_entry then enter_back(lost and 'f' or 'r', row, gift, not listed) end
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
it.refunded = before > 0 and before or nil
if lost then
  it.given = { units = given.units, amount = given.amount - lost, currency = given.currency }
  if added.amount then added.amount = math.max(added.amount - lost, 0) end
else
  receipt.taken_back(it)
end
call('SET', KEYS.id, receipt.write(it), 'KEEPTTL')
ledger_commit()
return { header() .. news, lost and 'f' or '1', int(before), row }
