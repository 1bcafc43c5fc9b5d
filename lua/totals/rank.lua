-- rank: brings the rankings up to what users gave, some users in each call.
--
-- KEYS totals sums people unranked
-- ARGV now runs measures
-- USES clock
-- LATER runs rankings person
-- DATA writes, always
-- RETURNS how many are left
-- REFUSES as totals/rankings does

local USERS_AT_ONCE = 256
local call, format, runs, rankings, person = redis.call, string.format, LATER.runs, LATER.rankings, LATER.person
local listed, users, is_known = call('LRANGE', KEYS.unranked, '0', format('%d', USERS_AT_ONCE - 1)), {}, {}
for _, user in ipairs(listed) do
  if not is_known[user] then
    users[#users + 1], is_known[user] = user, true
  end
end

-- By key: users whose scores are others, as ZADD has them, and who has none any more.
local scores, gone, changed, forgotten = {}, {}, {}, {}

-- Ranks a user, and drops from the record what is not needed any more.
local function rank(user, text)
  local it, gifts, is_changed = person.decode(text), 0, false
  for number, given in pairs(it.runs) do
    local run = runs.of[number]
    gifts = gifts + (run and given.gifts or 0)
    for measure, score in pairs(run and given or {}) do
      local key = measure ~= 'gifts' and rankings.key(run, measure)
      if key then
        scores[key], gone[key] = scores[key] or {}, gone[key] or {}
        local list = score > 0 and scores[key] or gone[key]
        if score > 0 then list[#list + 1] = format('%d', -score) else given[measure], is_changed = nil, true end
        list[#list + 1] = user
      end
    end
    if not run then it.runs[number], is_changed = nil, true end
  end
  if gifts == 0 then
    forgotten[#forgotten + 1] = user
  elseif is_changed then
    changed[#changed + 1], changed[#changed + 2] = user, person.encode(it)
  end
end

local people = #users > 0 and call('HMGET', KEYS.people, unpack(users)) or {}
for n, text in ipairs(people) do
  if text then rank(users[n], text) end
end
local refusal = rankings.refusal()
if refusal then return refusal end
for key in pairs(scores) do call('ZCARD', key) end -- checks its type

-- From here on nothing can fail.
for key, list in pairs(scores) do rankings.write(key, list, gone[key]) end
if #changed > 0 then call('HSET', KEYS.people, unpack(changed)) end
if #forgotten > 0 then call('HDEL', KEYS.people, unpack(forgotten)) end
call('LTRIM', KEYS.unranked, format('%d', #listed), '-1')
return { format('%d', call('LLEN', KEYS.unranked)) }
