-- feed_gifts: how a gift becomes a row, joins one or is suppressed; Rust puts this text behind
-- feed_ledger's, in front of scripts that take gifts. The same steps in the same order as the domain's
-- FeedState::publish.
--
-- What is remembered of a gift id: "UNTIL FINGERPRINT STATUS EPOCH SEQ ROW COUNT PART", status a(ccepted),
-- m(erged), s(uppressed), w(aits), c(ancelled), in re(v)iew or de(n)ied, and behind it what was decided about one that
-- was in review: A(pprove), M(ask) or D(eny). ROW is "-" where no row has to do with it. COUNT is "-" unless merged. PART is what the gift added to its
-- row, "UNITS:AMOUNT:CURRENCY" with "~" in front for a test, or "x" once that was taken back; w and c have none. What
-- counted has behind it " KEEP COUNTED USER", as feed_count says: it can be taken back up to KEEP. Of w, c and v, EPOCH and SEQ
-- are 0 and ROW is the time for which it was scheduled, or when time decides; w and v hold until then, whatever UNTIL says.
-- A dedup lock: "UNTIL ROW BORN". Both hold while now is before UNTIL; their PX only collects garbage, a
-- minute later.
--
-- A gift has two KEYS, its id and the lock of its user and kind, and GIFT_ARGS ARGV. Its body is what
-- follows in a row behind the row's own lines: count (of a combo the cumulative count), value "AMOUNT
-- CURRENCY" or "", combo key, "ENDED COMBO_ID" or "", test, user, gift, message JSON or "", and "TIER META",
-- each may be "". Its gifter is "r USER", or "- USER" for one who is not ranked.

local unsettled
if count_gate then unsettled = count_gate() elseif strings[9] then unsettled = { '', 'count', time } end
if unsettled then return unsettled end

local GRACE = 60000
local ids, waits, locks, keeps = {}, {}, {}, {}
-- Of publishing: whether feed_guard judges gifts, and where the KEYS and ARGV of the first one are.
local guarded, FIRST_KEY, FIRST_ARG = false, 17, 15
-- What the last gift added to its row.
local part
local id_til, lock_til = til(policy.idempotency_window), til(policy.dedup_window)

-- Offsets of a gift's ARGV from its fingerprint, as feed_publish lists them; GIFT_ARGS of them.
local SHOW, KEY, BODY, OWN, EXTRA, GIFTER = 1, 2, 3, 4, 5, 6
local GIFT_ARGS = 7

local function lookup(overlay, index)
  local key = KEYS[index]
  return overlay[key] or strings[index - 2]
end

-- Starts a row with the gift's BODY behind: id rev seq at updated expires|0.
local function start_row(a)
  if not epoch then
    epoch, born = CANDIDATE, CANDIDATE
  end
  local number = int(seq + 1)
  local id, key, body = epoch .. '-' .. number, ARGV[a + KEY], ARGV[a + BODY]
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
  return 'a', id
end

-- Joins the row of this id when it is in the list and the gift's value is of its currency, or one has
-- none: the row's count then. Through the lock (domain Row::combined) count and value add. A frame of a
-- combo (Row::framed) brings cumulative ones, each becomes the larger; after the last it changes nothing.
local function join(id, a)
  local match, row, frame = string.match, row_text(id), ARGV[a + KEY] ~= ''
  local name, rev, added_at, from = match(row or '', '^([^\n]*\n)(%d+)(\n[^\n]*\n[^\n]*\n)[^\n]*\n[^\n]*\n()')
  if not name then return nil end
  local BODIES =
    '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*\n[^\n]*\n[^\n]*)\n([^\n]*)\n([^ ]*) ([^\n]*)\n$'
  local count, value, key, mark, fixed, message, tier, extra = match(row, BODIES, from)
  if not count then return nil end
  local more, worth, _, new_mark, _, new_message, new_tier, new_extra = match(ARGV[a + BODY], BODIES)
  local mine, currency = match(value, '^(%d+) (.+)$')
  local theirs, other = match(worth, '^(%d+) (.+)$')
  if mine and theirs and currency ~= other then return nil end
  local was, is, newest, gained = tonumber(count), tonumber(more), true, ':'
  part = '0::'
  if frame then
    if string.sub(mark, 1, 1) == '1' then return count end
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

local function publish_frame(a)
  local key = ARGV[a + KEY]
  for _, entry in ipairs(entries) do
    local at = string.find(entry, ' ', 1, true)
    if at and string.sub(entry, at + 1) == key then
      local id = string.sub(entry, 1, at - 1)
      local count = join(id, a)
      if count then return 'm', id, count end
      break -- in another currency: the newest row is the combo's
    end
  end
  return start_row(a)
end

local function publish_locked(a, index)
  if policy.dedup == 'off' then return start_row(a) end
  local lock = lookup(locks, index)
  local status, row, count
  if lock then
    local over, id, list = string.match(lock, '^(%d+) (%S+) (%S+)$')
    if over and now < tonumber(over) and list == born then
      if policy.dedup == 'drop' then return 's', id end
      count = join(id, a)
      if count then status, row = 'm', id end
    end
  end
  if not count then status, row = start_row(a) end
  if policy.dedup_window > 0 then locks[KEYS[index]] = lock_til .. ' ' .. row .. ' ' .. born end
  return status, row, count
end

-- Takes a gift that is not for later, or no longer: `a` is its first ARGV, `index` its first KEY. What is to be
-- remembered of its id; `decided` is what was decided about one that was in review, as a letter. Where the ledger keeps
-- another body than is shown, that body stands behind the gift's extra.
local function take_now(a, index, decided)
  settle()
  local status, row, count
  part = '0::'
  if ARGV[a + KEY] ~= '' then
    status, row, count = publish_frame(a)
  else
    status, row, count = publish_locked(a, index + 1)
  end
  local extra = ARGV[a + EXTRA]
  local answer = id_til .. ' ' .. ARGV[a] .. ' ' .. status .. (decided or '')
    .. ' ' .. epoch .. ' ' .. seq_text .. ' ' .. row .. ' ' .. (count or '-')
    .. (extra == '' and ' ~' or ' ') .. part
  if extra ~= '' then
    enter(status, row, extra, string.find(extra, '\n', 1, true) and '' or ARGV[a + BODY])
    if count_gift then
      local counted, keep = count_gift(ARGV[a + KEY] ~= '', status, row, ARGV[a + GIFTER], ARGV[a + BODY], part)
      answer, keeps[KEYS[index]] = answer .. counted, keep
    end
  end
  ids[KEYS[index]], waits[KEYS[index]] = answer, nil
  return answer
end

-- Writes ids and locks; after `commit`.
local function remember()
  local call = redis.call
  local id_px, lock_px = int(policy.idempotency_window + GRACE), int(policy.dedup_window + GRACE)
  for key, answer in pairs(ids) do
    local px = keeps[key] and int(keeps[key] - now + GRACE) or id_px
    if waits[key] then call('SET', key, answer) else call('PSETEX', key, px, answer) end
  end
  for key, lock in pairs(locks) do call('PSETEX', key, lock_px, lock) end
end
