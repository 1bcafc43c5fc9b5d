-- screening: which gifts are kept back before anything else is asked about them: the giver is blocked, or a host has to look at
-- the gift first. The same rules as the domain's `must_review`.
--
--   reviews   HASH, gift id -> "MEMBER\nAT DELIVER_AT|-\n" and the record of the gift; MEMBER is its entry in due
--   approved  ZSET, "USER NAME", both as JSON -> until when this name of this user passes

local call, int, policy = redis.call, feed.int, feed.policy
local REVIEWS_MAX = 1000
local added, count, first = {}, nil, nil

-- Whether the row of the nth gift's combo shows this very message.
local function is_shown(n, message)
  local id = LATER.frame.row_of(n)
  local it = id and LATER.row.find(id)
  return it and it.message == message
end

-- Whether a host has to look at the nth gift.
local function needs_host(n)
  local it = LATER.row.decode_gift(ARGV.body[n])
  if policy.review == 'off' or string.find(it.rest, '^,"test":true') then return false end
  if ARGV.combo[n] ~= '' and (not it.message or is_shown(n, it.message)) then return false end
  if policy.review == 'all' or it.message then return true end
  local id, name = LATER.blocks.giver_of(n)
  local passes_until = tonumber(call('ZSCORE', KEYS.approved, id .. ' ' .. name) or nil)
  return not (passes_until and feed.now < passes_until)
end

-- When time decides about the first gift in review, or a time by which it has decided: any number of other gifts may be scheduled
-- in front of it, and a refusal must not cost a walk past them. Looked up once for all gifts of a call.
local function first_decision()
  if not first then
    first = feed.now + policy.review_timeout_ms
    local part = call('ZRANGE', KEYS.due, '0', '255', 'WITHSCORES')
    for n = 1, #part, 2 do
      if string.match(part[n], '^%d+ r') then first = math.min(first, tonumber(part[n + 1])) end
    end
  end
  return first
end

-- The nth gift waits for a host: what is answered.
local function hold(n)
  count = count or call('HLEN', KEYS.reviews)
  if count >= REVIEWS_MAX then return 'F' .. int(math.max(first_decision() - feed.now, 0)) end
  local expires_at, due_at = feed.now + policy.review_timeout_ms, LATER.waiting.due_at(n)
  if LATER.waiting.is_unready(n, expires_at) then return '' end
  local id = cjson.decode(ARGV.record[n]).id
  local member = LATER.schedule.add(expires_at, 'r', id)
  count = count + 1
  added[#added + 1] = id
  added[#added + 1] = member .. '\n' .. feed.time .. ' ' .. (due_at and int(due_at) or '-') .. '\n' .. ARGV.record[n]
  return 'n' .. receipts.keep_waiting(n, 'in_review', ',"due_at":' .. int(expires_at))
end

-- Returns the answer to the nth gift if it is kept back, else nil. The gift is new.
local function judge(n)
  if LATER.blocks.is_blocked(n) then return 'n' .. gift.keep_back(n, 'suppressed') end
  return needs_host(n) and hold(n) or nil
end

feed.commits[#feed.commits + 1] = function()
  if #added > 0 then call('HSET', KEYS.reviews, unpack(added)) end
end

return { judge = judge }
