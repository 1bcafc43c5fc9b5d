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
-- ARGV 9 + 11 per gift:
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
--   13 amount, "" when it has no value
--   14 currency, "" when it has no value
--   15 combo key, "" without explicit combo
--   16 "1" when this frame ends its combo, else "0"
--   17 message, JSON, or ""
--   18 tier or ""
--   19 meta, JSON, or ""
--   20 the row's last five lines: combo key, combo id, test, user, gift
-- RETURNS the header, then one text per gift: "n" (new) or "d" (came before) and what is remembered of
--   its id, or "l" (for later; nothing written)
-- REFUSES nothing

local GRACE = 60000
local ids, locks = {}, {}

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

local function start_row(a)
  if not epoch then
    epoch, born = CANDIDATE, CANDIDATE
  end
  local id = epoch .. '-' .. int(seq + 1)
  local count, key = ARGV[a + 2], ARGV[a + 5]
  if key ~= '' and count == '0' then count = '1' end
  local time = int(now)
  local text = id .. '\n1\n' .. int(seq + 1) .. '\n' .. time .. '\n' .. time .. '\n'
    .. expiry_of(policy.row_ttl) .. '\n' .. count .. '\n' .. ARGV[a + 3] .. '\n' .. ARGV[a + 4] .. '\n'
    .. ARGV[a + 6] .. '\n' .. ARGV[a + 7] .. '\n' .. ARGV[a + 8] .. '\n' .. ARGV[a + 9] .. '\n' .. ARGV[a + 10]
  table.insert(entries, 1, key == '' and id or id .. ' ' .. key)
  pushed = pushed + 1
  put_row(id, text)
  while #entries > policy.capacity do drop(#entries) end
  record('add\n' .. text)
  return 'a', id
end

local function same_money(currency, a)
  return currency == '' or ARGV[a + 4] == '' or currency == ARGV[a + 4]
end

local function store_row(r)
  r[2], r[5], r[6] = int(tonumber(r[2]) + 1), int(now), expiry_of(policy.row_ttl)
  local text = concat(r, '\n')
  put_row(r[1], text)
  record('update\n' .. text)
end

local function take_newest(r, a)
  if ARGV[a + 7] ~= '' then r[11] = ARGV[a + 7] end
  if ARGV[a + 8] ~= '' then r[12] = ARGV[a + 8] end
  if ARGV[a + 9] ~= '' then r[13] = ARGV[a + 9] end
end

-- Domain Row::framed: count and value are cumulative, each becomes the larger.
local function join_frame(r, a)
  if r[10] == '1' then return end
  local before = concat(r, '\n')
  local mark, count = tonumber(ARGV[a + 2]), tonumber(r[7])
  if mark > count then r[7] = int(mark) end
  if r[8] == '' or (ARGV[a + 3] ~= '' and tonumber(ARGV[a + 3]) > tonumber(r[8])) then
    r[8], r[9] = ARGV[a + 3], ARGV[a + 4]
  end
  if mark >= count then take_newest(r, a) end
  r[10] = ARGV[a + 6]
  if concat(r, '\n') ~= before then store_row(r) end
end

-- Domain Row::combined: count and value add.
local function join_lock(r, a)
  r[7] = int(math.min(tonumber(r[7]) + tonumber(ARGV[a + 2]), MAX_SAFE))
  if r[8] == '' then
    r[8], r[9] = ARGV[a + 3], ARGV[a + 4]
  elseif ARGV[a + 3] ~= '' then
    r[8] = int(math.min(tonumber(r[8]) + tonumber(ARGV[a + 3]), MAX_SAFE))
  end
  take_newest(r, a)
  store_row(r)
end

local function publish_frame(a)
  for _, entry in ipairs(entries) do
    local id, key = match(entry, '^(%S+) ?(.*)$')
    if key == ARGV[a + 5] then
      local r = { match(row_text(id) or '', ROW) }
      if r[1] and same_money(r[9], a) then
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
    locks[KEYS[index]] = int(math.min(now + policy.dedup_window, MAX_TIME)) .. ' ' .. id .. ' ' .. born
  end
end

local function publish_locked(a, index)
  if policy.dedup == 'off' then return start_row(a) end
  local til, id, list = match(lookup(locks, index) or '', '^(%d+) (%S+) (%S+)$')
  if til and now < tonumber(til) and list == born then
    if policy.dedup == 'drop' then return 's', id end
    local r = { match(row_text(id) or '', ROW) }
    if r[1] and same_money(r[9], a) then
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
  local til = match(known or '', '^(%d+) %x+ [ams] %S+ %d+ %S+ %S+$')
  if til and now < tonumber(til) then return 'd' .. known end
  if is_later(ARGV[a + 1]) then return 'l' end
  sweep()
  local status, row, count
  if ARGV[a + 5] ~= '' then
    status, row, count = publish_frame(a)
  else
    status, row, count = publish_locked(a, index + 1)
  end
  local answer = int(math.min(now + policy.idempotency_window, MAX_TIME)) .. ' ' .. ARGV[a] .. ' ' .. status
    .. ' ' .. epoch .. ' ' .. int(seq) .. ' ' .. row .. ' ' .. (count or '-')
  ids[KEYS[index]] = answer
  return 'n' .. answer
end

local answers = {}
for gift = 0, (#KEYS - 5) / 2 - 1 do
  answers[gift + 2] = take(10 + gift * 11, 6 + gift * 2)
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
