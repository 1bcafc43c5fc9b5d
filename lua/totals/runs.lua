-- runs: the periods that a feed counts, the goals that go by them, and what is summed up in each. A run is one run of a period: one
-- day, one session. How gifts are added: counting; how runs begin and end: calendar.
--
--   totals  STRING of MessagePack, which is exact; missing where nothing is counted:
--           time_zone, periods  the policy's, by which the runs began; periods with commas between
--           last                the number of the last run
--           notified_at         when watchers were notified last
--           session             how the session began, where one did by name: {"since":MS,"id":TEXT}
--           cursor              where the search for users that no run needs goes on; missing where there is nothing to search for
--           runs                {"number","period","state","since","until"}: state is open, ended (of each period the last one) or
--                               gone (to be removed); all and session have no until
--           goals               {"goal","period","by","target","reached_at","title"}: no reached_at before that
-- MEASURE is points, units, or "$EUR" and so on: minor units.

local call, format = redis.call, string.format
-- A clock that is behind by less begins no run anew.
local TOLERATED_MS = 3600000
local now = clock.now

-- open, ended: runs by period. of: open and ended ones by number.
local runs = {
  open = {}, ended = {}, of = {}, state = false, is_damaged = false, is_changed = false,
  PERIODS = { 'all', 'session', 'day', 'week', 'month' },
}

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
  local is_packed, it = pcall(cmsgpack.unpack, STRINGS.totals)
  local is_whole = is_packed and type(it) == 'table' and it.last and it.notified_at and it.time_zone and it.periods
    and type(it.runs) == 'table' and type(it.goals) == 'table'
  runs.state, runs.is_damaged = is_whole and it, not is_whole
  if is_whole then sort() end
end

-- Whether the time of a run has ended, or the clock went back behind its beginning.
function runs.is_over(run)
  return run['until'] and (now >= run['until'] or now < run.since - TOLERATED_MS)
end

-- The names of a table, in order.
function runs.sorted(of)
  local names = {}
  for name in pairs(of) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- Whether the runs are those that this policy wants, at this time.
function runs.are_current(policy)
  local state = runs.state
  if not state then return #policy.totals == 0 end
  if state.periods ~= table.concat(policy.totals, ',') or state.time_zone ~= policy.time_zone then return false end
  for _, run in pairs(runs.open) do
    if runs.is_over(run) then return false end
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

-- A goal that has this value, as JSON.
function runs.goal_text(goal, value)
  return '{"goal":"' .. goal.goal .. '","period":"' .. goal.period .. '","by":"' .. goal.by .. '","target":' .. int(goal.target)
    .. ',"value":' .. int(value) .. (goal.reached_at and ',"reached_at":' .. int(goal.reached_at) or '')
    .. ',"title":' .. json(goal.title) .. '}'
end

-- The state as it is stored; nil where there is nothing left.
function runs.text()
  local state = runs.state
  if #state.runs == 0 and #state.goals == 0 and not state.session then return nil end
  return cmsgpack.pack(state)
end

return runs
