-- rankings: who leads the runs. They follow people, within a second, so that a gift pays for none of them: see rank.
--
--   ranking   ZSET of each run and MEASURE, user -> less than 0: the highest score comes first, and of equal ones the first by user id
--   unranked  LIST of users whose scores are others since they were ranked
--
-- Behind all other KEYS are those of rankings: of each of ARGV.runs one by each of ARGV.measures. A call that needs others refuses with
-- "runs", the runs and the measures that it needs; the caller comes again with these.

local call, format = redis.call, string.format
-- Users in a ranking.
local RANKED_MAX = 100000
local keys, measure_at, run_at, width, height = { unpack(KEYS, LAST_ITEM_KEY + 1) }, {}, {}, 0, 0
local needs_runs, needs_measures = {}, {}
local rankings = { is_short = false }

for measure in string.gmatch(ARGV.measures, '%S+') do
  width = width + 1
  measure_at[measure] = width
end
for number in string.gmatch(ARGV.runs, '%d+') do
  run_at[tonumber(number)] = height
  height = height + 1
end

-- The key of a ranking; nil where the caller is to come again with it.
function rankings.key(run, measure)
  needs_runs[run.number], needs_measures[measure] = true, true
  local row, place = run_at[run.number], measure_at[measure]
  if row and place then return keys[row * width + place] end
  rankings.is_short = true
  return nil
end

-- The refusal for want of keys, if there is one.
function rankings.refusal()
  local function joined(names) return table.concat(LATER.runs.sorted(names), ' ') end
  return rankings.is_short and { '', 'runs', joined(needs_runs), joined(needs_measures) } or nil
end

-- The first of a run by a measure, as JSON.
function rankings.first(run, measure, limit)
  local key, users, texts = rankings.key(run, measure), {}, {}
  local found = key and call('ZRANGE', key, '0', format('%d', limit - 1), 'WITHSCORES') or {}
  for at = 1, #found, 2 do users[#users + 1] = found[at] end
  local people = #users > 0 and call('HMGET', KEYS.people, unpack(users)) or {}
  for n, text in ipairs(users) do
    local person = people[n] and LATER.person.decode(people[n]).name or '{"id":' .. cjson.encode(text) .. '}'
    texts[n] = '{"score":' .. format('%d', -found[2 * n]) .. ',"user":' .. person .. '}'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end

-- Puts users with these scores into a ranking, and takes others out.
function rankings.write(key, scores, gone)
  if #scores > 0 then call('ZADD', key, unpack(scores)) end
  if #gone > 0 then call('ZREM', key, unpack(gone)) end
  call('ZREMRANGEBYRANK', key, format('%d', RANKED_MAX), '-1')
end

return rankings
