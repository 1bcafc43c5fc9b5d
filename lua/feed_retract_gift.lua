-- feed_retract_gift: takes one gift back by its id. What it added to its row leaves it, and a row of which nothing
-- is left goes; a gift that waits is cancelled. The same steps as the domain's FeedState::take_part.
--
-- KEYS 17:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 later
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 retracted
--   17 id: of the gift
-- ARGV 14:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 hooks version: that of the webhooks of all feeds
--   11 registered: webhooks that rest and are in the index of jobs
--   12 ledger bounds
--   13 looked at: from when on the feed is known to be looked at by whoever does what is due
--   14 gift: its id
-- DATA writes
-- RETURNS the header, then "1", "v" for one in review, which is to be denied (feed_review), or "0" when the id is not, or no longer, remembered with its part
-- REFUSES as feed_ledger and feed_count do

local known, id = strings[15] or '', ARGV[14]
local over, fingerprint, status, number, row = match(known, '^(%d+) (%x+) ([amswcvn])%u? %S+ (%d+) (%S+) %S+')
local keep = match(known, '^%S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) ')
if status == 'v' then return { header(), 'v' } end
if not over or status ~= 'w' and steady >= tonumber(over) and now >= (tonumber(keep) or 0) then return { header(), '0' } end
if status == 'c' then return { header(), '1' } end

if status == 'w' then
  local entry = call('HGET', LATER, id)
  local member = entry and match(entry, '^%d+ %S+')
  local score = member and tonumber(call('ZSCORE', DUE, member))
  if not score then return { header(), '0' } end
  due_remove(member, id)
  commit('=')
  local answer = til(policy.idempotency_window) .. ' ' .. fingerprint .. ' c 0 0 ' .. int(score) .. ' -'
  call('SET', KEYS[17], answer, 'PX', int(policy.idempotency_window + 60000))
  due_commit()
  return { header(), '1' }
end

local head, part, given, counted = match(known, '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) ([^%s|]+)|?(%S*)(.*)$')
if part == 'x' then return { header(), '1' } end
local test, units, amount, currency = match(part or '', '^(~?)(%d+):(%d*):(%a*)$')
if not units then return { header(), '0' } end

-- Takes the part out of the row at this index.
local function take_out(at)
  local text = row_text(row)
  local name, rev, added_at, expires, count, value, from =
    match(text or '', '^([^\n]*\n)(%d+)(\n[^\n]*\n[^\n]*\n)[^\n]*\n([^\n]*\n)(%d+)\n([^\n]*)\n()')
  if not name then return end
  local left = math.max(count - units, 0)
  if left == 0 then
    drop(at)
    record('retracted ' .. row, '')
    return
  end
  local mine, of = match(value, '^(%d+) (.+)$')
  if mine and amount ~= '' then
    local rest = math.max(mine - amount, 0)
    value = (rest > 0 or amount == '0') and int(rest) .. ' ' .. of or ''
  end
  text = name .. int(rev + 1) .. added_at .. time .. '\n' .. expires .. int(left) .. '\n' .. value .. '\n'
    .. string.sub(text, from)
  put_row(row, text)
  record('update', text)
end

settle()
if given == '' then given = part end
local gift = test == '' and find_gift(id, number + 0) or { mark = '0', user = '', kind = '' }
gift.id = id
gift.count, gift.amount, gift.currency = match(given, '^(%d+):(%d*):(%a*)$')
local shown = row ~= '-' and status ~= 's'
local gone_before = shown
for at, entry in ipairs(entries) do
  if match(entry, '^%S+') == row then
    gone_before = false
    if gift.user == '' then
      gift.user, gift.kind = match(row_text(row) or '', '^' .. string.rep('[^\n]*\n', 11) .. '([^\n]*)\n([^\n]*)\n')
    end
    if units ~= '0' or amount ~= '' and amount ~= '0' then take_out(at) end
    break
  end
end
local listed = changes[#changes]
listed = listed and (match(listed, '^%d+ %d+ %d+ update\n') or match(listed, '^%d+ %d+ %d+ retracted '))
uncount_gift(counted, row, shown)
-- Its row may have been taken back, and the gift with it.
if test == '' and not (gone_before and is_retracted(row)) then enter_back(row, gift, not listed) end
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
call('SET', KEYS[17], head .. ' x', 'KEEPTTL')
ledger_commit()
return { header() .. news, '1' }
