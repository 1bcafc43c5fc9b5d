-- gifts: how a gift becomes a row, joins one or is suppressed; Rust puts this text behind
-- ledger/append's, in front of scripts that take gifts. The same steps in the same order as the domain's
-- FeedState::publish.
--
-- A gift has two KEYS, its id and the lock of its user and kind, or of a frame its combo; and of its ARGV is
--   head    "FINGERPRINT", and where it is not shown by the policy alone, or is a frame of a combo, " SHOW COMBOKEY", each of
--           which may be "". SHOW is "-" at once, "+MS" later, or a time
--   body    what follows in a row behind the row's own lines: count (of a combo the cumulative count), value "AMOUNT
--           CURRENCY" or "", combo key, "ENDED COMBO_ID" or "", test, user, gift, message JSON or "", and "TIER META",
--           each may be ""
--   extra   the second line of its entry in the ledger, "" for a test, which is no entry; and behind a line break the body of
--           that entry, where another one is shown
--   rest    "LENGTH GIFTER", where GIFTER has LENGTH bytes, followed by what else its script needs. GIFTER is "r USER", or
--           "- USER" for a user who is not ranked; USER may hold anything, line breaks too

local unsettled
if count_gate then unsettled = count_gate() elseif strings[9] then unsettled = { '', 'count', time } end
if unsettled then return unsettled end

local GRACE = 60000
-- What is to be written: receipts by their key, combos and locks as text by theirs.
local receipts, combos, locks = {}, {}, {}
-- What the last gift added to its row, "UNITS:AMOUNT:CURRENCY"; and whether it met a combo that has ended.
local part, ended
local id_until, lock_begin = math.min(steady + policy.idempotency_window_ms, MAX_TIME), false
-- The letters by which entries of the ledger spell what became of a gift.
local LETTERS = { accepted = 'a', merged = 'm', suppressed = 's', denied = 'n' }

-- The nth gift of the call.
local function gift_at(n)
  local fingerprint, show, combo = match(ARGV.head[n], '^(%x+) ?(%S*) ?(.*)$')
  local rest, at = ARGV.rest[n], FIRST_ITEM_KEY + 2 * (n - 1) - 2
  local length, from = match(rest, '^(%d+) ()')
  local to = from + length
  return {
    id_key = KEYS.id[n], lock_key = KEYS.lock[n], known = strings[at], held = strings[at + 1],
    fingerprint = fingerprint, show = show, combo = combo, body = ARGV.body[n], extra = ARGV.extra[n],
    gifter = string.sub(rest, from, to - 1), own = string.sub(rest, to),
  }
end

-- The receipt of its id, if there is one: another gift of this call may have the same.
local function receipt_of(gift)
  return receipts[gift.id_key] or receipt.read(gift.known)
end

-- Keeps this receipt of a gift; its text.
local function keep_receipt(gift, it)
  it.fingerprint = gift.fingerprint
  it.text = receipt.write(it)
  receipts[gift.id_key] = it
  return it.text
end

-- What a part says, as a receipt has it.
local function sum_of(text)
  local units, amount, currency = match(text, '^(%d+):(%d*):(%a*)$')
  if amount == '' then return { units = units + 0 } end
  return { units = units + 0, amount = amount + 0, currency = currency }
end

-- What was given with a gift. Of a frame that is what its combo grew by.
local function given_by(gift)
  local units, amount, currency = match(gift.body, '^(%d+)\n(%d*) ?(%a*)\n')
  if gift.combo == '' then return units .. ':' .. amount .. ':' .. currency end
  if ended then return (amount == '' and '0::' or '0:0:') .. currency end
  local more, gained, text = combo.grow(combos[gift.lock_key] or gift.held, steady, int(id_until), units, amount, currency)
  -- A test is no entry: nothing of its combo is remembered.
  if gift.extra ~= '' then combos[gift.lock_key] = text end
  return more .. ':' .. gained .. ':' .. currency
end

-- Starts a row with the gift's body behind: id rev seq at updated expires|0.
local function start_row(gift)
  if not epoch then
    epoch, born = CANDIDATE, CANDIDATE
  end
  local number = int(seq + 1)
  local id, key, body = epoch .. '-' .. number, gift.combo, gift.body
  -- A combo's count is cumulative; a first frame that says 0 still is one gift on screen.
  if key ~= '' and string.sub(body, 1, 2) == '0\n' then body = '1' .. string.sub(body, 2) end
  local units, amount, currency = match(body, '^(%d+)\n(%d*) ?(%a*)\n')
  part = units .. ':' .. amount .. ':' .. currency
  local text = id .. '\n1\n' .. number .. '\n' .. time .. '\n' .. time .. '\n' .. expiry_of_row() .. '\n' .. body
  table.insert(entries, 1, key == '' and id or id .. ' ' .. key)
  relist = true
  put_row(id, text, 'new')
  while #entries > policy.capacity do drop(#entries) end
  record('add', text, number)
  return 'accepted', id
end

-- Joins the row of this id when it is in the list, the gift's value is of its currency, or one has none, and its message is
-- not lost (one that differs is no repeat): the row's count then. Through the lock count and value add. A frame of a
-- combo (Row::framed) brings cumulative ones, each becomes the larger; after the last it changes nothing.
local function join(id, gift)
  local match, row, frame = string.match, row_text(id), gift.combo ~= ''
  local name, rev, added_at, from = match(row or '', '^([^\n]*\n)(%d+)(\n[^\n]*\n[^\n]*\n)[^\n]*\n[^\n]*\n()')
  if not name then return nil end
  local BODIES =
    '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*\n[^\n]*\n[^\n]*)\n([^\n]*)\n([^ ]*) ([^\n]*)\n$'
  local count, value, key, mark, fixed, message, tier, extra = match(row, BODIES, from)
  if not count then return nil end
  local more, worth, _, new_mark, _, new_message, new_tier, new_extra = match(gift.body, BODIES)
  local mine, currency = match(value, '^(%d+) (.+)$')
  local theirs, other = match(worth, '^(%d+) (.+)$')
  if mine and theirs and currency ~= other then return nil end
  if not frame and message ~= '' and new_message ~= '' and message ~= new_message then return nil end
  local was, is, newest, gained = tonumber(count), tonumber(more), true, ':'
  part = '0::'
  if frame then
    if string.sub(mark, 1, 1) == '1' then
      ended = true
      return count
    end
    if is > was then count = more end
    if theirs and (not mine or tonumber(theirs) > tonumber(mine)) then
      value = worth
      gained = int(theirs - (mine or 0)) .. ':' .. other
    end
    newest = is >= was
  else
    count = int(math.min(was + is, MAX_SAFE))
    if not mine then
      value = worth
      if theirs then gained = theirs .. ':' .. other end
    elseif theirs then
      local sum = math.min(mine + theirs, MAX_SAFE)
      value = int(sum) .. ' ' .. currency
      if sum > tonumber(mine) then gained = int(sum - mine) .. ':' .. currency end
    end
  end
  if newest then
    if new_message ~= '' then message = new_message end
    if new_tier ~= '' then tier = new_tier end
    if new_extra ~= '' then extra = new_extra end
  end
  local body = count .. '\n' .. value .. '\n' .. key .. '\n' .. new_mark .. '\n' .. fixed .. '\n' .. message
    .. '\n' .. tier .. ' ' .. extra .. '\n'
  if frame and body == string.sub(row, from) then return count end
  part = int(count - was) .. ':' .. gained
  local text = name .. int(rev + 1) .. added_at .. time .. '\n' .. expiry_of_row() .. '\n' .. body
  put_row(id, text)
  record('update', text)
  return count
end

local function publish_frame(gift)
  local key = gift.combo
  for _, entry in ipairs(entries) do
    local at = string.find(entry, ' ', 1, true)
    if at and string.sub(entry, at + 1) == key then
      local id = string.sub(entry, 1, at - 1)
      local count = join(id, gift)
      if count then return 'merged', id, count end
      break -- in another currency: the newest row is the combo's
    end
  end
  return start_row(gift)
end

-- Whether the gift has a message that the row of this id does not show: so it is no repeat of it.
local function says_more(gift, id)
  local MESSAGE = '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n'
  local message = match(gift.body, MESSAGE)
  if message == '' then return false end
  local row = row_text(id) or ''
  return match(row, MESSAGE, match(row, '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n()')) ~= message
end

local function publish_locked(gift)
  if policy.dedup == 'off' then return start_row(gift) end
  local held, status, row, count = locks[gift.lock_key] or gift.held, nil, nil, nil
  local id = held and lock.row_of(held, steady, born)
  if id and policy.dedup == 'drop' then
    if not says_more(gift, id) then return 'suppressed', id end
  elseif id then
    count = join(id, gift)
    if count then status, row = 'merged', id end
  end
  if not count then status, row = start_row(gift) end
  if policy.dedup_window_ms > 0 then
    lock_begin = lock_begin or lock.before_row(math.min(steady + policy.dedup_window_ms, MAX_TIME), born)
    locks[gift.lock_key] = lock_begin .. row .. lock.AFTER_ROW
  end
  return status, row, count
end

-- Enters and counts what became of a gift. Its receipt as text. `row` is "-" where it is kept back, and then its giver is not
-- ranked; `decision` is what was decided about one that was in review.
local function settle_gift(gift, status, decision, row, count)
  local extra, frame, given = gift.extra, gift.combo ~= '', given_by(gift)
  local it = { status = status, decision = decision, added = sum_of(part), test = extra == '' or nil, ['until'] = id_until }
  if row ~= '-' then it.row = row end
  if status ~= 'accepted' then
    it.epoch, it.seq, it.count = epoch or '0', seq, tonumber(count)
  end
  if extra ~= '' then
    if given ~= part then it.given = sum_of(given) end
    it.nth = enter(LETTERS[status], row, extra, string.find(extra, '\n', 1, true) and '' or gift.body, frame and given)
    if count_gift then
      local is_ranked = row ~= '-' and string.sub(gift.gifter, 1, 1) == 'r'
      it.counted, it.keep_until = count_gift(frame, row ~= '-' and status ~= 'suppressed' and row, is_ranked and 'r' or '-',
        string.sub(gift.gifter, 3), gift.body, given)
    end
  end
  return keep_receipt(gift, it)
end

-- Takes a gift that is not for later, or no longer; as settle_gift.
local function take_now(gift, decision)
  settle()
  local status, row, count
  part, ended = '0::', false
  if gift.combo ~= '' then
    status, row, count = publish_frame(gift)
  else
    status, row, count = publish_locked(gift)
  end
  return settle_gift(gift, status, decision, row, count)
end

-- Writes receipts, combos and locks; after `commit`. Only then the number of an entry is known.
local function remember()
  local call = redis.call
  local id_px, lock_px = int(policy.idempotency_window_ms + GRACE), int(policy.dedup_window_ms + GRACE)
  for key, it in pairs(receipts) do
    local text = it.text
    if it.nth then text = string.sub(text, 1, -2) .. ',"entry":' .. int(first_entry() + it.nth - 1) .. '}' end
    if it['until'] then
      call('PSETEX', key, it.keep_until and int(it.keep_until - now + GRACE) or id_px, text)
    else
      call('SET', key, text)
    end
  end
  for key, text in pairs(combos) do call('PSETEX', key, id_px, text) end
  for key, text in pairs(locks) do call('PSETEX', key, lock_px, text) end
end
