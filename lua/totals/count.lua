-- count: how gifts count; Rust puts this text behind feed_sums', in front of scripts that take gifts, sell or
-- take back, in feeds that count something. In all others it is not there, and nothing is paid for it.
-- The same rules as the domain's `tally`.
--
-- Of their ARGV looked_at is the time from which on the feed is known to be looked at by whoever does what is due.
--
--   count  STRING "OPEN UNTIL KEEP SPAN POINTS": it holds from OPEN to UNTIL; what counts now is remembered up to KEEP;
--          SPAN is the number of the present span (totals/state), "-" when nothing is open; POINTS are those of the
--          policy. "?" instead: the policy is another.
--   tally  LIST: what came and was not added up yet: "@+ SPAN TIME" or "@- SPAN TIME", and then for each gift two elements,
--          "COUNTED USER" and PERSON. COUNTED: "GIFTS UNITS POINTS AMOUNT:CURRENCY|- r|-", see domain::tally::Counted.
--          While there is something, the clock of totals stands in due
--   parts  HASH, row -> a line "SPAN COUNTED" for each part, an empty line, USER; of a row of one gift only
--          "=SPAN COUNTED USER"
--   left   STRING "TOLD =|~", and " GOAL MEASURE LEFT" for each goal that is not reached: when watchers were told last, and
--          what is missing to the goal, less what stands in tally; "~" where that may be less than is said.
--          LEFT is "+TIME" once gifts reached the goal
--   told   HASH, see totals/tally
--
-- A gift counts by an entry of tally, in the step that takes it. totals/tally adds them up, before anybody reads and
-- before watchers are told. Only a goal that a gift reaches is told in the step that takes the gift.
-- REFUSES with "", "count", the time: nothing was done; totals/tally must settle what is counted first. And as
-- drops/stock does with "", "r", when nobody is known to look at the feed by when watchers are to be told

local COUNT, TALLY, PARTS, LEFT, TOLD = KEYS.count, KEYS.tally, KEYS.parts, KEYS.left, KEYS.told
local CLOCK_OF_TOTALS = format('%016d ', 0) .. 'ttotals'
-- The domain's TELL_EVERY_MS and KEEP_MS.
local TELL_TOTALS, KEEP_GIFTS = 600, 3024000000

local count_open, count_until, count_keep, span, points_text =
  match(strings[9] or '', '^(%d+) (%d+) (%d+) (%S+) (%S+)$')
local tally_new, tally_head, parts_now, wind_at = {}, '', {}, false
-- What gifts added by measure, where goals are to be reached; whether anything was taken back; goals that were reached.
local goals_left = match(strings[12] or '', '^%d+ . (.*)$')
local added, took_back, left_new, told_new = {}, false, false, {}

-- What is to be answered instead, before any gift is looked at.
count_gate = function()
  local stale = strings[9] and (not count_open or now < count_open + 0 or now >= count_until + 0)
  if stale or not strings[9] and #policies.defaults.totals > 0 then return { '', 'count', time } end
end

local PART = '^(%S+) (%d+) ([%d:]+) ([%d:]+) ([%d:]-):?%-?(%a*) (.) ?(.*)$'

local function part_of(text)
  local open, gifts, units, points, amount, currency, flag, user = match(text, PART)
  if not open then return nil end
  local p = { open = open, gifts = gifts + 0, units = units, points = points, flag = flag }
  if currency ~= '' then p.amount, p.currency = amount, currency end
  return p, user
end

local function parts_of(row)
  local it = parts_now[row]
  if not it then
    it = { user = false, list = {} }
    local text = call('HGET', PARTS, row)
    local kind = text and string.byte(text)
    if kind == 61 then
      it.list[1], it.user = part_of(string.sub(text, 2))
    elseif kind then
      local lines, user = match(text, '^(.-)\n\n(.*)$')
      it.user = user
      for part in string.gmatch(lines, '[^\n]+') do it.list[#it.list + 1] = (part_of(part)) end
    end
    parts_now[row] = it
  end
  return it
end

local function counted_text(p)
  return int(p.gifts) .. ' ' .. sum_text(p.units) .. ' ' .. sum_text(p.points) .. ' '
    .. (p.currency and sum_text(p.amount) .. ':' .. p.currency or '-') .. ' ' .. p.flag
end

-- A gift joins its row's parts (sign 1), or leaves them (-1).
local function parts_move(row, user, p, sign)
  local it = parts_of(row)
  it.user, it.changed = user, true
  for at, known in ipairs(it.list) do
    if known.open == p.open and known.flag == p.flag and known.currency == p.currency then
      known.gifts = known.gifts + sign * p.gifts
      known.units = sum_sum(known.units, p.units, sign)
      known.points = sum_sum(known.points, p.points, sign)
      if p.currency then known.amount = sum_sum(known.amount, p.amount, sign) end
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

local function tally_add(sign, open, counted, person, user)
  local head = '@' .. sign .. ' ' .. open .. ' ' .. time
  local n = #tally_new
  if head ~= tally_head then
    n, tally_head, tally_new[n + 1] = n + 1, head, head
  end
  tally_new[n + 1], tally_new[n + 2] = counted .. ' ' .. user, person
  if sign == '-' then took_back = true end
end

-- What one gift counts: units, money as digits and currency, or "" and "". What its receipt has of that, "SPAN COUNTED USER",
-- and until when; nothing when nothing is counted.
local function count(units, amount, currency, flag, user, person, row)
  if not span or span == '-' then return nil end
  local points = '0'
  if amount ~= '' and points_text ~= 'off' then
    local each = match(',' .. points_text, ',' .. currency .. ':(%d+)')
    if each then points = int(math.min(amount * each, MAX_SAFE)) end
  end
  local counted = '1 ' .. units .. ' ' .. points .. ' ' .. (amount ~= '' and amount .. ':' .. currency or '-') .. ' ' .. flag
  tally_add('+', span, counted, person, user)
  if goals_left then
    added.u, added.p = (added.u or 0) + units, (added.p or 0) + points
    if amount ~= '' then added['$' .. currency] = (added['$' .. currency] or 0) + amount end
  end
  if row then
    local p = { open = span, gifts = 1, units = units, points = points, flag = flag }
    if amount ~= '' then p.amount, p.currency = amount, currency end
    parts_move(row, user, p, 1)
  end
  local keep = math.max(math.min(count_keep + 0, now + KEEP_GIFTS), now + policy.idempotency_window_ms)
  keep = math.min(keep, MAX_TIME)
  return span .. ' ' .. counted .. ' ' .. user, keep
end

-- A gift of the publishing scripts: `row` is false where none shows it, `flag` "r" or "-" for who is not ranked, `given` what was
-- given with it. A frame that its combo did not grow by counts nothing.
count_gift = function(is_frame, row, flag, user, body, given)
  local units, amount, currency = match(given, '^(%d+):(%d*):(%a*)$')
  if is_frame and units == '0' and (amount == '' or amount == '0') then return nil end
  local person = match(body, ',"user":({.-}),"gift":{')
  return count(units, amount, currency, flag, user, person, row)
end

-- A sale's units; `user` is the buyer's JSON, `flag_user` "r USER", or "- USER" for who is not ranked.
count_sale = function(units, flag_user, user, row)
  count(units, '', '', string.sub(flag_user, 1, 1), string.sub(flag_user, 3), user, row)
end

-- A row was taken back whole.
local function uncount_row(row)
  local it = parts_of(row)
  if it.user then
    for _, p in ipairs(it.list) do tally_add('-', p.open, counted_text(p), '', it.user) end
  end
end

-- What a gift counted, or a part of it, leaves its row's parts, where a row has it, and what is counted.
local function uncount(p, user, row)
  if row and parts_of(row).user then parts_move(row, user, p, -1) end
  tally_add('-', p.open, counted_text(p), '', user)
end

-- A gift was taken back by its id: `counted` is what `count` answered.
local function uncount_gift(counted, row)
  local p, user = part_of(counted or '')
  if p then uncount(p, user, row) end
end

-- Part of a gift's value was refunded: what it counted loses that, and points in proportion. What is left of what it counted.
local function uncount_value(counted, row, lost)
  local p, user = part_of(counted or '')
  if not p or not p.currency then return counted end
  local left = math.max(p.amount - lost, 0)
  local each = math.floor(p.points / p.amount)
  local points = each * p.amount == p.points + 0 and each * left or math.floor(p.points * (left / p.amount))
  uncount({
    open = p.open, gifts = 0, units = '0', points = int(p.points - points), amount = int(p.amount - left), currency = p.currency,
    flag = p.flag,
  }, user, row)
  p.points, p.amount = int(points), int(left)
  return p.open .. ' ' .. counted_text(p) .. ' ' .. user
end

-- Tells watchers, and the ledger, of a goal that is reached now. False where they were never told of it.
local function tell_reached(name, over)
  local announced = call('HGET', TOLD, 'g:' .. name)
  local spec, target, title = match(announced or '', '^goal\n(%S+ %a+ %S+ (%d+)) %d+ %- (.*)\n$')
  if not spec then return false end
  local text = spec .. ' ' .. int(math.min(target + over, MAX_SAFE)) .. ' ' .. time .. ' ' .. title .. '\n'
  record('goal', text)
  ledger.append('goal', nil, '"goal":' .. cjson.encode(text))
  told_new[#told_new + 1], told_new[#told_new + 2] = 'g:' .. name, 'goal\n' .. text
  return true
end

-- What is left to goals. True when one may be reached, and only totals/tally can tell.
local function settle_goals()
  local words, exact = {}, not took_back and string.find(strings[12], '^%d+ =')
  for name, code, left in string.gmatch(goals_left, '(%S+) (%S+) (%S+)') do
    if string.byte(left) ~= 43 then
      left = left - (added[code] or 0)
      if left <= 0 and not exact then return true end
      left = left <= 0 and tell_reached(name, -left) and '+' .. time or int(left)
    end
    words[#words + 1] = name .. ' ' .. code .. ' ' .. left
  end
  left_new = match(strings[12], '^%d+') .. (exact and ' = ' or ' ~ ') .. concat(words, ' ')
end

-- What is to be answered instead, if anything; nothing was written.
count_refuses = function()
  call('HLEN', PARTS) -- rows leave it also where nothing counts
  leaving = LATER.rows.leaving()
  if #tally_new == 0 then return nil end
  -- A little later than now, so that whoever does what is due can be told first.
  local want = math.max(now + 200, (match(strings[12] or '', '^%d+') or 0) + TELL_TOTALS)
  local struck = tonumber(call('ZSCORE', KEYS.due, CLOCK_OF_TOTALS) or nil)
  if not (struck and struck <= want) then
    local first = tonumber(call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
    local looked_at = tonumber(ARGV.looked_at)
    if not (first and first <= want or looked_at and now < looked_at and looked_at <= want + 250) then
      return { '', 'r', int(want) }
    end
    wind_at = want
  end
  call('LLEN', TALLY)
  if goals_left and settle_goals() then return { '', 'count', time } end
end

-- Writes what was counted; after `commit`.
count_commit = function()
  local call = redis.call
  if #leaving > 0 then call('HDEL', PARTS, unpack(leaving)) end
  local set = {}
  for row, it in pairs(parts_now) do
    if it.changed and LATER.rows.find(row) then
      local lines = {}
      for at, p in ipairs(it.list) do lines[at] = p.open .. ' ' .. counted_text(p) end
      set[#set + 1] = row
      set[#set + 1] = #lines == 1 and '=' .. lines[1] .. ' ' .. it.user or concat(lines, '\n') .. '\n\n' .. it.user
    end
  end
  if #set > 0 then call('HSET', PARTS, unpack(set)) end
  for from = 1, #tally_new, 1000 do
    call('RPUSH', TALLY, unpack(tally_new, from, math.min(from + 999, #tally_new)))
  end
  if wind_at then call('ZADD', KEYS.due, int(wind_at), CLOCK_OF_TOTALS) end
  if left_new then call('SET', LEFT, left_new) end
  if #told_new > 0 then call('HSET', TOLD, unpack(told_new)) end
end
