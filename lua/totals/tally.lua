-- tally: adds up what came, settles which periods are open, tells watchers, and reads or changes what is counted.
-- Rust puts totals/state, which says how all of it is stored, totals/gifters, totals/ranks and totals/fold in
-- front. The same rules as the domain's `tally`.
--
--   told  HASH, "t:PERIOD" or "g:GOAL" -> what watchers were told, as a change of kind totals or goal has it
--
-- KEYS list hist meta policy due later ledger reports readers count tally parts left told sums gifters ranks
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at saw rules bounds action name back measure limit user goal
--     saw: the policy's text that the rules come from
--     rules: PERIODS ZONE POINTS
--     bounds: "PERIOD SINCE UNTIL;" of day, week and month at `at`
--     action: tick, totals, leaders, session, goals, goal or ungoal
--     name: of the period, the goal, or the session as JSON
--     back: "1" for the run that ended last
--     limit: of leaders, or of goals
--     user: whose rank is asked, or ""
--     goal: PERIOD MEASURE TARGET 0 - TITLE
-- USES clock policies list feed ledger
-- LATER doubt settle row rows room stored
-- DATA writes, always
-- RETURNS where the feed stands, when the due queue has something next or "", then of totals and leaders the periods or lists as
--   announcements have them; of a session "n" or "s" and its line; of goals their lines; of a goal "n" (new), "c"
--   (changed), "f" (full) or "x" (not counted) and its line; of ungoal "1" or "0". Or only "m" (call again)
-- REFUSES with "", "again", the time: the policy or the calendar is another by now. See also ledger/writer, drops/stock

local ACTION, NAME = ARGV.action, ARGV.name
local CLOCK = format('%016d ', 0) .. 'ttotals'
local TELL_EVERY, SLACK_OF_CLOCK = 600, 3600000
local KINDS = { 'all', 'session', 'day', 'week', 'month' }

if feed.refusal then return feed.refusal end
if ARGV.saw ~= (STRINGS.policy or '') then return { '', 'again', time } end
local bounds = {}
for period, since, til_ in string.gmatch(ARGV.bounds, '(%a+) (%d+) (%d+);') do
  bounds[period] = { since = since + 0, til = til_ + 0 }
  if now < since + 0 or now >= til_ + 0 then return { '', 'again', time } end
end
if feed.is_resized then LATER.settle.resize() end
-- Goals that gifts reached since they were added up last: see totals/count.
for name, at in string.gmatch(strings[12] or '', ' (%S+) %S+ %+(%d+)') do
  if goals[name] and goals[name].reached == '-' then goals[name].reached, changed = at, true end
end

fold()
local more = stays

-- The rules and the calendar, once nothing waits that counted by those before.
if not more then
  local kinds = match(ARGV.rules, '^(%S+)')
  local function wanted(text, period)
    return string.find(',' .. text .. ',', ',' .. period .. ',', 1, true) ~= nil
  end
  local moved, turned = match(s.rules, '^%S+ (%S+)') ~= match(ARGV.rules, '^%S+ (%S+)'), false
  for _, period in ipairs(KINDS) do
    local run, bound = open[period], bounds[period]
    if run and not wanted(kinds, period) then
      let_go(run)
      let_go(ended[period])
      open[period], ended[period], turned = nil, nil, true
      begin_goals(period)
    elseif not run and wanted(kinds, period) then
      open[period], turned = new_run(period, bound and bound.since or now, bound and bound.til or MAX_TIME), true
      begin_goals(period)
    elseif run and bound then
      if moved and run.since <= now then
        run.til, changed = bound.til, true
      elseif now >= run.til or now < run.since - SLACK_OF_CLOCK then
        local before = ended[period]
        if now < run.since and before and before.since <= now and now < before.til then
          open[period], ended[period] = before, run
        else
          let_go(before)
          open[period], ended[period] = new_run(period, bound.since, bound.til), run
        end
        turned = true
        begin_goals(period)
      end
    end
  end
  if turned then settle_spans() end
  if s.rules ~= ARGV.rules then s.rules, changed = ARGV.rules, true end
end

-- Whose ranking is asked for, and whether a list or a ranking can say.
local which = ACTION == 'leaders' and (ARGV.back == '1' and ended or open)[NAME]
local asked, found_at = which and tops[which.id][ARGV.measure], nil
-- A run sums the first 64 currencies that it meets. While it has fewer, nobody gave one that it does not have, so its ranking
-- is empty, and there is nothing to look for among all who gave.
local is_summed = #ARGV.measure == 1 or which and which.values[string.sub(ARGV.measure, 2)]
if which and not more and (asked or is_summed or which.count >= 64) then
  asked = asked or top_of(which, ARGV.measure, not is_summed)
  for n, it in ipairs(list_of(asked)) do
    if it.user == ARGV.user then found_at = n end
  end
  if not asked.whole and (ARGV.limit + 0 > #list_of(asked) or ARGV.user ~= '' and not found_at) then ask_ranking(asked) end
end
if search_gifters() then more = true end

-- A run's totals, and who leads it where that is to be told.
local function view(run, with_leaders)
  local values, lists, words = {}, {}, {}
  for currency, amount in pairs(run.values) do values[#values + 1] = { currency, shown(amount) } end
  table.sort(values, function(a, b) return a[2] > b[2] or a[2] == b[2] and a[1] < b[1] end)
  for at, value in ipairs(values) do words[at] = ' ' .. value[1] .. ':' .. int(value[2]) end
  if with_leaders then
    if match(s.rules, ' (%S+)$') ~= 'off' then lists[#lists + 1] = leaders.first_of(run, 'p', TOLD_FIRST) end
    lists[#lists + 1] = leaders.first_of(run, 'u', TOLD_FIRST)
    for at = 1, math.min(4, #values) do lists[#lists + 1] = leaders.first_of(run, '$' .. values[at][1], TOLD_FIRST) end
  end
  return run.period .. ' ' .. int(run.since) .. ' ' .. int(run.gifts) .. ' ' .. int(shown(run.units)) .. ' ' .. int(run.gifters)
    .. ' ' .. int(shown(run.points)) .. ' ' .. int(#lists) .. concat(words) .. '\n' .. concat(lists)
end

local function goal_line(name, goal)
  return name .. ' ' .. goal.period .. ' ' .. goal.code .. ' ' .. int(goal.target) .. ' ' .. int(sum_by(open[goal.period], goal.code)) .. ' '
    .. goal.reached .. ' ' .. goal.title .. '\n'
end

local told_set, told_gone = {}, {}

local function tell_goal(name)
  local line = goals[name] and goal_line(name, goals[name]) or name .. ' -\n'
  record('goal', line)
  if goals[name] then told_set['g:' .. name] = 'goal\n' .. line else told_gone[#told_gone + 1] = 'g:' .. name end
end

local function reach()
  for name, goal in pairs(goals) do
    if goal.reached == '-' and open[goal.period] and sum_by(open[goal.period], goal.code) >= goal.target then
      feed.begin()
      goal.reached, changed = time, true
      tell_goal(name)
      local text = goal_line(name, goal)
      ledger.append('goal', nil, '"goal":' .. cjson.encode(text))
    end
  end
end

-- What is asked, and changed: before it is told.
local answer = {}
if not more then
  if ACTION == 'session' then
    feed.begin()
    changed = true
    if match(s.session, '^%d+ (.*)$') == NAME then
      answer[1] = 's'
    else
      answer[1], s.session = 'n', time .. ' ' .. NAME
      local run = open.session
      if run then
        let_go(ended.session)
        ended.session, open.session = run, new_run('session', now, MAX_TIME)
        begin_goals('session')
        settle_spans()
      end
    end
    answer[2] = s.session
  elseif ACTION == 'goal' then
    local period, code, target, title = match(ARGV.goal, '^(%a+) (%S+) (%d+) 0 %- (.*)$')
    local known, count_goals = goals[NAME], 0
    for _ in pairs(goals) do count_goals = count_goals + 1 end
    if not open[period] then
      answer[1] = 'x'
    elseif not known and count_goals >= ARGV.limit + 0 then
      answer[1] = 'f'
    else
      feed.begin()
      local goal = { period = period, code = code, target = target + 0, title = title, reached = known and known.reached or '-' }
      if sum_by(open[period], code) < goal.target then goal.reached = '-' end
      goals[NAME], changed, answer[1] = goal, true, known and 'c' or 'n'
      reach()
      if not told_set['g:' .. NAME] then tell_goal(NAME) end
      answer[2] = goal_line(NAME, goal)
    end
  elseif ACTION == 'ungoal' then
    answer[1] = goals[NAME] and '1' or '0'
    if goals[NAME] then
      goals[NAME], changed = nil, true
      tell_goal(NAME)
    end
  end
end

-- Everything that can be refused, before anything is written.
local function counts_something()
  return next(open) or next(goals) or s.session ~= '-' or #dead > 0 or next(stale)
end
reach()
local busy = now >= s.told and now < s.told + TELL_EVERY
local waits = feed.epoch and (next(stale) or taken > 0)
local strikes
local function consider(at)
  if at and (not strikes or at < strikes) then strikes = at end
end
local will_tell = not more and feed.epoch and not busy
if waits or busy or will_tell and next(stale) then consider(math.max(s.told + TELL_EVERY, now + (will_tell and TELL_EVERY or 0))) end
if more or #dead > 0 or s.sweep ~= '-' then consider(now + TELL_EVERY) end
for _, run in pairs(open) do
  if bounds[run.period] then consider(run.til) end
end
local struck = tonumber(call('ZSCORE', KEYS.due, CLOCK) or nil)
if strikes and strikes ~= struck then
  local first = tonumber(call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
  local looked_at = tonumber(ARGV.looked_at)
  if not (first and first <= strikes or looked_at and now < looked_at and looked_at <= strikes + 250) then
    return { '', 'r', int(math.max(strikes, now + 200)) }
  end
end
local refused = ledger.refusal()
if refused then return refused end
for _, key in ipairs({ PARTS, TOLD, GIFTERS }) do call('HLEN', key) end
call('ZCARD', RANKS)

-- From here on it is written.
if taken > 0 then
  -- What stays begins with what it counts in.
  local keeps_head = stays and head
  call('LTRIM', TALLY, int(keeps_head and taken - 1 or taken), -1)
  if keeps_head then call('LSET', TALLY, '0', head) end
end
write_gifters()
if ACTION == 'totals' and not more then
  local them = ARGV.back == '1' and ended or open
  answer[1] = next(open) and 'o' or 'x'
  for _, period in ipairs(KINDS) do
    if them[period] then answer[#answer + 1] = view(them[period], false) end
  end
elseif ACTION == 'leaders' and not more then
  answer[1] = 'x'
  if which and not asked then
    answer = { 'o', int(which.since), ARGV.measure .. ' 0\n' }
  elseif which then
    local limit, ranking = ARGV.limit + 0, asked.ranking
    local is_listed = asked.whole or limit <= #list_of(asked)
    answer = { 'o', int(which.since), is_listed and leaders.first_of(which, ARGV.measure, limit) or leaders.ranked(asked, limit) }
    if found_at then
      answer[4], answer[5] = int(found_at), int(list_of(asked)[found_at].score)
    elseif ARGV.user ~= '' and not asked.whole then
      local score, order = score_of(read_gifter(call('HGET', GIFTERS, ARGV.user)), which.id, ARGV.measure)
      local member, prefix = place_of(ranking, score, order, ARGV.user), prefix_of(ranking)
      if score > 0 and call('ZSCORE', RANKS, member) then
        answer[4] = int(call('ZLEXCOUNT', RANKS, '[' .. prefix, '[' .. member))
        answer[5] = int(score)
      end
    end
  end
elseif ACTION == 'goals' and not more then
  for name, goal in pairs(goals) do answer[#answer + 1] = goal_line(name, goal) end
end

-- Tells the periods that watchers do not know.
local function tell_periods()
  local pieces, n = {}, 0
  for _, period in ipairs(KINDS) do
    if stale[period] and open[period] then
      local text = view(open[period], true)
      n, pieces[#pieces + 1], told_set['t:' .. period] = n + 1, text, 'totals\n' .. text
    elseif stale[period] and call('HGET', TOLD, 't:' .. period) then
      n, pieces[#pieces + 1] = n + 1, period .. ' -\n'
      told_gone[#told_gone + 1] = 't:' .. period
    end
  end
  if next(stale) then s.told, changed = now, true end
  stale = {}
  if n > 0 then
    record('totals', concat(pieces))
  end
end

if will_tell then
  tell_periods()
  for name, goal in pairs(goals) do
    local line = 'goal\n' .. goal_line(name, goal)
    if not told_set['g:' .. name] and call('HGET', TOLD, 'g:' .. name) ~= line then tell_goal(name) end
  end
end

feed.commit()
if #told_gone > 0 then call('HDEL', TOLD, unpack(told_gone)) end
for field, text in pairs(told_set) do call('HSET', TOLD, field, text) end

-- A part of what is kept for nothing goes: rankings that are over, gifters who gave in no run that is kept, parts of
-- rows that left the list.
if #dead > 0 then
  local prefix = format('%016d ', dead[1])
  local members = call('ZRANGEBYLEX', RANKS, '[' .. prefix, '(' .. format('%016d!', dead[1]), 'LIMIT', '0', '1000')
  if #members > 0 then call('ZREM', RANKS, unpack(members)) end
  if #members < 1000 then table.remove(dead, 1) end
  changed = true
end
if s.sweep ~= '-' and ACTION == 'tick' then
  local found = call('HSCAN', GIFTERS, s.sweep, 'COUNT', '200')
  s.sweep, changed = found[1] == '0' and '-' or found[1], true
  for at = 1, #found[2], 2 do
    if read_gifter(found[2][at + 1]).count == 0 then call('HDEL', GIFTERS, found[2][at]) end
  end
end
if ACTION == 'tick' and call('HLEN', PARTS) > list.count + 64 then
  local found, listed = call('HSCAN', PARTS, '0', 'COUNT', '1000')[2], {}
  for _, row in ipairs(LATER.rows.all()) do listed[LATER.rows.id_of(row)] = true end
  for at = 1, #found, 2 do
    if not listed[found[at]] then call('HDEL', PARTS, found[at]) end
  end
end

if not counts_something() then
  if counts_any or strings[9] then call('DEL', COUNT, TALLY, GIFTERS, RANKS, TOLD, SUMS, LEFT) end
elseif changed or not counts_any then
  local until_, from, keep, any = MAX_TIME, 0, now, false
  for _, run in pairs(open) do
    keep, any = math.max(keep, run.til), true
    if bounds[run.period] then until_, from = math.min(until_, run.til), math.max(from, run.since - SLACK_OF_CLOCK) end
  end
  -- What is missing to goals, for whoever takes the next gift. As long as some were not added up it stays as it is.
  local left = stays and strings[12]
  if not left then
    left = int(s.told) .. (stays and ' ~' or ' =')
    for name, goal in pairs(goals) do
      if goal.reached == '-' and open[goal.period] then
        left = left .. ' ' .. name .. ' ' .. goal.code .. ' ' .. int(goal.target - sum_by(open[goal.period], goal.code))
      end
    end
  end
  call('MSET', SUMS, sums_text(spelled), LEFT, left, COUNT, int(from) .. ' ' .. int(until_) .. ' ' .. int(keep) .. ' '
    .. (any and int(s.span) or '-') .. ' ' .. match(s.rules, ' (%S+)$'))
end
if strikes then
  if strikes ~= struck then call('ZADD', KEYS.due, int(strikes), CLOCK) end
elseif struck then
  call('ZREM', KEYS.due, CLOCK)
end
if more then return { feed.position() .. ledger.news, '', 'm' } end
local next_due = tonumber(call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
return { feed.position() .. ledger.news, next_due and int(next_due) or '', unpack(answer) }
