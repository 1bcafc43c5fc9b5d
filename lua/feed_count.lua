-- feed_count: how gifts count; Rust puts this text behind feed_ledger's, in front of scripts that take gifts, sell or
-- take back, in feeds that count something. In all others it is not there, and nothing is paid for it.
-- The same rules as the domain's `tally`.
--
-- KEYS 11, 12 and 13 are then count, tally and parts, and ARGV 13 is the time from which on the feed is known to be
-- looked at by whoever does what is due.
--
--   count  STRING; its first line is "OPEN UNTIL KEEP INSTANCES POINTS TOLD": it holds from OPEN to UNTIL; what counts now is
--          remembered up to KEEP; INSTANCES are the numbers of the periods' open runs, with dots between, or "-";
--          POINTS are those of the policy; TOLD is when watchers were told last. "?" instead: the policy is another.
--          The rest is feed_tally's.
--   tally  LIST: what came and was not added up yet, "+|- COUNTED TIME", newline, PERSON, newline, USER.
--          COUNTED: "INSTANCES GIFTS UNITS POINTS AMOUNT:CURRENCY|- r|-", see domain::tally::Counted
--   parts  HASH, row -> a line COUNTED for each part, an empty line, USER; or "x UNTIL": it was taken back whole
--
-- A gift counts by an entry of tally, in the step that takes it. feed_tally adds them up, before anybody reads and
-- before watchers are told.
-- REFUSES with "", "count", the time: nothing was done; feed_tally must settle what is counted first. And as
-- feed_drops does with "", "r", when nobody is known to look at the feed by when watchers are to be told

local COUNT, TALLY, PARTS = KEYS[11], KEYS[12], KEYS[13]
local CLOCK_OF_TOTALS = format('%016d ', 0) .. 'ttotals'
-- The domain's TELL_EVERY_MS and KEEP_MS, and 2^53.
local TELL_TOTALS, KEEP_GIFTS, LIMB = 600, 3024000000, 9007199254740992

local count_open, count_until, count_keep, instances, points_text, count_told =
  match(strings[9] or '', '^(%d+) (%d+) (%d+) (%S+) (%S+) (%d+)\n')
local tally_new, parts_now, parts_gone, wind_at = {}, {}, {}, false

-- A sum and more or less: a number up to 2^53-1, "HIGH:LOW" above.
local function sum_and(v, d)
  local high, low = 0, v
  if type(v) == 'string' then
    high, low = match(v, '^(%d+):(%d+)$')
    if high then high, low = high + 0, low + 0 else high, low = 0, v + 0 end
  end
  if d >= 0 then
    if low >= LIMB - d then high, low = high + 1, low - (LIMB - d) else low = low + d end
  elseif low + d >= 0 then
    low = low + d
  elseif high > 0 then
    high, low = high - 1, low + (LIMB + d)
  else
    low = 0
  end
  return high == 0 and low or int(high) .. ':' .. int(low)
end

-- A sum that may itself be above 2^53-1, added (sign 1) or taken away (-1).
local function sum_sum(v, other, sign)
  local high, low = match(other, '^(%d+):(%d+)$')
  if not high then return sum_and(v, sign * other) end
  v = sum_and(v, sign * low)
  for _ = 1, high + 0 do
    v = sum_and(v, sign * MAX_SAFE)
    v = sum_and(v, sign)
  end
  return v
end

local function sum_text(v)
  return type(v) == 'string' and v or int(v)
end

-- What is to be answered instead, before any gift is looked at.
count_gate = function()
  local stale = strings[9] and (not count_open or now < count_open + 0 or now >= count_until + 0)
  if stale or not strings[9] and match(ARGV[7], ' (%S+) %S+ %S+$') ~= 'off' then return { '', 'count', time } end
end

local function parts_of(row)
  local it = parts_now[row]
  if not it then
    it = { user = false, list = {} }
    local text = call('HGET', PARTS, row)
    for part in string.gmatch(text and match(text, '^(.-)\n\n') or '', '[^\n]+') do
      local open, gifts, units, points, money, flag = match(part, '^(%S+) (%d+) (%S+) (%S+) (%S+) (%S+)$')
      local amount, currency = match(money, '^(.*):(%a+)$')
      it.list[#it.list + 1] =
        { open = open, gifts = gifts + 0, units = units, points = points, amount = amount, currency = currency, flag = flag }
    end
    it.user = text and match(text, '\n\n(.*)$')
    it.gone = text and match(text, '^x ') ~= nil
    parts_now[row] = it
  end
  return it
end

local function counted_text(p)
  return p.open .. ' ' .. int(p.gifts) .. ' ' .. sum_text(p.units) .. ' ' .. sum_text(p.points) .. ' '
    .. (p.currency and sum_text(p.amount) .. ':' .. p.currency or '-') .. ' ' .. p.flag
end

-- A gift joins its row's parts (sign 1), or leaves them (-1).
local function parts_move(row, user, p, sign)
  local it = parts_of(row)
  it.user, it.changed = user, true
  for at, known in ipairs(it.list) do
    if known.open == p.open and known.flag == p.flag and known.currency == p.currency then
      known.gifts = known.gifts + sign * p.gifts
      known.units = sum_sum(known.units, sum_text(p.units), sign)
      known.points = sum_sum(known.points, sum_text(p.points), sign)
      if p.currency then known.amount = sum_sum(known.amount, sum_text(p.amount), sign) end
      if known.gifts <= 0 then table.remove(it.list, at) end
      return
    end
  end
  if sign > 0 then
    it.list[#it.list + 1] = {
      open = p.open, gifts = p.gifts, units = p.units, points = p.points, amount = p.amount,
      currency = p.currency, flag = p.flag,
    }
  end
end

local function tally_add(sign, counted, person, user)
  tally_new[#tally_new + 1] = sign .. ' ' .. counted .. ' ' .. time .. '\n' .. person .. '\n' .. user
end

-- What one gift counts: units, money as digits and currency, or "" and "". What is to be remembered beside its id,
-- and until when; nothing when nothing is counted.
local function count(units, amount, currency, flag, user, person, row)
  if not instances or instances == '-' then return '', false end
  local points = 0
  if amount ~= '' and points_text ~= 'off' then
    local each = match(',' .. points_text, ',' .. currency .. ':(%d+)')
    if each then points = math.min(amount * each, MAX_SAFE) end
  end
  local p = { open = instances, gifts = 1, units = units, points = points, flag = flag }
  if amount ~= '' then p.amount, p.currency = amount, currency end
  local counted = counted_text(p)
  tally_add('+', counted, person, user)
  if row then parts_move(row, user, p, 1) end
  local keep = math.max(math.min(count_keep + 0, now + KEEP_GIFTS), now + policy.idempotency_window)
  keep = math.min(keep, MAX_TIME)
  return ' ' .. int(keep) .. ' ' .. counted .. ' ' .. user, keep
end

-- A gift of the publishing scripts: `flag_user` is "r USER", or "- USER" for who is not ranked; `part` what it
-- added to its row, where it is a frame of a combo.
count_gift = function(is_frame, status, row, flag_user, body, part)
  local units, amount, currency
  if is_frame then
    units, amount, currency = match(part, '^(%d+):(%d*):(%a*)$')
    if status ~= 'a' and units == '0' and (amount == '' or amount == '0') then return '', false end
  else
    units, amount, currency = match(body, '^(%d+)\n(%d*) ?(%a*)\n')
  end
  local person = match(body, '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n')
  return count(units, amount, currency, string.sub(flag_user, 1, 1), string.sub(flag_user, 3), person, status ~= 's' and row)
end

-- A sale's units; `user` is the buyer's JSON, `flag_user` as above.
count_sale = function(units, flag_user, user, row)
  count(units, '', '', string.sub(flag_user, 1, 1), string.sub(flag_user, 3), user, row)
end

-- A row was taken back whole.
local function uncount_row(row)
  local it = parts_of(row)
  if it.user then
    for _, p in ipairs(it.list) do tally_add('-', counted_text(p), '', it.user) end
  end
  if strings[9] then it.list, it.user, it.undone, it.changed = {}, false, til(KEEP_GIFTS), true end
end

-- A gift was taken back by its id: `tail` is what `count` answered, behind its first word.
local function uncount_gift(tail, row, shown)
  local counted, user = match(tail, '^ %d+ (%S+ %S+ %S+ %S+ %S+ %S+) (.*)$')
  if not counted then return end
  if shown then
    if parts_of(row).gone then return end
    local open, gifts, units, points, money, flag = match(counted, '^(%S+) (%d+) (%S+) (%S+) (%S+) (%S+)$')
    local amount, currency = match(money, '^(.*):(%a+)$')
    local p = { open = open, gifts = gifts + 0, units = units, points = points, amount = amount, currency = currency, flag = flag }
    if parts_of(row).user then parts_move(row, user, p, -1) end
  end
  tally_add('-', counted, '', user)
end

-- What is to be answered instead, if anything; nothing was written.
count_refuses = function()
  if #tally_new == 0 then return nil end
  -- A little later than now, so that whoever does what is due can be told first.
  local want = math.max(now + 200, (count_told or 0) + TELL_TOTALS)
  local struck = tonumber(call('ZSCORE', KEYS[6], CLOCK_OF_TOTALS) or nil)
  if struck and struck <= want then return nil end
  local first = tonumber(call('ZRANGE', KEYS[6], '0', '0', 'WITHSCORES')[2])
  local looked_at = tonumber(ARGV[13])
  if not (first and first <= want or looked_at and now < looked_at and looked_at <= want + 250) then
    return { '', 'r', int(want) }
  end
  wind_at = want
end

-- Writes what was counted; after `commit`.
count_commit = function()
  local call = redis.call
  if #gone > 0 then call('HDEL', PARTS, unpack(gone)) end
  for row, it in pairs(parts_now) do
    if it.undone then
      call('HSET', PARTS, row, 'x ' .. it.undone)
    elseif it.changed and texts[row] ~= false then
      local lines = {}
      for at, p in ipairs(it.list) do lines[at] = counted_text(p) .. '\n' end
      call('HSET', PARTS, row, (#lines > 0 and concat(lines) or '\n') .. '\n' .. it.user)
    end
  end
  if #tally_new > 0 then
    for from = 1, #tally_new, 1000 do
      call('RPUSH', TALLY, unpack(tally_new, from, math.min(from + 999, #tally_new)))
    end
    if wind_at then call('ZADD', KEYS[6], int(wind_at), CLOCK_OF_TOTALS) end
  end
end
