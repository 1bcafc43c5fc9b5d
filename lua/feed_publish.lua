-- feed_publish: takes gifts in order, as one step. The same steps in the same order as the domain's
-- FeedState::publish.
--
-- What is remembered of a gift id: "UNTIL FINGERPRINT STATUS EPOCH SEQ ROW COUNT", status a(ccepted),
-- m(erged) or s(uppressed), count "-" unless merged. A dedup lock: "UNTIL ROW BORN". Both hold while now
-- is before UNTIL; their PX only collects garbage, a minute later.
--
-- KEYS 5 + 2 per gift:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 id of the gift
--   7 lock of its user and kind
-- ARGV 9 + 10 per gift:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 fingerprint, hex
--   11 when to show: "" by policy, "-" at once, "+" later, or a time
--   12 count; of a combo the cumulative count
--   13 value, "AMOUNT CURRENCY", or ""
--   14 combo key, "" without explicit combo
--   15 "ENDED COMBO_ID", or ""
--   16 three lines: test, user, gift
--   17 message, JSON, or ""
--   18 tier or ""
--   19 meta, JSON, or ""
-- RETURNS the header, then one text per gift: "n" (new) or "d" (came before) and what is remembered of
--   its id, or "l" (for later; nothing written)
-- REFUSES nothing

local GRACE = 60000
local ids, locks = {}, {}
local time, id_til, lock_til = int(now), til(policy.idempotency_window), til(policy.dedup_window)

local function lookup(overlay, index)
  local key = KEYS[index]
  if overlay[key] ~= nil then return overlay[key] end
  return strings[index - 3]
end

local function is_later(show)
  if show == '' then return policy.delay > 0 end
  if show == '-' then return false end
  return show == '+' or tonumber(show) > now
end

-- Offsets of a gift's ARGV from its fingerprint.
local SHOW, COUNT, VALUE, KEY, MARK, FIXED, MESSAGE, TIER, EXTRA = 1, 2, 3, 4, 5, 6, 7, 8, 9

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

local function take(a, index)
  local known = lookup(ids, index)
  if known then
    local over = match(known, '^(%d+) %x+ [ams] %S+ %d+ %S+ %S+$')
    if over and now < tonumber(over) then return 'd' .. known end
  end
  if is_later(ARGV[a + SHOW]) then return 'l' end
  settle()
  local status, row, count
  if ARGV[a + KEY] ~= '' then
    status, row, count = publish_frame(a)
  else
    status, row, count = publish_locked(a, index + 1)
  end
  local answer = id_til .. ' ' .. ARGV[a] .. ' ' .. status
    .. ' ' .. epoch .. ' ' .. int(seq) .. ' ' .. row .. ' ' .. (count or '-')
  ids[KEYS[index]] = answer
  return 'n' .. answer
end

local answers = {}
for gift = 0, (#KEYS - 5) / 2 - 1 do
  answers[gift + 2] = take(10 + gift * 10, 6 + gift * 2)
end
commit('=')
for key, answer in pairs(ids) do
  call('SET', key, answer, 'PX', int(policy.idempotency_window + GRACE))
end
for key, lock in pairs(locks) do
  call('SET', key, lock, 'PX', int(policy.dedup_window + GRACE))
end
answers[1] = header()
return answers
