-- notices: what watchers are notified of totals and goals: at most twice a second, and of a goal that is reached at once.
--
--   announced  HASH, "totals DAY" or "goal GOAL" -> what watchers know: {"totals":{…}} or {"goal":{…}}
--
-- The clock of totals is in the due queue while there is something to come: a notice, or the end of a run.

local call, int, runs = redis.call, feed.int, LATER.runs
local CLOCK = string.format('%016d ', 0) .. 'ttotals'
-- How often watchers are notified at most. How many leaders of a run they learn, and by how many currencies.
local NOTIFY_EVERY_MS, LEADERS_MAX, CURRENCIES_MAX = 600, 10, 4
local announced, forgotten, is_held_back, alarm_at, was_alarm_at = {}, {}, false, nil, nil
local notices = {}

-- Watchers learn what a goal is now; `is_deleted` that it is gone.
function notices.of_goal(goal, value, is_deleted)
  local text = is_deleted and '{"goal":"' .. goal.goal .. '","deleted":true}' or runs.goal_text(goal, value)
  local name = 'goal ' .. goal.goal
  feed.next_seq()
  feed.record('goal', ',"goal":' .. text)
  announced[name], forgotten[name] = not is_deleted and '{"goal":' .. text .. '}' or nil, is_deleted
end

-- A goal is reached: watchers learn it, and it is an entry of the ledger.
function notices.reach(goal, value)
  goal.reached_at, runs.is_changed = feed.now, true
  notices.of_goal(goal, value)
  ledger.append('goal', nil, '"goal":' .. runs.goal_text(goal, value))
end

-- What watchers learn of a run.
local function text_of(run)
  local sums = LATER.sums.of_run(run)
  local currencies, measures, leaders = {}, { 'units' }, {}
  for name in pairs(sums) do
    if LATER.sums.is_currency(name) then currencies[#currencies + 1] = name end
  end
  table.sort(currencies, function(a, b) return sums[a] > sums[b] or sums[a] == sums[b] and a < b end)
  if next(feed.policy.points) then measures[2] = 'points' end
  for n = 1, math.min(CURRENCIES_MAX, #currencies) do measures[#measures + 1] = currencies[n] end
  for n, measure in ipairs(measures) do
    leaders[n] = '"' .. measure .. '":' .. LATER.rankings.first(run, measure, LEADERS_MAX)
  end
  return LATER.sums.text(run, sums) .. ',"leaders":{' .. table.concat(leaders, ',') .. '}}'
end

-- Notifies watchers of what they do not know, if it is time.
function notices.send()
  local state = runs.state
  is_held_back = feed.epoch and feed.now >= state.notified_at and feed.now < state.notified_at + NOTIFY_EVERY_MS
  if is_held_back or not feed.epoch then return end
  local pieces = {}
  for _, period in ipairs(runs.PERIODS) do
    local run, name = runs.open[period], 'totals ' .. period
    local before, text = call('HGET', KEYS.announced, name), run and text_of(run)
    local piece = text and '"' .. period .. '":' .. text
    if piece and before ~= '{"totals":{' .. piece .. '}}' then
      pieces[#pieces + 1], announced[name] = piece, '{"totals":{' .. piece .. '}}'
    elseif before and not piece then
      pieces[#pieces + 1], forgotten[name] = '"' .. period .. '":null', true
    end
  end
  if #pieces > 0 then
    feed.next_seq()
    feed.record('totals', ',"totals":{' .. table.concat(pieces, ',') .. '}')
    state.notified_at, runs.is_changed = feed.now, true
  end
  for _, goal in ipairs(state.goals) do
    local name, value = 'goal ' .. goal.goal, LATER.sums.of_goal(goal)
    local is_known = announced[name] or call('HGET', KEYS.announced, name) == '{"goal":' .. runs.goal_text(goal, value) .. '}'
    if not is_known then notices.of_goal(goal, value) end
  end
end

-- Whether a node looks at the feed by then, or a quarter of a second later. One that looks for the first entry comes by this, too.
local function is_looked_at(by)
  local first, looked_at = tonumber(call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2]), tonumber(ARGV.looked_at)
  return first and first <= by or looked_at and feed.now < looked_at and looked_at <= by + 250
end

-- The clock strikes at this time, or earlier where `is_latest`; without a time never. The refusal, if no node would look at the feed
-- by then.
local function set_alarm(at, is_latest)
  if next(announced) or next(forgotten) then call('HLEN', KEYS.announced) end -- checks its type
  was_alarm_at = tonumber(call('ZSCORE', KEYS.due, CLOCK) or nil)
  alarm_at = is_latest and was_alarm_at and was_alarm_at <= at and was_alarm_at or at
  if alarm_at and alarm_at ~= was_alarm_at and not is_looked_at(alarm_at) then
    return { '', 'r', int(math.max(alarm_at, feed.now + 200)) }
  end
end

-- Something was counted: watchers are notified soon, at this time at the earliest.
function notices.refusal(at)
  return set_alarm(math.max(at, runs.state.notified_at + NOTIFY_EVERY_MS), true)
end

-- The runs are as they are to be: the clock strikes when the first of them ends, or earlier where there is more to do or to say.
function notices.refusal_of_turn(has_more)
  local at = has_more and feed.now + NOTIFY_EVERY_MS or nil
  local function consider(time)
    if time and (not at or time < at) then at = time end
  end
  if is_held_back then consider(runs.state.notified_at + NOTIFY_EVERY_MS) end
  for _, run in pairs(runs.open) do consider(run['until']) end
  return set_alarm(at)
end

feed.commits[#feed.commits + 1] = function()
  local text = runs.is_changed and runs.text()
  if text then
    call('SET', KEYS.totals, text)
  elseif text == nil then
    call('UNLINK', KEYS.totals, KEYS.sums, KEYS.people, KEYS.unranked, KEYS.parts, KEYS.announced)
  end
  for name in pairs(forgotten) do call('HDEL', KEYS.announced, name) end
  for name, text in pairs(announced) do call('HSET', KEYS.announced, name, text) end
  if alarm_at and alarm_at ~= was_alarm_at then call('ZADD', KEYS.due, int(alarm_at), CLOCK) end
  if was_alarm_at and not alarm_at then call('ZREM', KEYS.due, CLOCK) end
end

return notices
