-- receipts: what became of the gifts of this call, by their ids. See receipt for what one says.

local GRACE = 60000
local int, window = feed.int, feed.policy.idempotency_window_ms
local ends_at, px = int(math.min(feed.steady + window, clock.MAX_TIME)), int(window + GRACE)
-- By the key of the id: the text, and for how long it is kept, where that is not `px`: false is for ever.
local texts, lifetimes = {}, {}

-- The receipt of the nth gift's id, if it is remembered: its text, and what it says.
local function find(n)
  local text = texts[KEYS.id[n]] or STRINGS.id[n]
  local it = text and cjson.decode(text)
  if it and (not it['until'] or feed.steady < it['until']) then return text, it end
end

-- Keeps that of a gift that was taken; `rest` is what it says besides. `lifetime`: for how long, if longer than the window. Its text.
local function keep_taken(n, status, rest, lifetime)
  local key = KEYS.id[n]
  local text = '{"until":' .. ends_at .. ',"fingerprint":"' .. ARGV.fingerprint[n] .. '","status":"' .. status .. '"' .. rest .. '}'
  texts[key] = text
  if lifetime then lifetimes[key] = int(lifetime + GRACE) end
  return text
end

-- Keeps that of a gift that waits, until something becomes of it; its text.
local function keep_waiting(n, status, rest)
  local key = KEYS.id[n]
  local text = '{"since":' .. feed.time .. ',"fingerprint":"' .. ARGV.fingerprint[n] .. '","status":"' .. status .. '"' .. rest .. '}'
  texts[key], lifetimes[key] = text, false
  return text
end

feed.commits[#feed.commits + 1] = function()
  for key, text in pairs(texts) do
    local lifetime = lifetimes[key]
    if lifetime == false then
      redis.call('SET', key, text)
    else
      redis.call('SET', key, text, 'PX', lifetime or px)
    end
  end
end

return { find = find, keep_taken = keep_taken, keep_waiting = keep_waiting, ends_at = ends_at }
