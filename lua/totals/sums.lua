-- sums: what each run has.
--
--   sums  HASH, the number of a run -> MessagePack: {gifts = N, gifters = N, [MEASURE] = N, …}; gifters are different users. Each stops at
--         2^53-1, and may be short if something is taken from it after that

local call, format = redis.call, string.format

-- What the runs of these numbers have, in the same order.
local function of(numbers)
  local all = {}
  for n, text in ipairs(#numbers > 0 and call('HMGET', KEYS.sums, unpack(numbers)) or {}) do
    all[n] = text and cmsgpack.unpack(text) or { gifts = 0, gifters = 0 }
  end
  return all
end

-- What a run has; nothing without a run.
local function of_run(run)
  return run and of({ format('%d', run.number) })[1] or {}
end

-- What the run that a goal goes by has.
local function of_goal(goal)
  return of_run(LATER.runs.open[goal.period])[goal.by] or 0
end

-- Whether this is a currency, which begins with "$".
local function is_currency(name)
  return string.byte(name) == 36
end

-- What a run has, as JSON that is not closed.
local function text(run, sums)
  local texts = {}
  for n, name in ipairs(LATER.runs.sorted(sums)) do texts[n] = '"' .. name .. '":' .. format('%d', sums[name]) end
  return format('{"since":%d,"sums":{', run.since) .. table.concat(texts, ',') .. '}'
end

return { of = of, of_run = of_run, of_goal = of_goal, is_currency = is_currency, text = text }
