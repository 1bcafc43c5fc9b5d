-- runs: the periods that a feed counts, the goals that go by them, and what is summed up in each. A run is one run of a period: one
-- day, one session. How gifts are added: counting; how runs begin and end: calendar.
--
--   totals  STRING of JSON; missing where nothing is counted:
--           time_zone, periods  the policy's, by which the runs began; periods with commas between
--           last                the number of the last run
--           notified_at         when watchers were notified last
--           session             how the session began, where one did by name: {"since":MS,"id":TEXT}
--           cursor              where the search for names that no run needs goes on; missing where there is nothing to search for
--           runs                {"number","period","state","since","until"}: state is open, ended (of each period the last one) or
--                               gone (to be removed); all and session have no until
--           goals               {"goal","period","by","target","reached_at","title"}: no reached_at before that
-- and of each run, by its number:
--   sums     HASH: gifts, units, points, and "$EUR" and so on: minor units. Each stops at 2^53-1
--   gifters  HASH, user -> how many gifts of this user counted
--   ranking  ZSET of each MEASURE, user -> less than 0: the highest score comes first, and of equal ones the first by user id
-- and of the feed:
--   names      HASH, user -> the newest {"id","name","avatar"}, of users in a ranking
--   announced  HASH, "totals DAY" or "goal GOAL" -> what watchers know, as a change has it
-- MEASURE is points, units or "$EUR" and so on.
--
-- Behind all other KEYS are those of runs: for each of ARGV.runs its sums, its gifters, and a ranking by each of ARGV.measures. A call
-- that needs others refuses with "runs", what it needs, and the open runs; the caller comes again with these.

local call, format = redis.call, string.format
-- A clock that is behind by less begins no run anew.
local TOLERATED_MS = 3600000
local SUMS, GIFTERS = 'sums', 'gifters'
local now = clock.now

-- open, ended: runs by period. of: open and ended ones by number. is_short: KEYS are missing.
local runs = { open = {}, ended = {}, of = {}, state = false, is_damaged = false, is_changed = false, is_short = false }
local needs_runs, needs_measures = {}, {}

local function int(number)
  return format('%d', number)
end

local function json(text)
  return cjson.encode(text)
end

local function new_state(policy)
  return { last = 0, notified_at = 0, time_zone = policy.time_zone, periods = '', runs = {}, goals = {} }
end

-- Sorts the runs by what they are.
local function sort()
  runs.open, runs.ended, runs.of = {}, {}, {}
  for _, run in ipairs(runs.state.runs) do
    if run.state ~= 'gone' then
      runs[run.state][run.period], runs.of[run.number] = run, run
    end
  end
end

if STRINGS.totals then
  local is_json, it = pcall(cjson.decode, STRINGS.totals)
  local is_whole = is_json and type(it) == 'table' and it.last and it.notified_at and it.time_zone and it.periods
    and type(it.runs) == 'table' and type(it.goals) == 'table'
  runs.state, runs.is_damaged = is_whole and it, not is_whole
  if is_whole then sort() end
end

-- Whether the runs are those that this policy wants, at this time.
function runs.are_current(policy)
  local state = runs.state
  if not state then return #policy.totals == 0 end
  if state.periods ~= table.concat(policy.totals, ',') or state.time_zone ~= policy.time_zone then return false end
  for _, run in pairs(runs.open) do
    if run['until'] and (now >= run['until'] or now < run.since - TOLERATED_MS) then return false end
  end
  return true
end

-- Gives the feed runs, where it has none.
function runs.begin(policy)
  runs.state = runs.state or new_state(policy)
end

-- A run of this period begins.
function runs.open_run(period, since, until_)
  local state = runs.state
  state.last = state.last + 1
  state.runs[#state.runs + 1] = { number = state.last, period = period, state = 'open', since = since, ['until'] = until_ }
  runs.is_changed = true
  sort()
end

-- A run is in another state.
function runs.put(run, state)
  if not run then return end
  run.state, runs.is_changed = state, true
  sort()
end

-- What KEYS have of a run: by the name of its sums, its gifters, or a measure.
local place_of, keys, width = {}, { unpack(KEYS, LAST_ITEM_KEY + 1) }, 0
for measure in string.gmatch(SUMS .. ' ' .. GIFTERS .. ' ' .. ARGV.measures, '%S+') do
  width = width + 1
  place_of[measure] = width
end
local row_of, count = {}, 0
for number in string.gmatch(ARGV.runs, '%d+') do
  row_of[number + 0] = count
  count = count + 1
end

-- The key of a run's sums, gifters, or ranking; nil where the caller is to come again with it.
function runs.key(run, what)
  needs_runs[run.number], needs_measures[what] = true, true
  local row, place = row_of[run.number], place_of[what]
  if row and place then return keys[row * width + place] end
  runs.is_short = true
  return nil
end

-- The refusal for want of keys, if there is one.
function runs.refusal()
  if not runs.is_short then return nil end
  local numbers, measures, open = {}, {}, {}
  for _, run in pairs(runs.open) do open[#open + 1] = int(run.number) end
  for number in pairs(needs_runs) do numbers[#numbers + 1] = int(number) end
  for measure in pairs(needs_measures) do
    if measure ~= SUMS and measure ~= GIFTERS then measures[#measures + 1] = measure end
  end
  return { '', 'runs', table.concat(numbers, ' '), table.concat(measures, ' '), table.concat(open, ' ') }
end

-- What a run has by a measure; 0 without a run.
function runs.sum(run, measure)
  local key = run and runs.key(run, SUMS)
  return tonumber(key and call('HGET', key, measure) or 0)
end

-- The measures that a run has sums of.
function runs.measures(run)
  local key, measures = runs.key(run, SUMS), {}
  for _, field in ipairs(key and call('HKEYS', key) or {}) do
    if field ~= 'gifts' then measures[#measures + 1] = field end
  end
  return measures
end

-- What a run has, as JSON that is not closed; and its sums by name.
function runs.totals(run)
  local key, gifters = runs.key(run, SUMS), runs.key(run, GIFTERS)
  local fields, sums, texts = key and call('HGETALL', key) or {}, {}, {}
  for at = 1, #fields, 2 do
    sums[fields[at]] = tonumber(fields[at + 1])
    texts[#texts + 1] = '"' .. fields[at] .. '":' .. fields[at + 1]
  end
  return '{"since":' .. int(run.since) .. ',"gifters":' .. int(gifters and call('HLEN', gifters) or 0)
    .. ',"sums":{' .. table.concat(texts, ',') .. '}', sums
end

-- The first of a run by a measure, as JSON.
function runs.leaders(run, measure, limit)
  local key, users, texts = runs.key(run, measure), {}, {}
  local found = key and call('ZRANGE', key, '0', int(limit - 1), 'WITHSCORES') or {}
  for at = 1, #found, 2 do users[#users + 1] = found[at] end
  local people = #users > 0 and call('HMGET', KEYS.names, unpack(users)) or {}
  for n, text in ipairs(users) do
    local person = people[n] or '{"id":' .. json(text) .. '}'
    texts[n] = '{"score":' .. int(-found[2 * n]) .. ',"user":' .. person .. '}'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end

-- A goal as it is stored; with `value` as it is announced.
function runs.goal_text(goal, value)
  return '{"goal":"' .. goal.goal .. '","period":"' .. goal.period .. '","by":"' .. goal.by .. '","target":' .. int(goal.target)
    .. (value and ',"value":' .. int(value) or '') .. (goal.reached_at and ',"reached_at":' .. int(goal.reached_at) or '')
    .. ',"title":' .. json(goal.title) .. '}'
end

-- The state as it is stored; nil where there is nothing left. Numbers are written exactly, where cjson would round them to 14 digits.
function runs.text()
  local state, them, goals = runs.state, {}, {}
  if #state.runs == 0 and #state.goals == 0 and not state.session then return nil end
  for n, run in ipairs(state.runs) do
    them[n] = '{"number":' .. int(run.number) .. ',"period":"' .. run.period .. '","state":"' .. run.state .. '","since":' .. int(run.since)
      .. (run['until'] and ',"until":' .. int(run['until']) or '') .. '}'
  end
  for n, goal in ipairs(state.goals) do goals[n] = runs.goal_text(goal) end
  return '{"last":' .. int(state.last) .. ',"notified_at":' .. int(state.notified_at) .. ',"time_zone":"' .. state.time_zone .. '","periods":"'
    .. state.periods .. '"' .. (state.cursor and ',"cursor":"' .. state.cursor .. '"' or '')
    .. (state.session and ',"session":{"since":' .. int(state.session.since) .. ',"id":' .. json(state.session.id) .. '}' or '')
    .. ',"runs":[' .. table.concat(them, ',') .. '],"goals":[' .. table.concat(goals, ',') .. ']}'
end

return runs
