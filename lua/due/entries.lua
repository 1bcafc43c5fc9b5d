-- entries: entries of one feed's due queue, in order. Writes nothing.
--
-- KEYS due later reviews
-- ARGV now most which after order
--     most: the limit of the answer
--     which: "due" (what is due now, of every kind), or the letter of one kind; of reviews (r) all, in the order in which they
--       came
--     after: only those after this time ...
--     order: ... and after this ORDER at that time; both "" from the start
-- USES clock
-- DATA reads
-- RETURNS now, when the feed's first entry is due or "" (also for reviews), then per entry: when it is due, its member, what
--   later or reviews holds of it or ""
-- REFUSES nothing

local call, format, match = redis.call, string.format, string.match
local DUE, MOST, KIND = KEYS.due, tonumber(ARGV.most), ARGV.which
local HELD = { g = KEYS.later, r = KEYS.reviews }

local now = clock.now

-- The index of the first entry after the cursor: among those of its time, found by halves.
local at = 0
if ARGV.after ~= '' then
  at = call('ZCOUNT', DUE, '-inf', '(' .. ARGV.after)
  local behind, order = call('ZCOUNT', DUE, '-inf', ARGV.after), format('%016d', tonumber(ARGV.order))
  while at < behind do
    local middle = math.floor((at + behind) / 2)
    if match(call('ZRANGE', DUE, middle, middle)[1], '^%d+') > order then
      behind = middle
    else
      at = middle + 1
    end
  end
end
local answer, found = { clock.text, '' }, 0
local function add(due, member, text)
  answer[#answer + 1] = format('%d', tonumber(due))
  answer[#answer + 1] = member
  answer[#answer + 1] = text or ''
  found = found + 1
end

-- Gifts in review are all in one hash, which is small: any number of other gifts may be scheduled between them.
if KIND == 'r' then
  local all, members, texts = call('HGETALL', KEYS.reviews), {}, {}
  for n = 2, #all, 2 do
    local member = match(all[n], '^[^\n]*')
    members[n / 2], texts[member] = member, all[n]
  end
  table.sort(members)
  local scores = #members > 0 and call('ZMSCORE', DUE, unpack(members)) or {}
  for n = 1, math.min(#members, MOST) do
    if scores[n] then add(scores[n], members[n], texts[members[n]]) end
  end
  return answer
end

local stop = KIND == 'due' and call('ZCOUNT', DUE, '-inf', clock.text) or call('ZCARD', DUE)

local first = tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2])
answer[2] = first and format('%d', first) or ''
while found < MOST and at < stop do
  local last = math.min(at + MOST - found, stop) - 1
  local part = call('ZRANGE', DUE, at, last, 'WITHSCORES')
  at = last + 1
  for n = 1, #part, 2 do
    local kind, id = match(part[n], '^%d+ (%a)(.*)$')
    if KIND == 'due' or kind == KIND then
      add(part[n + 1], part[n], HELD[kind] and call('HGET', HELD[kind], id))
    end
  end
end
return answer
