-- counting: adds what gifts and sales give to the open runs of the feed, and takes it out again where a gift is taken back.
--
-- A call either adds or takes. All that it counts is added up by run and user, before one read and one write of each key.
--
--   parts  HASH, row -> JSON, a list of PART: what the gifts of the row counted, those of the same runs and currency together
-- PART: {"runs","gifts","units","points","amount","currency","ranked","user"}: the numbers of the runs with blanks between, no amount
-- where it has no value, ranked where its giver is. The receipt of a gift has one too (receipt, `counted`).

local call, int, runs = redis.call, feed.int, LATER.runs
local MAX_SAFE = 9007199254740991
-- Currencies that a run has sums of, users in a ranking.
local CURRENCIES_MAX, RANKED_MAX = 64, 100000
-- For how long a gift can be taken back at most: the domain's KEEP_MS.
local KEPT_MS = 3024000000

-- By the number of its run: what is added or taken. All open runs have the same added.
local changes, added, is_taking = {}, false, false
local people, parts_of_rows, writes, leaving, goals = {}, {}, {}, {}, false
-- The numbers of the open runs, and when the last of them ends.
local open_numbers, open_until = {}, 0
for _, run in ipairs(runs.state and runs.state.runs or {}) do
  if run.state == 'open' then
    open_numbers[#open_numbers + 1] = int(run.number)
    open_until = math.max(open_until, run['until'] or clock.MAX_TIME)
  end
end
local open_text = table.concat(open_numbers, ' ')

-- The refusal that ends the call before anything is counted, if there is one.
local function refusal_at_start()
  if runs.is_damaged then return redis.error_reply('DAMAGED what a feed counts') end
  return not runs.are_current(feed.policy) and { '', 'period', feed.time } or nil
end

local function add_to(sums, name, more)
  sums[name] = (sums[name] or 0) + more
end

-- What a part is by each measure that it has.
local function amounts_of(part)
  local amounts = { units = part.units, points = part.points }
  if part.amount then amounts['$' .. part.currency] = part.amount end
  return amounts
end

local function new_change()
  return { sums = {}, gifters = {}, scores = {} }
end

-- Adds a part to what changes in a run.
local function add_part(change, part)
  add_to(change.sums, 'gifts', part.gifts)
  add_to(change.gifters, part.user, part.gifts)
  for measure, amount in pairs(amounts_of(part)) do
    add_to(change.sums, measure, amount)
    if part.ranked and amount > 0 then
      change.scores[measure] = change.scores[measure] or {}
      add_to(change.scores[measure], part.user, amount)
    end
  end
end

local function encode(part)
  local text = part.user
  return '{"runs":"' .. part.runs .. '","gifts":' .. int(part.gifts) .. ',"units":' .. int(part.units) .. ',"points":' .. int(part.points)
    .. (part.amount and ',"amount":' .. int(part.amount) .. ',"currency":"' .. part.currency .. '"' or '')
    .. (part.ranked and ',"ranked":true' or '') .. ',"user":' .. cjson.encode(text) .. '}'
end

-- The parts of a row.
local function parts_of(row)
  local it = parts_of_rows[row]
  if not it then
    local text = call('HGET', KEYS.parts, row)
    it = text and cjson.decode(text) or {}
    parts_of_rows[row] = it
  end
  return it
end

-- A part joins a row's parts (sign 1), or leaves them (-1).
local function change_row(row, part, sign)
  local parts = parts_of(row)
  parts.is_changed = true
  for n, it in ipairs(parts) do
    if it.runs == part.runs and it.ranked == part.ranked and it.currency == part.currency then
      for _, name in ipairs({ 'gifts', 'units', 'points', 'amount' }) do
        if it[name] then it[name] = math.min(math.max(it[name] + sign * part[name], 0), MAX_SAFE) end
      end
      if it.gifts == 0 then table.remove(parts, n) end
      return
    end
  end
  if sign > 0 then
    local it = {}
    for name, value in pairs(part) do it[name] = value end
    parts[#parts + 1] = it
  end
end

-- The goals that are not reached, with what they have.
local function watch_goals()
  goals = {}
  for _, goal in ipairs(runs.state.goals) do
    local run = not goal.reached_at and runs.open[goal.period]
    if run then goals[#goals + 1] = { goal = goal, value = runs.sum(run, goal.by) } end
  end
end

-- A goal that this part reaches is reached at once, with its entry directly behind that of the gift.
local function move_goals(part)
  if not goals then watch_goals() end
  if #goals == 0 then return end
  local amounts = amounts_of(part)
  for n = #goals, 1, -1 do
    local it = goals[n]
    it.value = math.min(it.value + (amounts[it.goal.by] or 0), MAX_SAFE)
    if it.value >= it.goal.target then
      LATER.notices.reach(it.goal, it.value)
      table.remove(goals, n)
    end
  end
end

-- Adds what was given by this user, whose name and avatar are shown as `person`, to all open runs; nil without any. Returns until when
-- it can be taken back, and what it counted as JSON. `row` shows it, if one does.
local function count(given, user, person, is_ranked, row)
  if open_text == '' then return nil end
  local points = given.amount and feed.policy.points[given.currency] or 0
  local part = {
    runs = open_text, gifts = 1, units = given.units, points = math.min((given.amount or 0) * points, MAX_SAFE),
    amount = given.amount, currency = given.amount and given.currency, ranked = is_ranked or nil, user = user,
  }
  if not added then
    added = new_change()
    for _, number in ipairs(open_numbers) do changes[number] = added end
  end
  add_part(added, part)
  if is_ranked then people[user] = person end
  if row then change_row(row, part, 1) end
  move_goals(part)
  local keep_until = math.max(math.min(open_until, feed.now + KEPT_MS), feed.now + feed.policy.idempotency_window_ms)
  return math.min(keep_until, clock.MAX_TIME), encode(part)
end

-- Takes a part out of the runs that still are kept.
local function take(part)
  is_taking = true
  for number in string.gmatch(part.runs, '%d+') do
    if runs.of[number + 0] then
      changes[number] = changes[number] or new_change()
      add_part(changes[number], part)
    end
  end
end

-- A row was taken back whole.
local function take_row(row)
  for _, part in ipairs(parts_of(row)) do take(part) end
end

-- A gift was taken back: `part` is what it counted, `row` shows it.
local function take_gift(part, row)
  if not part then return end
  if row then change_row(row, part, -1) end
  take(part)
end

-- A part of a gift's value was refunded: it loses that, and points in proportion. What is left of what it counted.
local function take_value(part, row, lost)
  if not part or not part.amount then return part end
  local left = math.max(part.amount - lost, 0)
  local each = math.floor(part.points / part.amount)
  local points = each * part.amount == part.points and each * left or math.floor(part.points * (left / part.amount))
  take_gift({
    runs = part.runs, gifts = 0, units = 0, points = part.points - points, amount = part.amount - left, currency = part.currency,
    ranked = part.ranked, user = part.user,
  }, row)
  part.points, part.amount = points, left
  return part
end

local function sorted(of)
  local names = {}
  for name in pairs(of) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- What there is after `more` came or went; nil where there is nothing to take from.
local function moved(before, more)
  if is_taking then return before and math.max(before - more, 0) end
  return math.min((before or 0) + more, MAX_SAFE)
end

local function write(command, key, all)
  if #all > 0 then writes[#writes + 1] = { command, key, unpack(all) } end
end

-- Says what is to be written of a run. A currency beyond those that a run has sums of is in no ranking either.
local function move_sums(key, sums, rankings)
  local names, set = sorted(sums), {}
  for n, text in ipairs(call('HMGET', key, unpack(names))) do
    local name = names[n]
    local is_beyond = not text and string.byte(name) == 36 and call('HLEN', key) >= CURRENCIES_MAX + 3
    local is = not is_beyond and moved(text and text + 0, sums[name])
    if is then set[#set + 1], set[#set + 2] = name, int(is) else rankings[name] = nil end
  end
  write('HSET', key, set)
end

local function move_gifters(key, gifters)
  local users, set, gone = sorted(gifters), {}, {}
  for n, text in ipairs(call('HMGET', key, unpack(users))) do
    local is = moved(text and text + 0, gifters[users[n]])
    if is and is > 0 then
      set[#set + 1], set[#set + 2] = users[n], int(is)
    elseif is then
      gone[#gone + 1] = users[n]
    end
  end
  write('HSET', key, set)
  write('HDEL', key, gone)
end

local function move_scores(key, scores)
  local users, set, gone = sorted(scores), {}, {}
  for n, text in ipairs(call('ZMSCORE', key, unpack(users))) do
    local is = moved(text and -text, scores[users[n]])
    if is and is > 0 then
      set[#set + 1], set[#set + 2] = int(-is), users[n]
    elseif is then
      gone[#gone + 1] = users[n]
    end
  end
  write('ZADD', key, set)
  write('ZREM', key, gone)
end

local function move(run, change)
  local sums, gifters, rankings = runs.key(run, 'sums'), runs.key(run, 'gifters'), {}
  for measure in pairs(change.scores) do rankings[measure] = runs.key(run, measure) end
  if runs.is_short then return end
  move_sums(sums, change.sums, rankings)
  move_gifters(gifters, change.gifters)
  for _, measure in ipairs(sorted(rankings)) do move_scores(rankings[measure], change.scores[measure]) end
end

-- The refusal that ends the call once everything is counted, if there is one. Nothing is written yet.
local function refusal()
  call('HLEN', KEYS.parts) -- rows leave it also where nothing counts
  leaving = LATER.rows.leaving()
  if not next(changes) then return nil end
  for _, run in ipairs(runs.state.runs) do
    local change = changes[int(run.number)]
    if change then move(run, change) end
  end
  local set = {}
  for user, person in pairs(people) do set[#set + 1], set[#set + 2] = user, person end
  call('HLEN', KEYS.names)
  write('HSET', KEYS.names, set)
  return runs.refusal() or LATER.notices.refusal(feed.now + 200)
end

feed.commits[#feed.commits + 1] = function()
  if #leaving > 0 then call('HDEL', KEYS.parts, unpack(leaving)) end
  local set = {}
  for row, parts in pairs(parts_of_rows) do
    if parts.is_changed and LATER.rows.find(row) then
      local texts = {}
      for n, part in ipairs(parts) do texts[n] = encode(part) end
      set[#set + 1], set[#set + 2] = row, '[' .. table.concat(texts, ',') .. ']'
    end
  end
  if #set > 0 then call('HSET', KEYS.parts, unpack(set)) end
  for _, command in ipairs(writes) do
    local is_new = call(unpack(command))
    if command[1] == 'ZADD' and is_new > 0 then call('ZREMRANGEBYRANK', command[2], int(RANKED_MAX), '-1') end
  end
end

return {
  count = count, take_row = take_row, take_gift = take_gift, take_value = take_value,
  refusal_at_start = refusal_at_start, refusal = refusal,
}
