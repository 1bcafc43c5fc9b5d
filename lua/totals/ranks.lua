-- ranks: who leads; Rust puts this text behind feed_tally_gifters'.
--
-- Of each run and measure the first are kept in `sums` (a list): at most KEEP_FIRST of them, and everybody else has less
-- than the last of them, or came to it later; a whole list is of all who have a score. So a gift is compared with the
-- last score, and mostly nothing more is done. A list that lost too many by gifts that were taken back is filled again.
-- A ranking of all is only made when somebody asks for more than the list has, or to fill one, and kept up to date for
-- RANKING_KEPT since it was asked for.
--
--   ranks  ZSET, every score 0: "RANKING SCORE ORDER USER", RANKING and ORDER with 16 digits, SCORE as 2^53-1 less the
--          score, so that places are a range by lex: exact, and of equal scores who was first
--   RANKING in a list's line of sums: "-", or "ID:STATE:ASKED". STATE: w(aits to be filled), f (is being filled by the
--   search whose place SCAN is) or k(ept). ASKED: when it was asked for last.

local RANKS = KEYS.ranks
local KEEP_FIRST, TOLD_FIRST, MAX_RANKED, RANKING_KEPT, SEARCH = 16, 10, 100000, 600000, 500
local ranks_gone, ranks_new, ranks_full = {}, {}, {}

-- A user as an entry of a list has it: without what separates entries and lines.
local function escaped(user)
  if not string.find(user, '[%%\t\n]') then return user end
  return (string.gsub(user, '[%%\t\n]', function(c) return format('%%%02x', string.byte(c)) end))
end

local function unescaped(text)
  if not string.find(text, '%', 1, true) then return text end
  return (string.gsub(text, '%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end))
end

-- Functions about lists as they are stored and as they are told, in tables, since Lua has room for 200 locals.
-- `persons` is who is shown, by user, in use once gifters are written; `made` are texts of leaders.
local spelled, leaders = {}, { persons = {}, made = {} }

-- The entries of a list as they are going to be stored; once nothing moves any more.
function spelled.entries(top)
  if not top.text then
    if not top.moved and top.line then
      top.text = string.sub(stored, top.from, top.til)
    else
      local words = {}
      for at, it in ipairs(top.list) do
        words[at] = '\t' .. int(it.score) .. ' ' .. int(it.order) .. ' ' .. it.at .. ' ' .. escaped(it.user)
      end
      top.text = concat(words)
    end
  end
  return top.text
end

local function list_of(top)
  local list = top.list
  if not list then
    list = {}
    for score, order, at, user in string.gmatch(string.sub(stored, top.from, top.til), '\t(%d+) (%d+) (%d+) ([^\t]*)') do
      list[#list + 1] = { score = score + 0, order = order + 0, at = at, user = unescaped(user) }
    end
    top.list = list
  end
  return list
end

function spelled.ranking(top)
  local ranking = top.ranking
  return ranking and int(ranking.id) .. ':' .. ranking.state .. ':' .. int(ranking.asked) or '-'
end

-- Whether a list is as it is stored.
function spelled.is_same(top)
  return not top.moved and top.whole == top.was_whole and int(top.low) == top.was_low and spelled.ranking(top) == top.was_ranking
end

-- The line of a list.
function spelled.line(top)
  return 'l ' .. int(top.run) .. ' ' .. top.code .. (top.whole and ' w ' or ' p ') .. int(top.low) .. ' ' .. spelled.ranking(top)
    .. spelled.entries(top)
end

local function ask_ranking(top)
  changed = true
  if top.ranking then
    top.ranking.asked = now
  else
    s.last = s.last + 1
    top.ranking = { id = s.last, state = 'w', asked = now }
  end
end

local function prefix_of(ranking)
  return format('%016d ', ranking.id)
end

local function place_of(ranking, score, order, user)
  return format('%016d %016d %016d ', ranking.id, MAX_SAFE - score, order) .. user
end

-- A score of a user is another: `was` and `was_order` are what it was, `is`, `order` and `at` what it is.
local function place(run, code, user, was, was_order, is, order, at)
  local top = tops[run.id][code]
  if not top then
    -- By further currencies than are summed nobody leads, until somebody asks.
    if #code > 1 and not run.values[string.sub(code, 2)] then return end
    top = top_of(run, code)
  end
  local ranking = top.ranking
  if ranking and ranking.state ~= 'w' then
    if was > 0 then ranks_gone[#ranks_gone + 1] = place_of(ranking, was, was_order, user) end
    if is > 0 then
      ranks_new[#ranks_new + 1] = '0'
      ranks_new[#ranks_new + 1] = place_of(ranking, is, order, user)
      if run.gifters > MAX_RANKED then ranks_full[ranking.id] = ranking end
    end
  end
  if not top.whole and was < top.low and is < top.low then return end
  local list, known = list_of(top), nil
  for n, it in ipairs(list) do
    if it.user == user then
      known = n
      break
    end
  end
  if known then
    table.remove(list, known)
    top.moved = true
  end
  local last = list[#list]
  -- Whoever was in the list and has more now is before all who are not in it.
  local comes = is > 0 and (top.whole or known and is > was or last and is > last.score)
  if not comes and is > 0 and last and is == last.score then comes = order < last.order end
  if comes then
    local n = #list
    while n > 0 and (list[n].score < is or list[n].score == is and list[n].order > order) do n = n - 1 end
    table.insert(list, n + 1, { score = is, order = order, at = at, user = user })
    top.moved = true
    if #list > KEEP_FIRST then list[#list], top.whole = nil, false end
  end
  top.low = list[#list] and list[#list].score or 0
  if not top.whole and #list < TOLD_FIRST then ask_ranking(top) end
end

-- The score below which nobody is in a list of a span's runs, or comes into one; 0 where that is to be looked at in each of them.
local function bar_of(span, code)
  local bar = span.bars[code]
  if not bar then
    for _, id in ipairs(span.ids) do
      local top = tops[id][code]
      local ranked = top and top.ranking and top.ranking.state ~= 'w'
      local low = top and not top.whole and not ranked and top.low or 0
      bar = math.min(bar or low, low)
      if ranked then span.best[code] = false end
    end
    span.bars[code] = bar
    if span.best[code] == nil then span.best[code] = {} end
  end
  return bar
end

-- A score that grew in all runs of a span alike: only the best such can come into their lists, so these are found first.
-- False where there are rankings, which have everybody.
local function is_put_off(span, code, user, score, is, was)
  local best = span.best[code]
  if not best then return false end
  local n, last = #best, best[KEEP_FIRST]
  if last then
    best.more = true
    if is < last.is or is == last.is and score.order > last.order then return true end
  end
  while n > 0 and (best[n].is < is or best[n].is == is and best[n].order > score.order) do n = n - 1 end
  table.insert(best, n + 1, { user = user, is = is, order = score.order, at = score.at, was = was, was_order = score.was_order })
  best[KEEP_FIRST + 1] = nil
  return true
end

local function place_best()
  for _, span in ipairs(spans) do
    for code, best in pairs(span.best) do
      for _, it in ipairs(best or {}) do
        for _, id in ipairs(span.ids) do place(runs[id], code, it.user, it.was, it.was_order, it.is, it.order, it.at) end
      end
      -- Those that were left out are in no list.
      for _, id in ipairs(best and best.more and span.ids or {}) do
        if tops[id][code] then tops[id][code].whole = false end
      end
    end
  end
end

-- Places of a gifter whose scores moved, and how many gave in each run.
local function settle_gifter(user, it)
  local only = it.count == 1 and it.only
  if not only or (only.gifts > 0) ~= (only.had > 0) then
    local seen = {}
    for span, touched in pairs(it.spans) do
      for _, id in ipairs((touched.gifts > 0) ~= (touched.had > 0) and span.ids or {}) do
        local is, had = 0, 0
        for other, given in pairs(seen[id] and {} or it.spans) do
          if other.has[id] then is, had = is + given.gifts, had + given.had end
        end
        seen[id] = true
        runs[id].gifters = runs[id].gifters + (is > 0 and 1 or 0) - (had > 0 and 1 or 0)
      end
    end
  end
  local has_since = next(it.since) ~= nil
  for code in pairs(it.moved) do
    local left, seen = false, {}
    for span, given in pairs(it.spans) do
      local score = given.scores[code]
      left = left or score and score.sum ~= 0
      if score and (score.order ~= score.was_order or has_since) then
        if only and not has_since then
          local is, was = shown(score.sum), shown(score.was)
          local bar = bar_of(span, code)
          if (was >= bar or is >= bar) and not (is > was and is_put_off(span, code, user, score, is, was)) then
            for _, id in ipairs(span.ids) do
              place(runs[id], code, user, was, score.was_order, is, score.order, score.at)
            end
          end
        else
          for _, id in ipairs(span.ids) do
            if not seen[id] then
              seen[id] = true
              local is, order, at, was, was_order = score_of(it, id, code)
              if is ~= was or order ~= was_order then place(runs[id], code, user, was, was_order, is, order, at) end
            end
          end
        end
      end
    end
    -- A score of nothing is kept while the gifter has others by this measure: in a run of both it says since when.
    if not left then
      for _, given in pairs(it.spans) do given.scores[code] = nil end
    end
  end
end

-- A gifter's places in rankings that are being filled.
local function enter_rankings(filled, user, it)
  for _, top in ipairs(filled) do
    local is, order = score_of(it, top.run, top.code)
    if is > 0 then
      ranks_new[#ranks_new + 1] = '0'
      ranks_new[#ranks_new + 1] = place_of(top.ranking, is, order, user)
      if runs[top.run].gifters > MAX_RANKED then ranks_full[top.ranking.id] = top.ranking end
    end
  end
end

-- Searches gifters for who belongs into the rankings that are to be filled, a part in each call. True when there is more.
local function search_gifters()
  local filled, waiting = {}, {}
  for _, them in pairs(tops) do
    for _, top in pairs(them) do
      if top.ranking and top.ranking.state == 'f' then filled[#filled + 1] = top end
      if top.ranking and top.ranking.state == 'w' then waiting[#waiting + 1] = top end
    end
  end
  if #filled == 0 then
    s.scan = '-'
    if #waiting == 0 then return false end
    for _, top in ipairs(waiting) do top.ranking.state = 'f' end
    filled, waiting, s.scan = waiting, {}, '0'
    -- Who gave the first time in this very call is not found below.
    for user, it in pairs(gifters) do enter_rankings(filled, user, it) end
    for user, text in pairs(plain_gifters) do enter_rankings(filled, user, read_gifter(text)) end
  end
  local found = call('HSCAN', GIFTERS, s.scan, 'COUNT', int(SEARCH))
  s.scan, changed = found[1], true
  for at = 1, #found[2], 2 do
    local user = found[2][at]
    -- Who moves in this very call is where they are going to be.
    enter_rankings(filled, user, gifter_now(user, found[2][at + 1]))
  end
  if s.scan ~= '0' then return true end
  s.scan = '-'
  for _, top in ipairs(filled) do top.ranking.state = 'k' end
  return #waiting > 0
end

-- A list as its ranking has it.
local function fill(top)
  local prefix, list = prefix_of(top.ranking), {}
  local members = call('ZRANGEBYLEX', RANKS, '[' .. prefix, '(' .. prefix .. ':', 'LIMIT', '0', int(KEEP_FIRST + 1))
  for n, member in ipairs(members) do
    if n <= KEEP_FIRST then
      local user = string.sub(member, #prefix + 35)
      local score, order, at = score_of(read_gifter(call('HGET', GIFTERS, user)), top.run, top.code)
      list[n] = { score = score, order = order, at = at, user = user }
    end
  end
  top.list, top.moved, top.whole = list, true, #members <= KEEP_FIRST
  top.low = list[#list] and list[#list].score or 0
end

-- Writes who gave, and their places; before anything is read of them.
local function write_gifters()
  local set, gone, n = {}, {}, 0
  for user, text in pairs(plain_gifters) do
    set[n + 1], set[n + 2], n = user, text, n + 2
  end
  for user, it in pairs(gifters) do
    local text = gifter_text(it)
    if text then
      set[#set + 1], set[#set + 2] = user, text
    else
      gone[#gone + 1] = user
    end
  end
  in_parts('HDEL', GIFTERS, gone)
  in_parts('HSET', GIFTERS, set)
  in_parts('ZREM', RANKS, ranks_gone)
  in_parts('ZADD', RANKS, ranks_new)
  for _, ranking in pairs(ranks_full) do
    local prefix = prefix_of(ranking)
    local over = call('ZLEXCOUNT', RANKS, '[' .. prefix, '(' .. prefix .. ':') - MAX_RANKED
    if over > 0 then
      in_parts('ZREM', RANKS, call('ZRANGE', RANKS, '(' .. prefix .. ':', '[' .. prefix, 'BYLEX', 'REV', 'LIMIT', '0', int(over)))
    end
  end
  for _, them in pairs(tops) do
    for _, top in pairs(them) do
      local ranking = top.ranking
      if ranking and ranking.state == 'k' then
        if not top.whole and #list_of(top) < TOLD_FIRST then
          fill(top)
          changed = true
        end
        if now >= ranking.asked + RANKING_KEPT or now < ranking.asked then
          dead[#dead + 1], top.ranking, changed = ranking.id, nil, true
        end
      end
    end
  end
end

-- Looks all up who are not known yet.
function leaders.meet(users)
  local persons, strangers = leaders.persons, {}
  for _, user in ipairs(users) do
    if not persons[user] then
      persons[user], strangers[#strangers + 1] = '', user
    end
  end
  for from = 1, #strangers, 1000 do
    local til_ = math.min(from + 999, #strangers)
    for n, text in ipairs(call('HMGET', GIFTERS, unpack(strangers, from, til_))) do
      persons[strangers[from + n - 1]] = person_of(text)
    end
  end
end

-- "MEASURE COUNT", newline, and "SCORE AT PERSON", newline, for each.
function leaders.text(code, scores, times, users)
  local persons, lines = leaders.persons, {}
  for at, user in ipairs(users) do
    lines[at] = scores[at] .. ' ' .. times[at] .. ' ' .. persons[user] .. '\n'
  end
  return code .. ' ' .. int(#users) .. '\n' .. concat(lines)
end

-- The first of a run by a measure, as its list has them; made once where runs have the same list, as a day and a session
-- have that began today.
function leaders.first_of(run, code, limit)
  local top, made = tops[run.id][code], leaders.made
  local text = top and spelled.entries(top) or ''
  local name = code .. ' ' .. int(limit) .. text
  if made[name] then return made[name] end
  local scores, times, users, n = {}, {}, {}, 0
  for score, at, user in string.gmatch(text, '\t(%d+) %d+ (%d+) ([^\t]*)') do
    if n == limit then break end
    n = n + 1
    scores[n], times[n], users[n] = score, at, unescaped(user)
  end
  leaders.meet(users)
  made[name] = leaders.text(code, scores, times, users)
  return made[name]
end

-- As its ranking has them.
function leaders.ranked(top, limit)
  local prefix = prefix_of(top.ranking)
  local members = call('ZRANGEBYLEX', RANKS, '[' .. prefix, '(' .. prefix .. ':', 'LIMIT', '0', int(limit))
  local scores, times, users = {}, {}, {}
  for n, member in ipairs(members) do users[n] = string.sub(member, #prefix + 35) end
  local known = #users > 0 and call('HMGET', GIFTERS, unpack(users)) or {}
  for n, user in ipairs(users) do
    local it = read_gifter(known[n])
    local score, _, at = score_of(it, top.run, top.code)
    scores[n], times[n], leaders.persons[user] = int(score), at, it.person
  end
  return leaders.text(top.code, scores, times, users)
end
