-- feed_tally: adds up what came, settles which periods are open, tells watchers, and reads or changes what is counted.
-- The same rules as the domain's `tally`.
--
-- What `count` holds behind its first line (see feed_count), a line each:
--   LAST_ID ORDER SWEEP: the last number of a run of a period; how often something was counted; where the search for
--     gifters that are kept for nothing stands, "-" when there are none
--   the rules: PERIODS ZONE POINTS
--   SINCE ID: the session, its id as JSON; or "-"
--   o|e PERIOD ID SINCE UNTIL GIFTS UNITS POINTS GIFTERS, and " CURRENCY=SUM" for each: a run that is open, or ended
--   d ID: a run that is over, whose ranks are still there
--   g GOAL PERIOD MEASURE TARGET 0 REACHED|- TITLE
--   s, and " PERIOD" for each that watchers do not know
-- MEASURE: p(oints), u(nits) or "$CURRENCY".
--   told     HASH, "t:PERIOD" or "g:GOAL" -> what watchers were told, as a change of kind totals or goal has it
--   gifters  HASH, USER -> PERSON, newline, and for each run "ID GIFTS", " MEASURE=SUM=ORDER=AT" for each score, newline
--   ranks    ZSET, every score 0: "ID MEASURE SCORE ORDER USER", ID and ORDER with 16 digits, SCORE as 2^53-1 less the
--            score, so that ranks are a range by lex: exact, and of equal scores who was first
--
-- KEYS 16:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 later
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 told
--   15 gifters
--   16 ranks
-- ARGV 23:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 hooks version: that of the webhooks of all feeds
--   11 registered: webhooks that rest and are in the index of jobs
--   12 ledger bounds
--   13 looked at: from then on
--   14 saw: the policy's text that the rules come from
--   15 rules: PERIODS ZONE POINTS
--   16 bounds: "PERIOD SINCE UNTIL;" of day, week and month at `at`
--   17 action: tick, totals, leaders, session, goals, goal or ungoal
--   18 name: of the period, the goal, or the session as JSON
--   19 back: "1" for the run that ended last
--   20 measure
--   21 limit: of leaders, or of goals
--   22 user: whose rank is asked, or ""
--   23 goal: PERIOD MEASURE TARGET 0 - TITLE
-- RETURNS the header, when the due queue has something next or "", then of totals and leaders the periods or lists as
--   announcements have them; of a session "n" or "s" and its line; of goals their lines; of a goal "n" (new), "c"
--   (changed), "f" (full) or "x" (not counted) and its line; of ungoal "1" or "0". Or only "m" (call again)
-- REFUSES with "", "again", the time: the policy or the calendar is another by now. See also feed_ledger, feed_drops

local COUNT, TALLY, PARTS, TOLD, GIFTERS, RANKS = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local ACTION, NAME = ARGV[17], ARGV[18]
local CLOCK = format('%016d ', 0) .. 'ttotals'
local TELL_EVERY, SLACK_OF_CLOCK, MAX_RANKED, MAX_CURRENCIES, FOLD, LIMB = 600, 3600000, 100000, 64, 256, 9007199254740992
local KINDS = { 'all', 'session', 'day', 'week', 'month' }

if ARGV[14] ~= (overrides or '') then return { '', 'again', time } end
local bounds = {}
for period, since, til_ in string.gmatch(ARGV[16], '(%a+) (%d+) (%d+);') do
  bounds[period] = { since = since + 0, til = til_ + 0 }
  if now < since + 0 or now >= til_ + 0 then return { '', 'again', time } end
end
resize()

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

local function sum_sum(v, other, sign)
  local high, low = match(other, '^(%d+):(%d+)$')
  if not high then return sum_and(v, sign * other) end
  v = sum_and(v, sign * low)
  for _ = 1, high + 0 do v = sum_and(sum_and(v, sign * MAX_SAFE), sign) end
  return v
end

local function sum_text(v)
  return type(v) == 'string' and v or int(v)
end

local function sum_of(text)
  return match(text, ':') and text or text + 0
end

local function shown(v)
  return type(v) == 'string' and MAX_SAFE or v
end

local s = { last = now, order = 0, sweep = '-', rules = 'off UTC off', session = '-', told = 0 }
local open, ended, dead, goals, stale, runs = {}, {}, {}, {}, {}, {}
local counts_any, changed = strings[9] ~= false and strings[9] ~= nil, false

local function new_run(period, since, til_)
  s.last = s.last + 1
  local run = {
    period = period, id = s.last, since = since, til = til_, gifts = 0, units = 0, points = 0, gifters = 0,
    values = {}, count = 0,
  }
  runs[run.id] = run
  return run
end

if counts_any then
  local head, last, order, sweep, rules, session, rest =
    match(strings[9], '^([^\n]*)\n(%d+) (%d+) (%S+)\n([^\n]*)\n([^\n]*)\n(.*)$')
  if not head then return redis.error_reply('DAMAGED what a feed counts') end
  s.last, s.order, s.sweep, s.rules, s.session = last + 0, order + 0, sweep, rules, session
  s.told = tonumber(match(head, ' (%d+)$')) or 0
  for line in string.gmatch(rest, '[^\n]+') do
    local kind = string.sub(line, 1, 1)
    if kind == 'o' or kind == 'e' then
      local period, id, since, til_, gifts, units, points, gifters, values =
        match(line, '^. (%a+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+)(.*)$')
      local run = {
        period = period, id = id + 0, since = since + 0, til = til_ + 0, gifts = gifts + 0, units = sum_of(units),
        points = sum_of(points), gifters = gifters + 0, values = {}, count = 0,
      }
      for currency, sum in string.gmatch(values, ' (%a+)=(%S+)') do
        run.values[currency], run.count = sum_of(sum), run.count + 1
      end
      runs[run.id] = run
      if kind == 'o' then open[period] = run else ended[period] = run end
    elseif kind == 'd' then
      dead[#dead + 1] = match(line, '%d+') + 0
    elseif kind == 'g' then
      local name, period, code, target, reached, title = match(line, '^g (%S+) (%a+) (%S+) (%d+) %d+ (%S+) (.*)$')
      goals[name] = { period = period, code = code, target = target + 0, reached = reached, title = title }
    elseif kind == 's' then
      for period in string.gmatch(line, ' (%a+)') do stale[period] = true end
    end
  end
end

local function sum_by(run, code)
  if not run then return 0 end
  if code == 'p' then return shown(run.points) end
  if code == 'u' then return shown(run.units) end
  return shown(run.values[string.sub(code, 2)] or 0)
end

local function let_go(run)
  if run then
    runs[run.id] = nil
    dead[#dead + 1] = run.id
    s.sweep = '0'
  end
end

local function begin_goals(period)
  for _, goal in pairs(goals) do
    if goal.period == period and sum_by(open[period], goal.code) < goal.target then goal.reached = '-' end
  end
  stale[period], changed = true, true
end

-- Adds up what came: at most so many entries. True when there is more.
local touched, gifters = {}, {}
local taken = 0

local function gifter(user, text)
  local it = { given = {}, person = '' }
  if text then
    local person, rest = match(text, '^([^\n]*)\n(.*)$')
    it.person = person
    for line in string.gmatch(rest, '[^\n]+') do
      local id, count, scores = match(line, '^(%d+) (%d+)(.*)$')
      id = id + 0
      if runs[id] then
        local given = { gifts = count + 0, scores = {} }
        for code, sum, order, at in string.gmatch(scores, ' (%S-)=([%d:]+)=(%d+)=(%d+)') do
          given.scores[code] = { sum = sum_of(sum), order = order + 0, at = at, was = shown(sum_of(sum)), was_order = order + 0 }
        end
        it.given[id] = given
      end
    end
  end
  gifters[user] = it
end

local function move(run, it, sign, counts, moves, flag, at)
  local given = it.given[run.id]
  if not given then
    given = { gifts = 0, scores = {} }
    it.given[run.id] = given
  end
  local had = given.gifts > 0
  given.gifts = math.max(given.gifts + sign * counts, 0)
  run.gifters = run.gifters + (given.gifts > 0 and 1 or 0) - (had and 1 or 0)
  if flag ~= 'r' then return end
  for code, by in pairs(moves) do
    local score = given.scores[code]
    if not score then
      score = { sum = 0, order = 0, at = '0', was = 0, was_order = 0 }
      given.scores[code] = score
    end
    local before = shown(score.sum)
    score.sum = sum_sum(score.sum, by, sign)
    if shown(score.sum) ~= before then score.order, score.at = s.order, at end
  end
end

local function fold()
  local entries_now = call('LRANGE', TALLY, '0', int(FOLD - 1))
  taken = #entries_now
  if taken == 0 then return false end
  changed = true
  local users, seen = {}, {}
  local parsed = {}
  for at, text in ipairs(entries_now) do
    local sign, ids, counts, units, points, money, flag, when, person, user =
      match(text, '^(.) (%S+) (%d+) (%S+) (%S+) (%S+) (.) (%d+)\n([^\n]*)\n(.*)$')
    parsed[at] = { sign == '+' and 1 or -1, ids, counts + 0, units, points, money, flag, when, person, user }
    if not seen[user] then
      seen[user] = true
      users[#users + 1] = user
    end
  end
  for at, text in ipairs(call('HMGET', GIFTERS, unpack(users))) do gifter(users[at], text) end
  for _, e in ipairs(parsed) do
    local sign, ids, counts, units, points, money, flag, when, person, user = unpack(e)
    local amount, currency = match(money, '^(.*):(%a+)$')
    s.order = s.order + 1
    local it = gifters[user]
    if sign > 0 and flag == 'r' then it.person = person end
    local moves = {}
    if units ~= '0' then moves.u = units end
    if points ~= '0' then moves.p = points end
    if amount and amount ~= '0' then moves['$' .. currency] = amount end
    for id in string.gmatch(ids, '%d+') do
      local run = runs[id + 0]
      if run then
        run.gifts = math.max(run.gifts + sign * counts, 0)
        run.units = sum_sum(run.units, units, sign)
        run.points = sum_sum(run.points, points, sign)
        if amount then
          if not run.values[currency] and sign > 0 and run.count < MAX_CURRENCIES then
            run.values[currency], run.count = 0, run.count + 1
          end
          if run.values[currency] then run.values[currency] = sum_sum(run.values[currency], amount, sign) end
        end
        move(run, it, sign, counts, moves, flag, when)
        if open[run.period] == run then stale[run.period] = true end
      end
    end
  end
  return taken == FOLD
end

local more = fold()

-- The rules and the calendar, once nothing waits that counted by those before.
if not more then
  local kinds = match(ARGV[15], '^(%S+)')
  local function wanted(text, period)
    return string.find(',' .. text .. ',', ',' .. period .. ',', 1, true) ~= nil
  end
  local moved = match(s.rules, '^%S+ (%S+)') ~= match(ARGV[15], '^%S+ (%S+)')
  for _, period in ipairs(KINDS) do
    local run, bound = open[period], bounds[period]
    if run and not wanted(kinds, period) then
      let_go(run)
      let_go(ended[period])
      open[period], ended[period] = nil, nil
      begin_goals(period)
    elseif not run and wanted(kinds, period) then
      open[period] = new_run(period, bound and bound.since or now, bound and bound.til or MAX_TIME)
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
        begin_goals(period)
      end
    end
  end
  if s.rules ~= ARGV[15] then s.rules, changed = ARGV[15], true end
end

local function view_values(run)
  local values = {}
  for currency, sum in pairs(run.values) do values[#values + 1] = { currency, shown(sum) } end
  table.sort(values, function(a, b) return a[2] > b[2] or a[2] == b[2] and a[1] < b[1] end)
  return values
end

local function prefix_of(id, code)
  return format('%016d ', id) .. code .. ' '
end

local function member_of(id, code, score, order, user)
  return prefix_of(id, code) .. format('%016d %016d ', MAX_SAFE - score, order) .. user
end

-- Writes who gave, and their places; before anything is read of them.
local function settle_ranks()
  local zrem, zadd, hset, hdel, full = {}, {}, {}, {}, {}
  for user, it in pairs(gifters) do
    local lines = {}
    for id, given in pairs(it.given) do
      local words = {}
      for code, score in pairs(given.scores) do
        local is = shown(score.sum)
        if is ~= score.was or score.order ~= score.was_order then
          if score.was > 0 then zrem[#zrem + 1] = member_of(id, code, score.was, score.was_order, user) end
          if is > 0 then
            zadd[#zadd + 1] = '0'
            zadd[#zadd + 1] = member_of(id, code, is, score.order, user)
            full[prefix_of(id, code)] = true
          end
        end
        if score.sum ~= 0 then
          words[#words + 1] = ' ' .. code .. '=' .. sum_text(score.sum) .. '=' .. int(score.order) .. '=' .. score.at
        end
      end
      if given.gifts > 0 or #words > 0 then lines[#lines + 1] = int(id) .. ' ' .. int(given.gifts) .. concat(words) .. '\n' end
    end
    if #lines > 0 then
      hset[#hset + 1] = user
      hset[#hset + 1] = it.person .. '\n' .. concat(lines)
    else
      hdel[#hdel + 1] = user
    end
  end
  local function in_parts(command, key, all)
    for from = 1, #all, 1000 do call(command, key, unpack(all, from, math.min(from + 999, #all))) end
  end
  in_parts('ZREM', RANKS, zrem)
  in_parts('ZADD', RANKS, zadd)
  in_parts('HDEL', GIFTERS, hdel)
  in_parts('HSET', GIFTERS, hset)
  for prefix in pairs(full) do
    local over = call('ZLEXCOUNT', RANKS, '[' .. prefix, '(' .. prefix .. ':') - MAX_RANKED
    if over > 0 then
      in_parts('ZREM', RANKS, call('ZRANGE', RANKS, '(' .. prefix .. ':', '[' .. prefix, 'BYLEX', 'REV', 'LIMIT', '0', int(over)))
    end
  end
  if taken > 0 then call('LTRIM', TALLY, int(taken), -1) end
end

-- "MEASURE COUNT", newline, and "SCORE AT PERSON", newline, for each.
local function leaders(run, code, limit)
  local prefix = prefix_of(run.id, code)
  local members = call('ZRANGEBYLEX', RANKS, '[' .. prefix, '(' .. prefix .. ':', 'LIMIT', '0', int(limit))
  local users, lines = {}, {}
  for at, member in ipairs(members) do users[at] = string.sub(member, #prefix + 35) end
  if #users > 0 then
    for at, text in ipairs(call('HMGET', GIFTERS, unpack(users))) do
      local score = MAX_SAFE - string.sub(members[at], #prefix + 1, #prefix + 16)
      local line = text and match('\n' .. text, '\n' .. int(run.id) .. ' %d+([^\n]*)')
      local plain = string.gsub(code, '%$', '%%$')
      local when = line and match(line, ' ' .. plain .. '=[%d:]+=%d+=(%d+)')
      if when then lines[#lines + 1] = int(score) .. ' ' .. when .. ' ' .. match(text, '^[^\n]*') .. '\n' end
    end
  end
  return code .. ' ' .. int(#lines) .. '\n' .. concat(lines)
end

local function view(run, with_leaders)
  local values, lists = view_values(run), {}
  local words = {}
  for at, value in ipairs(values) do words[at] = ' ' .. value[1] .. ':' .. int(value[2]) end
  if with_leaders then
    if match(s.rules, ' (%S+)$') ~= 'off' then lists[#lists + 1] = leaders(run, 'p', 10) end
    lists[#lists + 1] = leaders(run, 'u', 10)
    for at = 1, math.min(4, #values) do lists[#lists + 1] = leaders(run, '$' .. values[at][1], 10) end
  end
  return run.period .. ' ' .. int(run.since) .. ' ' .. int(run.gifts) .. ' ' .. int(shown(run.units)) .. ' ' .. int(run.gifters)
    .. ' ' .. int(shown(run.points)) .. ' ' .. int(#lists) .. concat(words) .. '\n' .. concat(lists)
end

local function goal_line(name, goal)
  return name .. ' ' .. goal.period .. ' ' .. goal.code .. ' ' .. int(goal.target) .. ' ' .. int(sum_by(open[goal.period], goal.code)) .. ' '
    .. goal.reached .. ' ' .. goal.title .. '\n'
end

local told_set, told_gone = {}, {}

local function begin()
  if not epoch then
    epoch, born = CANDIDATE, CANDIDATE
  end
end

local function tell_goal(name)
  local line = goals[name] and goal_line(name, goals[name]) or name .. ' -\n'
  record('goal', line)
  if goals[name] then told_set['g:' .. name] = 'goal\n' .. line else told_gone[#told_gone + 1] = 'g:' .. name end
end

local function reach()
  for name, goal in pairs(goals) do
    if goal.reached == '-' and open[goal.period] and sum_by(open[goal.period], goal.code) >= goal.target then
      begin()
      goal.reached, changed = time, true
      tell_goal(name)
      fresh[#fresh + 1] = 'g ' .. seq_text .. ' - ' .. time .. '\n' .. name .. ' 0 - -\n0\n\n\n\n0\n{}\n'
        .. goal_line(name, goal) .. '\n \n'
    end
  end
end

-- What is asked, and changed: before it is told.
local answer = {}
if not more then
  if ACTION == 'session' then
    begin()
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
      end
    end
    answer[2] = s.session
  elseif ACTION == 'goal' then
    local period, code, target, title = match(ARGV[23], '^(%a+) (%S+) (%d+) 0 %- (.*)$')
    local known, count_goals = goals[NAME], 0
    for _ in pairs(goals) do count_goals = count_goals + 1 end
    if not open[period] then
      answer[1] = 'x'
    elseif not known and count_goals >= ARGV[21] + 0 then
      answer[1] = 'f'
    else
      begin()
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
  return changed or next(open) or next(goals) or s.session ~= '-' or #dead > 0 or next(stale)
end
reach()
local busy = now >= s.told and now < s.told + TELL_EVERY
local waits = epoch and (next(stale) or taken > 0)
local strikes
local function consider(at)
  if at and (not strikes or at < strikes) then strikes = at end
end
local will_tell = not more and epoch and not busy
if waits or busy or will_tell and next(stale) then consider(math.max(s.told + TELL_EVERY, now + (will_tell and TELL_EVERY or 0))) end
if more or #dead > 0 or s.sweep ~= '-' then consider(now + TELL_EVERY) end
for _, run in pairs(open) do
  if bounds[run.period] then consider(run.til) end
end
local struck = tonumber(call('ZSCORE', KEYS[6], CLOCK) or nil)
if strikes and strikes ~= struck then
  local first = tonumber(call('ZRANGE', KEYS[6], '0', '0', 'WITHSCORES')[2])
  local looked_at = tonumber(ARGV[13])
  if not (first and first <= strikes or looked_at and now < looked_at and looked_at <= strikes + 250) then
    return { '', 'r', int(math.max(strikes, now + 200)) }
  end
end
local refused = ledger_refuses()
if refused then return refused end
for _, key in ipairs({ PARTS, TOLD }) do call('HLEN', key) end
call('ZCARD', RANKS)

-- From here on it is written.
settle_ranks()
if ACTION == 'totals' and not more then
  local which = ARGV[19] == '1' and ended or open
  answer[1] = next(open) and 'o' or 'x'
  for _, period in ipairs(KINDS) do
    if which[period] then answer[#answer + 1] = view(which[period], false) end
  end
elseif ACTION == 'leaders' and not more then
  local run = (ARGV[19] == '1' and ended or open)[NAME]
  answer[1] = 'x'
  if run then
    answer = { 'o', int(run.since), leaders(run, ARGV[20], ARGV[21] + 0) }
    local text = ARGV[22] ~= '' and call('HGET', GIFTERS, ARGV[22])
    if text then
      gifter(ARGV[22], text)
      local score = gifters[ARGV[22]].given[run.id]
      score = score and score.scores[ARGV[20]]
      local prefix = prefix_of(run.id, ARGV[20])
      local member = score and member_of(run.id, ARGV[20], shown(score.sum), score.order, ARGV[22])
      if member and call('ZSCORE', RANKS, member) then
        answer[4] = int(call('ZLEXCOUNT', RANKS, '[' .. prefix, '[' .. member))
        answer[5] = int(shown(score.sum))
      end
    end
  end
elseif ACTION == 'goals' and not more then
  for name, goal in pairs(goals) do answer[#answer + 1] = goal_line(name, goal) end
end

if will_tell then
  local periods, n = {}, 0
  for _, period in ipairs(KINDS) do
    if stale[period] then
      if open[period] then
        periods[#periods + 1], n = view(open[period], true), n + 1
        told_set['t:' .. period] = 'totals\n' .. periods[#periods]
      elseif call('HGET', TOLD, 't:' .. period) then
        periods[#periods + 1], n = period .. ' -\n', n + 1
        told_gone[#told_gone + 1] = 't:' .. period
      end
    end
  end
  if next(stale) then s.told, changed = now, true end
  stale = {}
  if n > 0 then record('totals ' .. int(n), concat(periods)) end
  for name, goal in pairs(goals) do
    local line = 'goal\n' .. goal_line(name, goal)
    if not told_set['g:' .. name] and call('HGET', TOLD, 'g:' .. name) ~= line then tell_goal(name) end
  end
end

commit('=')
ledger_commit()
if #told_gone > 0 then call('HDEL', TOLD, unpack(told_gone)) end
for field, text in pairs(told_set) do call('HSET', TOLD, field, text) end

-- A part of what is kept for nothing goes: ranks of runs that are over, gifters who gave in none that is kept, parts
-- of rows that left the list.
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
    local keeps = false
    for id in string.gmatch(found[2][at + 1], '\n(%d+) ') do keeps = keeps or runs[id + 0] end
    if not keeps then call('HDEL', GIFTERS, found[2][at]) end
  end
end
if ACTION == 'tick' and call('HLEN', PARTS) > #entries + 64 then
  local found, listed = call('HSCAN', PARTS, '0', 'COUNT', '1000')[2], {}
  for _, entry in ipairs(entries) do listed[match(entry, '^%S+')] = true end
  for at = 1, #found, 2 do
    local keep = match(found[at + 1], '^x (%d+)$')
    if keep and keep + 0 < now or not keep and not listed[found[at]] then call('HDEL', PARTS, found[at]) end
  end
end

if not counts_something() then
  if counts_any then call('DEL', COUNT, TALLY, GIFTERS, RANKS, TOLD) end
elseif changed or not counts_any then
  local until_, from, keep, ids, lines = MAX_TIME, 0, now, {}, {}
  for _, period in ipairs(KINDS) do
    local run = open[period]
    if run then
      ids[#ids + 1] = int(run.id)
      keep = math.max(keep, run.til)
      if bounds[period] then
        until_, from = math.min(until_, run.til), math.max(from, run.since - SLACK_OF_CLOCK)
      end
    end
  end
  local function put(kind, run)
    local words = {}
    for currency, sum in pairs(run.values) do words[#words + 1] = ' ' .. currency .. '=' .. sum_text(sum) end
    lines[#lines + 1] = kind .. ' ' .. run.period .. ' ' .. int(run.id) .. ' ' .. int(run.since) .. ' ' .. int(run.til) .. ' '
      .. int(run.gifts) .. ' ' .. sum_text(run.units) .. ' ' .. sum_text(run.points) .. ' ' .. int(run.gifters) .. concat(words) .. '\n'
  end
  for _, period in ipairs(KINDS) do
    if open[period] then put('o', open[period]) end
    if ended[period] then put('e', ended[period]) end
  end
  for _, id in ipairs(dead) do lines[#lines + 1] = 'd ' .. int(id) .. '\n' end
  for name, goal in pairs(goals) do
    lines[#lines + 1] = 'g ' .. name .. ' ' .. goal.period .. ' ' .. goal.code .. ' ' .. int(goal.target) .. ' 0 ' .. goal.reached .. ' '
      .. goal.title .. '\n'
  end
  lines[#lines + 1] = 's'
  for period in pairs(stale) do lines[#lines + 1] = ' ' .. period end
  local instances = #ids > 0 and concat(ids, '.') or '-'
  local head = int(from > 0 and from or 0) .. ' ' .. int(until_) .. ' ' .. int(keep) .. ' ' .. instances .. ' ' .. match(s.rules, ' (%S+)$')
    .. ' ' .. int(s.told)
  call('SET', COUNT, head .. '\n' .. int(s.last) .. ' ' .. int(s.order) .. ' ' .. s.sweep .. '\n' .. s.rules .. '\n' .. s.session .. '\n'
    .. concat(lines) .. '\n')
end
if strikes then
  if strikes ~= struck then call('ZADD', KEYS[6], int(strikes), CLOCK) end
elseif struck then
  call('ZREM', KEYS[6], CLOCK)
end
if more then return { header() .. news, '', 'm' } end
local next_due = tonumber(call('ZRANGE', KEYS[6], '0', '0', 'WITHSCORES')[2])
return { header() .. news, next_due and int(next_due) or '', unpack(answer) }
