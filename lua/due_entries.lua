-- due_entries: entries of one feed's due queue, in order. Writes nothing.
--
-- KEYS 3:
--   1 due
--   2 later
--   3 reviews
-- ARGV 5:
--   1 now, milliseconds; "-" takes the store's clock
--   2 most: at most so many
--   3 which: "due" (what is due now, of every kind), or the letter of one kind
--   4 after: only those after this time ...
--   5 order: ... and after this ORDER at that time; both "" from the start
-- DATA reads
-- RETURNS now, when the feed's first entry is due or "", then per entry: when it is due, its member, what
--   later or reviews holds of it or ""
-- REFUSES nothing

local call, format, match = redis.call, string.format, string.match
local DUE, MOST, KIND = KEYS[1], tonumber(ARGV[2]), ARGV[3]
local HELD = { g = KEYS[2], r = KEYS[3] }

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- The index of the first entry after the cursor: among those of its time, found by halves.
local at = 0
if ARGV[4] ~= '' then
  at = call('ZCOUNT', DUE, '-inf', '(' .. ARGV[4])
  local behind, order = call('ZCOUNT', DUE, '-inf', ARGV[4]), format('%016d', tonumber(ARGV[5]))
  while at < behind do
    local middle = math.floor((at + behind) / 2)
    if match(call('ZRANGE', DUE, middle, middle)[1], '^%d+') > order then
      behind = middle
    else
      at = middle + 1
    end
  end
end
local stop = KIND == 'due' and call('ZCOUNT', DUE, '-inf', format('%d', now)) or call('ZCARD', DUE)

local first = tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2])
local answer, found = { format('%d', now), first and format('%d', first) or '' }, 0
while found < MOST and at < stop do
  local last = math.min(at + MOST - found, stop) - 1
  local part = call('ZRANGE', DUE, at, last, 'WITHSCORES')
  at = last + 1
  for n = 1, #part, 2 do
    local kind, id = match(part[n], '^%d+ (%a)(.*)$')
    if KIND == 'due' or kind == KIND then
      answer[#answer + 1] = format('%d', tonumber(part[n + 1]))
      answer[#answer + 1] = part[n]
      answer[#answer + 1] = HELD[kind] and call('HGET', HELD[kind], id) or ''
      found = found + 1
    end
  end
end
return answer
