-- gifters: who gave how much, as it is stored and as it moves; Rust puts this text behind feed_tally_state's, in
-- front of totals/ranks.
--
--   gifters  HASH, USER -> what a user gave, in one of two spellings:
--     "=", the numbers of PLAIN, the currency with its length in front, PERSON: gave in one span, money of one currency
--       at most, and all of it is below 2^53. So is nearly everybody; totals/fold adds to this without taking it apart
--     MessagePack of [PERSON, for each span [SPAN, GIFTS, and for each score MEASURE, SUM, ORDER, AT],
--       and ["!", RUN, MEASURE, ORDER, AT] where a score is above 2^53-1: since when it is shown as that]
--   ORDER: how often something was counted when the score came to be, 0 where there is none; AT: when that was.

-- SPAN, GIFTS, and SUM, ORDER and AT of units, points and money.
local PLAIN = '>I6I6I7I6I6I7I6I6I7I6I6Bc0'

-- By user: gifters that are taken apart in this call, and texts of those that are not.
local gifters, plain_gifters = {}, {}

-- A gifter: `spans`, span -> gifts and scores by measure, with what they were before this run; `count` of them, and
-- where that is 1, `span` and `only`. `since`, by "RUN MEASURE": since when a score above 2^53-1 is shown as that.
local function given_in(it, span)
  local given = it.spans[span]
  if not given then
    given = { gifts = 0, had = 0, scores = {} }
    it.spans[span], it.count, it.span, it.only = given, it.count + 1, span, given
  end
  return given
end

local read_gifter, gifter_text -- in blocks, since Lua has room for 200 locals, which these texts nearly fill
do
  -- A score as it is stored, of a span that may be there already: two spans became one since this was written.
  local function read_score(given, code, sum, order, at)
    local score = given.scores[code]
    if not score then
      given.scores[code] = { sum = sum, order = order, at = at, was = sum, was_order = order }
    else
      score.sum = sum_sum(score.sum, sum, 1)
      score.was = score.sum
      if order > score.order then score.order, score.was_order, score.at = order, order, at end
    end
  end

  local function read_plain(it, text)
    local number, gifts, units, u_order, u_at, points, p_order, p_at, amount, c_order, c_at, currency, from =
      struct.unpack(PLAIN, text, 2)
    it.person = string.sub(text, from)
    local span = span_of(number)
    if not span then return end
    local given = given_in(it, span)
    given.gifts, given.had = gifts, gifts
    if u_order > 0 then read_score(given, 'u', units, u_order, int(u_at)) end
    if p_order > 0 then read_score(given, 'p', points, p_order, int(p_at)) end
    if c_order > 0 then read_score(given, '$' .. currency, amount, c_order, int(c_at)) end
  end

  function read_gifter(text)
    local it = { person = '', spans = {}, count = 0, since = {}, moved = {} }
    if not text then return it end
    if string.byte(text) == 61 then
      read_plain(it, text)
      return it
    end
    local parts = cmsgpack.unpack(text)
    it.person = parts[1]
    for n = 2, #parts do
      local part = parts[n]
      if part[1] ~= '!' then
        local span = span_of(part[1])
        if span then
          local given = given_in(it, span)
          given.gifts, given.had = given.gifts + part[2], given.had + part[2]
          for at = 3, #part, 4 do read_score(given, part[at], part[at + 1], part[at + 2], part[at + 3]) end
        end
      elseif runs[part[2]] then
        it.since[int(part[2]) .. ' ' .. part[3]] = { run = part[2], code = part[3], order = part[4], at = part[5], was_order = part[4] }
      end
    end
    return it
  end
end

-- The person of a gifter, as stored. Behind "=" are 69 bytes of numbers.
local function person_of(text)
  if text and string.byte(text) == 61 then return string.sub(text, 72 + string.byte(text, 71)) end
  return read_gifter(text).person
end

do
  -- The plain spelling, of a gifter whom that can tell.
  local function plain_text(it)
    local given, none, currency = it.count == 1 and it.only, { sum = 0, order = 0, at = 0 }, ''
    if not given or next(it.since) then return nil end
    for code, score in pairs(given.scores) do
      if type(score.sum) ~= 'number' then return nil end
      if #code > 1 then
        if currency ~= '' then return nil end
        currency = string.sub(code, 2)
      end
    end
    local u, p, c = given.scores.u or none, given.scores.p or none, given.scores['$' .. currency] or none
    return '=' .. struct.pack(PLAIN, it.span.to, given.gifts, u.sum, u.order, u.at, p.sum, p.order, p.at,
      c.sum, c.order, c.at, #currency, currency) .. it.person
  end

  -- Nothing where nothing is left of a gifter.
  function gifter_text(it)
    local parts, count = { it.person }, 1
    for span, given in pairs(it.spans) do
      if given.gifts > 0 or next(given.scores) then
        local part, n = { span.to, given.gifts }, 2
        for code, score in pairs(given.scores) do
          part[n + 1], part[n + 2], part[n + 3], part[n + 4], n = code, score.sum, score.order, score.at, n + 4
        end
        count = count + 1
        parts[count] = part
      end
    end
    if count == 1 then return nil end
    local plain = plain_text(it)
    if plain then return plain end
    for _, since in pairs(it.since) do
      if since.order then parts[#parts + 1] = { '!', since.run, since.code, since.order, since.at } end
    end
    return cmsgpack.pack(parts)
  end
end

-- A gifter as this call leaves it, where `text` is what was stored before.
local function gifter_now(user, text)
  return gifters[user] or read_gifter(plain_gifters[user] or text)
end

-- What a gifter has in a run by a measure: the sum over its spans, and when the last of them came to be; and both before.
local function score_of(it, id, code)
  local sum, order, at, was, was_order = 0, 0, '0', 0, 0
  for span, given in pairs(it.spans) do
    local score = span.has[id] and given.scores[code]
    if score then
      sum, was = sum_sum(sum, score.sum, 1), sum_sum(was, score.was, 1)
      if score.order > order then order, at = score.order, score.at end
      if score.was_order > was_order then was_order = score.was_order end
    end
  end
  local since = it.since[int(id) .. ' ' .. code]
  if since then
    if since.order then order, at = since.order, since.at end
    was_order = since.was_order or was_order
  end
  return shown(sum), order, at, shown(was), was_order
end

-- Whether all that a gifter has by a measure, and `more`, is below 2^53: the common case, in which every move is shown.
local function is_small(it, code, more)
  if type(more) ~= 'number' or next(it.since) then return false end
  for _, given in pairs(it.spans) do
    local score = given.scores[code]
    if score then
      if type(score.sum) ~= 'number' then return false end
      more = more + score.sum
    end
  end
  return more < LIMB
end

-- A score moves. What is above 2^53-1 before and after is shown as it was, and so is since when.
local function move_score(it, span, given, code, by, sign, when)
  local score = given.scores[code]
  if not score then
    score = { sum = 0, order = 0, at = '0', was = 0, was_order = 0 }
    given.scores[code] = score
  end
  it.moved[code] = true
  if it.count == 1 and sign > 0 and type(score.sum) == 'number' and score.sum + by < LIMB and not next(it.since) then
    score.sum, score.order, score.at = score.sum + by, s.order, when
    return
  end
  local sum = sum_sum(score.sum, by, sign)
  if sum == score.sum then return end
  if is_small(it, code, sum) then
    score.sum, score.order, score.at = sum, s.order, when
    return
  end
  local befores = {}
  for n, id in ipairs(span.ids) do befores[n] = { score_of(it, id, code) } end
  score.sum, score.order, score.at = sum, s.order, when
  for n, id in ipairs(span.ids) do
    local key, before = int(id) .. ' ' .. code, befores[n]
    local since = it.since[key]
    if score_of(it, id, code) == before[1] then
      it.since[key] = { run = id, code = code, order = before[2], at = before[3], was_order = since and since.was_order }
    elseif since then
      it.since[key] = { was_order = since.was_order }
    end
  end
end
