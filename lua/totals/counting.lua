-- counting: adds what gifts and sales give to the open runs of the feed, and takes it out again where a gift is taken back.
--
-- A call either adds or takes. All that it counts is added up by run and user, before one read and one write of each key.
--
--   parts  HASH, row -> MessagePack, a list of PART: what the gifts of the row counted, those of the same runs and currency together
-- PART: {"runs","gifts","units","points","amount","currency","ranked","user"}: the numbers of the runs with blanks between, no amount
-- where it has no value, ranked where its giver is. The receipt of a gift has one too (receipt, `counted`).

local call, int, runs, person = redis.call, feed.int, LATER.runs, LATER.person
local MAX_SAFE = 9007199254740991
-- Currencies that a run has sums of; users that wait to be ranked.
local CURRENCIES_MAX, UNRANKED_MAX = 64, 100000
-- For how long a gift can be taken back at most: the domain's KEEP_MS.
local KEPT_MS = 3024000000

-- By the number of its run: what is added or taken. All open runs have the same added.
local changes, added, is_taking = {}, false, false
local names, parts_of_rows, leaving, goals = {}, {}, {}, false
local sums, fields, people, unranked = {}, {}, {}, {}
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

-- Adds a part, which has these amounts, to what changes in a run: its sums, and what users gave.
local function add_part(change, part, amounts)
  add_to(change.sums, 'gifts', part.gifts)
  local given = change.users[part.user] or { gifts = 0 }
  change.users[part.user] = given
  add_to(given, 'gifts', part.gifts)
  for measure, amount in pairs(amounts) do
    add_to(change.sums, measure, amount)
    if part.ranked and amount > 0 then add_to(given, measure, amount) end
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
    it = text and cmsgpack.unpack(text) or {}
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
    if not goal.reached_at and runs.open[goal.period] then goals[#goals + 1] = { goal = goal, value = LATER.sums.of_goal(goal) } end
  end
end

-- A goal that these amounts reach is reached at once, with its entry directly behind that of the gift.
local function move_goals(amounts)
  if not goals then watch_goals() end
  for n = #goals, 1, -1 do
    local it = goals[n]
    it.value = math.min(it.value + (amounts[it.goal.by] or 0), MAX_SAFE)
    if it.value >= it.goal.target then
      LATER.notices.reach(it.goal, it.value)
      table.remove(goals, n)
    end
  end
end

-- Adds what was given by this user to all open runs; nil without any. Returns until when it can be taken back, and what it counted as
-- JSON. `name` is {"id","name","avatar"}; `row` shows the gift, if one does.
local function count(given, user, name, is_ranked, row)
  if open_text == '' then return nil end
  local points = given.amount and feed.policy.points[given.currency] or 0
  local part = {
    runs = open_text, gifts = 1, units = given.units, points = math.min((given.amount or 0) * points, MAX_SAFE),
    amount = given.amount, currency = given.amount and given.currency, ranked = is_ranked or nil, user = user,
  }
  if not added then
    added = { sums = {}, users = {} }
    for _, number in ipairs(open_numbers) do changes[number] = added end
  end
  local amounts = amounts_of(part)
  add_part(added, part, amounts)
  if is_ranked then names[user] = name end
  if row then change_row(row, part, 1) end
  move_goals(amounts)
  local keep_until = math.max(math.min(open_until, feed.now + KEPT_MS), feed.now + feed.policy.idempotency_window_ms)
  return math.min(keep_until, clock.MAX_TIME), encode(part)
end

-- Takes a part out of the runs that still are kept.
local function take(part)
  is_taking = true
  local amounts = amounts_of(part)
  for number in string.gmatch(part.runs, '%d+') do
    if runs.of[number + 0] then
      changes[number] = changes[number] or { sums = {}, users = {} }
      add_part(changes[number], part, amounts)
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

-- What there is after `more` came or went; nil where there is nothing to take from.
local function moved(before, more)
  if is_taking then return before and math.max(before - more, 0) end
  return math.min((before or 0) + more, MAX_SAFE)
end

-- Whether a run has sums of as many currencies as it may.
local function is_full(has)
  local count = 0
  for name in pairs(has) do
    if LATER.sums.is_currency(name) then count = count + 1 end
  end
  return count >= CURRENCIES_MAX
end

-- What a run will have. Returns the currencies beyond those that it may have, which count in no score either.
local function move_sums(has, change)
  local beyond = {}
  for name, more in pairs(change.sums) do
    if not has[name] and LATER.sums.is_currency(name) and is_full(has) then
      beyond[name] = true
    else
      has[name] = moved(has[name], more)
    end
  end
  return beyond
end

-- What a user will have given in this run.
local function move_person(it, number, given, has, beyond)
  local before = it.runs[number] or {}
  it.runs[number] = before
  local had = before.gifts or 0
  for name, more in pairs(given) do
    if not beyond[name] then before[name] = moved(before[name], more) end
  end
  local gifts = before.gifts or 0
  has.gifters = has.gifters + (gifts > 0 and 1 or 0) - (had > 0 and 1 or 0)
end

-- Says what is to be written of all that changes.
local function move()
  local numbers, users, beyond = runs.sorted(changes), {}, {}
  sums = LATER.sums.of(numbers)
  for n, number in ipairs(numbers) do
    beyond[n] = move_sums(sums[n], changes[number])
    for user in pairs(changes[number].users) do users[user] = true end
  end
  unranked = runs.sorted(users)
  for n, text in ipairs(call('HMGET', KEYS.people, unpack(unranked))) do
    local user = unranked[n]
    local it = person.decode(text)
    for k, number in ipairs(numbers) do
      local given = changes[number].users[user]
      if given then move_person(it, number + 0, given, sums[k], beyond[k]) end
    end
    it.name = names[user] or it.name
    people[#people + 1], people[#people + 2] = user, person.encode(it)
  end
  for n, number in ipairs(numbers) do fields[#fields + 1], fields[#fields + 2] = number, cmsgpack.pack(sums[n]) end
end

-- The refusal that ends the call once everything is counted, if there is one. Nothing is written yet.
local function refusal()
  call('HLEN', KEYS.parts) -- rows leave it also where nothing counts
  leaving = LATER.rows.leaving()
  if not next(changes) then return nil end
  move()
  -- The list is only as long as this where users cannot be ranked: the caller learns why when it settles the runs.
  if call('LLEN', KEYS.unranked) >= UNRANKED_MAX then return { '', 'period', feed.time } end
  return LATER.notices.refusal(feed.now + 200)
end

feed.commits[#feed.commits + 1] = function()
  if #leaving > 0 then call('HDEL', KEYS.parts, unpack(leaving)) end
  local set = {}
  for row, parts in pairs(parts_of_rows) do
    if parts.is_changed and LATER.rows.find(row) then
      parts.is_changed = nil
      set[#set + 1], set[#set + 2] = row, cmsgpack.pack(parts)
    end
  end
  if #set > 0 then call('HSET', KEYS.parts, unpack(set)) end
  if #unranked == 0 then return end
  call('HSET', KEYS.sums, unpack(fields))
  call('HSET', KEYS.people, unpack(people))
  call('RPUSH', KEYS.unranked, unpack(unranked))
end

return {
  count = count, take_row = take_row, take_gift = take_gift, take_value = take_value,
  refusal_at_start = refusal_at_start, refusal = refusal,
}
