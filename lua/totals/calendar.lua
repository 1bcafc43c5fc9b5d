-- calendar: begins and ends runs, as the policy, the calendar and the session say, and removes what no run needs any more.
--
-- Of ARGV
--   time_zone  the one by which the caller knows when periods begin
--   bounds     "PERIOD SINCE UNTIL;" of the day, the week and the month that this is

local call, int, runs, policy = redis.call, feed.int, LATER.runs, feed.policy
-- Users that are looked at in one call.
local USERS_AT_ONCE = 200
local unlinked, fields, forgotten, calendar = {}, {}, {}, {}

-- The goals of a period begin anew with it.
local function begin_goals(period)
  for _, goal in ipairs(runs.state.goals) do
    if goal.period == period and LATER.sums.of_goal(goal) < goal.target then goal.reached_at = nil end
  end
end

-- What the period had ended last goes, and its run ends.
local function end_run(period)
  runs.put(runs.ended[period], 'gone')
  runs.put(runs.open[period], 'ended')
end

-- A session begins by name.
function calendar.begin_session(id)
  local state = runs.state
  state.session, runs.is_changed = { since = feed.now, id = id }, true
  if not runs.open.session then return end
  end_run('session')
  runs.open_run('session', feed.now)
  begin_goals('session')
end

-- The period has ended, or the clock went back behind its beginning.
local function turn(period, bound)
  local run, before = runs.open[period], runs.ended[period]
  if feed.now < run.since and before and before.since <= feed.now and feed.now < before['until'] then
    runs.put(run, 'ended')
    runs.put(before, 'open')
  else
    end_run(period)
    runs.open_run(period, bound.since, bound.til)
  end
  begin_goals(period)
end

-- Makes the runs those that the policy and the calendar want. The refusal, if the caller's calendar is that of another policy or time.
function calendar.settle()
  local again, bounds = { '', 'again', feed.time }, {}
  if runs.is_damaged then return redis.error_reply('DAMAGED what a feed counts') end
  if ARGV.time_zone ~= policy.time_zone then return again end
  for period, since, til in string.gmatch(ARGV.bounds, '(%a+) (%d+) (%d+);') do
    if feed.now < since + 0 or feed.now >= til + 0 then return again end
    bounds[period] = { since = since + 0, til = til + 0 }
  end
  runs.begin(policy)
  local state, periods = runs.state, table.concat(policy.totals, ',')
  local has_moved = state.time_zone ~= policy.time_zone
  for _, period in ipairs(runs.PERIODS) do
    local run, bound = runs.open[period], bounds[period]
    local is_wanted = string.find(',' .. periods .. ',', ',' .. period .. ',', 1, true)
    if run and not is_wanted then
      runs.put(runs.ended[period], 'gone')
      runs.put(run, 'gone')
      begin_goals(period)
    elseif not run and is_wanted then
      runs.open_run(period, bound and bound.since or feed.now, bound and bound.til)
      begin_goals(period)
    elseif run and bound and has_moved and run.since <= feed.now then
      run['until'] = bound.til
    elseif run and bound and runs.is_over(run) then
      turn(period, bound)
    end
  end
  if has_moved or state.periods ~= periods then
    state.time_zone, state.periods, runs.is_changed = policy.time_zone, periods, true
  end
end

-- What there is of a run that is not kept any more.
local function unlink(run)
  fields[#fields + 1] = int(run.number)
  for name in pairs(LATER.sums.of_run(run)) do
    if name ~= 'gifts' and name ~= 'gifters' then unlinked[#unlinked + 1] = LATER.rankings.key(run, name) end
  end
end

-- Searches a part of the users for those who gave in no run that is kept.
local function search_users()
  local found = call('HSCAN', KEYS.people, runs.state.cursor, 'COUNT', int(USERS_AT_ONCE))
  for at = 1, #found[2], 2 do
    local is_needed = false
    for number in pairs(LATER.person.decode(found[2][at + 1]).runs) do is_needed = is_needed or runs.of[number] end
    if not is_needed then forgotten[#forgotten + 1] = found[2][at] end
  end
  runs.state.cursor, runs.is_changed = found[1] ~= '0' and found[1] or nil, true
end

-- Removes what no run needs any more, a part in each call. Whether there is more.
function calendar.clean()
  local state, kept = runs.state, {}
  for _, run in ipairs(state.runs) do
    if run.state == 'gone' then
      unlink(run)
    else
      kept[#kept + 1] = run
    end
  end
  if state.cursor then search_users() end
  if #kept < #state.runs then state.runs, state.cursor, runs.is_changed = kept, '0', true end
  return state.cursor ~= nil
end

feed.commits[#feed.commits + 1] = function()
  if #unlinked > 0 then call('UNLINK', unpack(unlinked)) end
  feed.call_in_parts('HDEL', KEYS.sums, fields)
  feed.call_in_parts('HDEL', KEYS.people, forgotten)
end

return calendar
