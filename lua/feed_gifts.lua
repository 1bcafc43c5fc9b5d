-- feed_gifts: how a gift becomes a row, joins one or is suppressed; Rust puts this text behind
-- feed_common's, in front of scripts that take gifts. The same steps in the same order as the domain's
-- FeedState::publish.
--
-- What is remembered of a gift id: "UNTIL FINGERPRINT STATUS EPOCH SEQ ROW COUNT", status a(ccepted),
-- m(erged), s(uppressed), w(aits) or c(ancelled). COUNT is "-" unless merged. Of w and c, EPOCH and SEQ
-- are 0 and ROW is the time for which it was scheduled; w holds until it is shown, whatever UNTIL says.
-- A dedup lock: "UNTIL ROW BORN". Both hold while now is before UNTIL; their PX only collects garbage, a
-- minute later.
--
-- A gift has two KEYS, its id and the lock of its user and kind, and GIFT_ARGS ARGV.

local GRACE = 60000
local ids, waits, locks = {}, {}, {}
local time, id_til, lock_til = int(now), til(policy.idempotency_window), til(policy.dedup_window)

local function lookup(overlay, index)
  local key = KEYS[index]
  if overlay[key] ~= nil then return overlay[key] end
  return strings[index - 3]
end

-- Offsets of a gift's ARGV from its fingerprint, as feed_publish lists them; GIFT_ARGS of them.
local SHOW, COUNT, VALUE, KEY, MARK, FIXED, MESSAGE, TIER, EXTRA, OWN = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local GIFT_ARGS = 11

local function start_row(a)
  if not epoch then
    epoch, born = CANDIDATE, CANDIDATE
  end
  local number = int(seq + 1)
  local id = epoch .. '-' .. number
  local count, key = ARGV[a + COUNT], ARGV[a + KEY]
  if key ~= '' and count == '0' then count = '1' end
  local text = id .. '\n1\n' .. number .. '\n' .. time .. '\n' .. time .. '\n' .. expiry_of_row()
    .. '\n' .. count .. '\n' .. ARGV[a + VALUE] .. '\n' .. key .. '\n' .. ARGV[a + MARK] .. '\n'
    .. ARGV[a + FIXED] .. '\n' .. ARGV[a + MESSAGE] .. '\n' .. ARGV[a + TIER] .. ' ' .. ARGV[a + EXTRA] .. '\n'
  table.insert(entries, 1, key == '' and id or id .. ' ' .. key)
  pushed = pushed + 1
  put_row(id, text)
  while #entries > policy.capacity do drop(#entries) end
  record('add', text)
  return 'a', id
end

local function money(value)
  local amount, currency = match(value, '^(%d+) (.+)$')
  return tonumber(amount), currency
end

-- The row of this id, when it is in the list and the gift's value is of its currency, or one has none.
local function joinable(id, a)
  local text = row_text(id)
  local r = text and fields_of(text)
  if not r or not r[1] then return nil end
  local _, mine = money(r[8])
  local _, more = money(ARGV[a + VALUE])
  if mine and more and mine ~= more then return nil end
  return r
end

local function spell(r)
  return concat(r, '\n', 1, 12) .. '\n' .. r[13] .. ' ' .. r[14] .. '\n'
end

local function store_row(r)
  r[2], r[5], r[6] = int(r[2] + 1), time, expiry_of_row()
  local text = spell(r)
  put_row(r[1], text)
  record('update', text)
end

local function take_newest(r, a)
  if ARGV[a + MESSAGE] ~= '' then r[12] = ARGV[a + MESSAGE] end
  if ARGV[a + TIER] ~= '' then r[13] = ARGV[a + TIER] end
  if ARGV[a + EXTRA] ~= '' then r[14] = ARGV[a + EXTRA] end
end

-- Domain Row::framed: count and value are cumulative, each becomes the larger.
local function join_frame(r, a)
  if string.sub(r[10], 1, 1) == '1' then return end
  local before = spell(r)
  local mark, count = tonumber(ARGV[a + COUNT]), tonumber(r[7])
  if mark > count then r[7] = int(mark) end
  local mine, more = money(r[8]), money(ARGV[a + VALUE])
  if more and (not mine or more > mine) then r[8] = ARGV[a + VALUE] end
  if mark >= count then take_newest(r, a) end
  r[10] = ARGV[a + MARK]
  if spell(r) ~= before then store_row(r) end
end

-- Domain Row::combined: count and value add.
local function join_lock(r, a)
  r[7] = int(math.min(tonumber(r[7]) + tonumber(ARGV[a + COUNT]), MAX_SAFE))
  local mine, currency = money(r[8])
  local more = money(ARGV[a + VALUE])
  if not mine then
    r[8] = ARGV[a + VALUE]
  elseif more then
    r[8] = int(math.min(mine + more, MAX_SAFE)) .. ' ' .. currency
  end
  take_newest(r, a)
  store_row(r)
end

local function publish_frame(a)
  for _, entry in ipairs(entries) do
    local id, key = match(entry, '^(%S+) ?(.*)$')
    if key == ARGV[a + KEY] then
      local r = joinable(id, a)
      if r then
        join_frame(r, a)
        return 'm', id, r[7]
      end
      break -- in another currency: the newest row is the combo's
    end
  end
  return start_row(a)
end

local function take_lock(index, id)
  if policy.dedup_window > 0 then
    locks[KEYS[index]] = lock_til .. ' ' .. id .. ' ' .. born
  end
end

local function publish_locked(a, index)
  if policy.dedup == 'off' then return start_row(a) end
  local lock = lookup(locks, index)
  local over, id, list
  if lock then over, id, list = match(lock, '^(%d+) (%S+) (%S+)$') end
  if over and now < tonumber(over) and list == born then
    if policy.dedup == 'drop' then return 's', id end
    local r = joinable(id, a)
    if r then
      join_lock(r, a)
      take_lock(index, id)
      return 'm', id, r[7]
    end
  end
  local status, new = start_row(a)
  take_lock(index, new)
  return status, new
end

-- Takes a gift that is not for later, or no longer: `a` is its first ARGV, `index` its first KEY. What is
-- to be remembered of its id.
local function take_now(a, index)
  settle()
  local status, row, count
  if ARGV[a + KEY] ~= '' then
    status, row, count = publish_frame(a)
  else
    status, row, count = publish_locked(a, index + 1)
  end
  local answer = id_til .. ' ' .. ARGV[a] .. ' ' .. status
    .. ' ' .. epoch .. ' ' .. int(seq) .. ' ' .. row .. ' ' .. (count or '-')
  ids[KEYS[index]], waits[KEYS[index]] = answer, nil
  return answer
end

-- Writes ids and locks; after `commit`.
local function remember()
  for key, answer in pairs(ids) do
    if waits[key] then
      call('SET', key, answer)
    else
      call('SET', key, answer, 'PX', int(policy.idempotency_window + GRACE))
    end
  end
  for key, lock in pairs(locks) do
    call('SET', key, lock, 'PX', int(policy.dedup_window + GRACE))
  end
end
