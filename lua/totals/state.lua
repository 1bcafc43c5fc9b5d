-- state: what a feed counts, as it is stored; Rust puts this text behind feed_sums' in front of feed_tally.
-- The same rules as the domain's `tally`.
--
-- A run is one run of a period: a day, a session. A span is a time in which the same runs were open; what a gift
-- counted names the span (totals/count), and a gifter's scores are kept by span: so a gift is added in one place, not in
-- one for each period. What a gifter gave in a run is the sum over its spans.
--
--   sums  STRING, lines:
--     LAST_ID ORDER SWEEP TOLD SPAN SCAN: the last number of a run, a span or a ranking; how often something was counted;
--       where the search for gifters that are kept for nothing stands, "-" when there are none; when watchers were told
--       last; the present span; where the search for who belongs into rankings stands, "-" when none is filled
--     the rules: PERIODS ZONE POINTS
--     SINCE ID: the session, its id as JSON; or "-"
--     o|e PERIOD ID SINCE UNTIL GIFTS UNITS POINTS GIFTERS, and " CURRENCY=SUM" for each: a run that is open, or ended
--     m FROM TO RUN.RUN: of which runs the spans of these numbers are
--     l RUN MEASURE w|p LOW RANKING, and a tab and "SCORE ORDER AT USER" for each of its first: see totals/ranks
--     d ID: a ranking that is not kept any more, but whose places are still there
--     g GOAL PERIOD MEASURE TARGET 0 REACHED|- TITLE
--     s, and " PERIOD" for each that watchers do not know
--   MEASURE: p(oints), u(nits) or "$CURRENCY".
--   gifters  see totals/gifters

local COUNT, TALLY, PARTS, LEFT, TOLD, SUMS, GIFTERS = KEYS.count, KEYS.tally, KEYS.parts, KEYS.left, KEYS.told, KEYS.sums, KEYS.gifters

local s = { last = now, order = 0, sweep = '-', rules = 'off UTC off', session = '-', told = 0, span = 0, scan = '-' }
-- Runs by period; runs by number; spans in order; lists of leaders by run and measure; numbers of rankings to clean up.
local open, ended, runs, spans, tops, dead, goals, stale = {}, {}, {}, {}, {}, {}, {}, {}
-- Lists of leaders as they are stored, in their order: where a list's line begins and its entries do and end. Most
-- stay as they are, and texts that nobody needs are not made: each byte of a text costs when it is made.
local listed = {}
local stored = strings[14]
local counts_any, changed = stored ~= false, false

local function new_run(period, since, til_)
  s.last = s.last + 1
  local run = {
    period = period, id = s.last, since = since, til = til_, gifts = 0, units = 0, points = 0, gifters = 0,
    values = {}, count = 0,
  }
  runs[run.id], tops[run.id] = run, {}
  return run
end

local function new_span(from, to, ids)
  local span = { from = from, to = to, ids = ids, has = {}, bars = {}, best = {} }
  for _, id in ipairs(ids) do span.has[id] = true end
  spans[#spans + 1] = span
  return span
end

-- The list of who leads a run by a measure; made when it is not there. One that begins with the run, or with the first
-- score by this measure, is whole; one of a measure that scores have had before is not.
local function top_of(run, code, is_late)
  local top = tops[run.id][code]
  if not top then
    top = { run = run.id, code = code, whole = not is_late, low = 0, list = {} }
    tops[run.id][code] = top
  end
  return top
end

do
  local function read_run(line)
    local period, id, since, til_, gifts, units, points, gifters, values =
      match(line, '^. (%a+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+)(.*)$')
    local run = {
      period = period, id = id + 0, since = since + 0, til = til_ + 0, gifts = gifts + 0, units = sum_of(units),
      points = sum_of(points), gifters = gifters + 0, values = {}, count = 0,
    }
    for currency, sum in string.gmatch(values, ' (%a+)=(%S+)') do
      run.values[currency], run.count = sum_of(sum), run.count + 1
    end
    return run
  end

  local READ = {
    o = function(line)
      local run = read_run(line)
      runs[run.id], tops[run.id], open[run.period] = run, {}, run
    end,
    e = function(line)
      local run = read_run(line)
      runs[run.id], tops[run.id], ended[run.period] = run, {}, run
    end,
    m = function(line)
      local from, to, text = match(line, '^m (%d+) (%d+) (%S+)$')
      local ids = {}
      for id in string.gmatch(text, '%d+') do ids[#ids + 1] = id + 0 end
      new_span(from + 0, to + 0, ids)
    end,
    d = function(line) dead[#dead + 1] = match(line, '%d+') + 0 end,
    g = function(line)
      local name, period, code, target, reached, title = match(line, '^g (%S+) (%a+) (%S+) (%d+) %d+ (%S+) (.*)$')
      goals[name] = { period = period, code = code, target = target + 0, reached = reached, title = title }
    end,
    s = function(line)
      for period in string.gmatch(line, ' (%a+)') do stale[period] = true end
    end,
  }

  local function read_list(text, at, til_)
    local run, code, kind, low, ranking, from = match(text, '^l (%d+) (%S+) (.) (%d+) (%S+)()', at)
    local top = { run = run + 0, code = code, line = at, from = from, til = til_, was_low = low, was_ranking = ranking }
    top.whole, top.low, top.was_whole = kind == 'w', low + 0, kind == 'w'
    local id, state, asked = match(ranking, '^(%d+):(.):(%d+)$')
    if id then top.ranking = { id = id + 0, state = state, asked = asked + 0 } end
    tops[top.run][code], listed[#listed + 1] = top, top
  end

  -- Reads lines of a text from this place on.
  local function read_lines(text, at)
    while at <= #text do
      local til_ = (string.find(text, '\n', at, true) or #text + 1) - 1
      local kind = string.byte(text, at)
      if kind == 108 then
        read_list(text, at, til_)
      elseif til_ >= at then
        READ[string.char(kind)](string.sub(text, at, til_))
      end
      at = til_ + 2
    end
  end

  if stored then
    local last, order, sweep, told, span, scan, rules, session, rest =
      match(stored, '^(%d+) (%d+) (%S+) (%d+) (%d+) (%S+)\n([^\n]*)\n([^\n]*)\n()')
    if not last then return redis.error_reply('DAMAGED what a feed counts') end
    s = { last = last + 0, order = order + 0, sweep = sweep, told = told + 0, span = span + 0, scan = scan, rules = rules, session = session }
    read_lines(stored, rest)
  end
end

-- The span of this number, or nothing when none of its runs is kept.
local span_memo = {}
local function span_of(id)
  local span = span_memo[id]
  if span == nil then
    span = false
    for at = #spans, 1, -1 do
      if spans[at].from <= id and id <= spans[at].to then
        span = spans[at]
        break
      end
    end
    span_memo[id] = span
  end
  return span
end

-- A run is not kept any more.
local function let_go(run)
  if not run then return end
  for _, top in pairs(tops[run.id]) do
    if top.ranking then dead[#dead + 1] = top.ranking.id end
  end
  runs[run.id], tops[run.id], s.sweep, changed = nil, nil, '0', true
end

-- Spans again, once other runs are kept or open: those of no run go, neighbours of the same runs become one, and a new
-- one begins when other runs are open than were.
local function settle_spans()
  local kept, before = {}, nil
  for _, span in ipairs(spans) do
    local ids = {}
    for _, id in ipairs(span.ids) do
      if runs[id] then ids[#ids + 1] = id end
    end
    local text = concat(ids, '.')
    if #ids > 0 and before and before.text == text then
      before.to = span.to
    elseif #ids > 0 then
      before = { from = span.from, to = span.to, ids = ids, text = text }
      kept[#kept + 1] = before
    else
      before = nil
    end
  end
  local ids = {}
  for _, run in pairs(open) do ids[#ids + 1] = run.id end
  table.sort(ids)
  local text = concat(ids, '.')
  local is = kept[#kept]
  if #ids > 0 and not (is and is.text == text and is.from <= s.span and s.span <= is.to) then
    s.last = s.last + 1
    s.span = s.last
    kept[#kept + 1] = { from = s.span, to = s.span, ids = ids }
  end
  spans, span_memo = {}, {}
  for _, span in ipairs(kept) do new_span(span.from, span.to, span.ids) end
  changed = true
end

local function sum_by(run, code)
  if not run then return 0 end
  if code == 'p' then return shown(run.points) end
  if code == 'u' then return shown(run.units) end
  return shown(run.values[string.sub(code, 2)] or 0)
end

local function begin_goals(period)
  for _, goal in pairs(goals) do
    if goal.period == period and sum_by(open[period], goal.code) < goal.target then goal.reached = '-' end
  end
  stale[period], changed = true, true
end

-- What `sums` is to hold. `spelled` says how a list of leaders is written, and whether it is as it was stored.
local function sums_text(spelled)
  local lines = {
    int(s.last) .. ' ' .. int(s.order) .. ' ' .. s.sweep .. ' ' .. int(s.told) .. ' ' .. int(s.span) .. ' ' .. s.scan,
    s.rules, s.session,
  }
  for kind, them in pairs({ o = open, e = ended }) do
    for _, run in pairs(them) do
      local words = {}
      for currency, sum in pairs(run.values) do words[#words + 1] = ' ' .. currency .. '=' .. sum_text(sum) end
      lines[#lines + 1] = kind .. ' ' .. run.period .. ' ' .. int(run.id) .. ' ' .. int(run.since) .. ' ' .. int(run.til)
        .. ' ' .. int(run.gifts) .. ' ' .. sum_text(run.units) .. ' ' .. sum_text(run.points) .. ' ' .. int(run.gifters)
        .. concat(words)
    end
  end
  for _, span in ipairs(spans) do
    local ids = {}
    for at, id in ipairs(span.ids) do ids[at] = int(id) end
    lines[#lines + 1] = 'm ' .. int(span.from) .. ' ' .. int(span.to) .. ' ' .. concat(ids, '.')
  end
  -- Those that are as they were stored go back in as few pieces as may be.
  local from, til_ = 0, -2
  local function add_stored()
    if from > 0 then lines[#lines + 1] = string.sub(stored, from, til_) end
    from, til_ = 0, -2
  end
  for _, top in ipairs(listed) do
    if tops[top.run] and tops[top.run][top.code] == top then
      if not spelled.is_same(top) then
        lines[#lines + 1] = spelled.line(top)
      else
        if top.line ~= til_ + 2 then
          add_stored()
          from = top.line
        end
        til_ = top.til
      end
    end
  end
  add_stored()
  for _, them in pairs(tops) do
    for _, top in pairs(them) do
      if not top.line then lines[#lines + 1] = spelled.line(top) end
    end
  end
  for _, id in ipairs(dead) do lines[#lines + 1] = 'd ' .. int(id) end
  for name, goal in pairs(goals) do
    lines[#lines + 1] = 'g ' .. name .. ' ' .. goal.period .. ' ' .. goal.code .. ' ' .. int(goal.target) .. ' 0 '
      .. goal.reached .. ' ' .. goal.title
  end
  local words = {}
  for period in pairs(stale) do words[#words + 1] = ' ' .. period end
  lines[#lines + 1] = 's' .. concat(words)
  return concat(lines, '\n') .. '\n'
end
