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

local known, id, refunded, reason = strings[15] or '', ARGV.gift, ARGV.refunded, ARGV.reason
local over, fingerprint, status, number, row = match(known, '^(%d+) (%x+) ([amswcvn])%u? %S+ (%d+) (%S+) %S+')
local keep = match(known, '^%S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) ')
if status == 'v' then return { header(), 'v' } end
if not over or status ~= 'w' and steady >= tonumber(over) and now >= (tonumber(keep) or 0) then return { header(), '0' } end
if status == 'c' then return { header(), '1', '0', '-' } end

if status == 'w' then
  if refunded ~= '' then return { header(), 'v' } end
  local entry = call('HGET', LATER, id)
  local member = entry and match(entry, '^%d+ %S+')
  local score = member and tonumber(call('ZSCORE', DUE, member))
  if not score then return { header(), '0' } end
  due_remove(member, id)
  commit('=')
  local answer = til(policy.idempotency_window) .. ' ' .. fingerprint .. ' c 0 0 ' .. int(score) .. ' -'
  call('SET', KEYS.id, answer, 'PX', int(policy.idempotency_window + 60000))
  due_commit()
  return { header(), '1', '0', '-' }
end

local head, part, given, counted = match(known, '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) ([^%s|]+)|?(%S*)(.*)$')
local before = match(part or '', '^x:?(%d*)$')
if before then return { header(), '1', before == '' and '0' or before, row } end
local test, units, amount, currency = match(part or '', '^(~?)(%d+):(%d*):(%a*)$')
if not units then return { header(), '0' } end

-- What was given with it, less what was refunded of it.
local count, worth, of
count, worth, of, before = match(given ~= '' and given or string.sub(part, #test + 1), '^(%d+):(%d*):(%a*):?(%d*)$')
if before == '' then before = '0' end
-- Whether its row was taken back, and the gift with it.
local shown, is_listed = row ~= '-' and status ~= 's', false
for _, entry in ipairs(entries) do is_listed = is_listed or match(entry, '^%S+') == row end
local gone_before = shown and not is_listed and is_retracted(row)
if gone_before and refunded ~= '' then return { header(), '1', before, row } end

-- What is refunded now; all of it takes the gift back.
local lost = false
if refunded ~= '' then
  if worth == '' then return { header(), 'n' } end
  local value = worth + before
  if refunded + 0 > value then return { header(), 'a', int(value) } end
  if refunded + 0 <= before + 0 then return { header(), 'f', before, row } end
  lost = refunded + 0 < value and refunded - before
  before = refunded
end

-- Takes the part out of the row at this index, or these minor units.
local function take_out(at)
  local text = row_text(row)
  local name, rev, added_at, expires, shows, value, from =
    match(text or '', '^([^\n]*\n)(%d+)(\n[^\n]*\n[^\n]*\n)[^\n]*\n([^\n]*\n)(%d+)\n([^\n]*)\n()')
  if not name then return end
  local left = lost and tonumber(shows) or math.max(shows - units, 0)
  if left == 0 then
    drop(at)
    record('retracted ' .. row, '')
    return
  end
  local mine, its = match(value, '^(%d+) (.+)$')
  if mine and amount ~= '' then
    local rest = math.max(mine - (lost and math.min(lost, amount) or amount), 0)
    value = (rest > 0 or amount == '0') and int(rest) .. ' ' .. its or ''
  end
  text = name .. int(rev + 1) .. added_at .. time .. '\n' .. expires .. int(left) .. '\n' .. value .. '\n'
    .. string.sub(text, from)
  put_row(row, text)
  record('update', text)
end

settle()
-- Neither a test has an entry nor what was taken back with its row.
local has_entry = test == '' and not gone_before
local gift = has_entry and find_gift(id, number + 0) or { mark = '0', user = '', kind = '' }
gift.id, gift.reason = id, reason
if lost then
  gift.count, gift.amount, gift.currency = '0', int(lost), of
else
  gift.count, gift.amount, gift.currency = count, worth, of
end
for at, entry in ipairs(entries) do
  if match(entry, '^%S+') == row then
    if gift.user == '' then
      gift.user, gift.kind = match(row_text(row) or '', '^' .. string.rep('[^\n]*\n', 11) .. '([^\n]*)\n([^\n]*)\n')
    end
    local has_value = amount ~= '' and amount ~= '0'
    if has_value or units ~= '0' and not lost then take_out(at) end
    break
  end
end
local listed = changes[#changes]
listed = listed and (match(listed, '^%d+ %d+ %d+ update\n') or match(listed, '^%d+ %d+ %d+ retracted '))
if lost then
  counted = uncount_value(counted, shown and row, lost)
elseif not gone_before then
  uncount_gift(counted, shown and row)
end
if has_entry then enter_back(lost and 'f' or 'r', row, gift, not listed) end
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
if lost then
  local left = amount == '' and '' or int(math.max(amount - lost, 0))
  local mine, rest = units .. ':' .. left .. ':' .. currency, count .. ':' .. int(worth - lost) .. ':' .. of
  call('SET', KEYS.id, head .. ' ' .. test .. mine .. '|' .. rest .. ':' .. before .. counted, 'KEEPTTL')
else
  call('SET', KEYS.id, head .. ' x' .. (before ~= '0' and ':' .. before or ''), 'KEEPTTL')
end
ledger_commit()
return { header() .. news, lost and 'f' or '1', before, row }
