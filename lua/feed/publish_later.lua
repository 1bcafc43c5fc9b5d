-- publish_later: how feed_publish ends when not all gifts are simply for now. Rust puts this text behind feed_finish and,
-- for feeds whose gifts are looked at, feed/guard.

local REGISTERED, MAX = tonumber(ARGV.looked_at), tonumber(ARGV.may_wait)
local unregistered, gifts_waiting = false, false

-- Whether the feed must be in the index first, or the record come along.
local function unready(at, text)
  if text ~= '' and REGISTERED and at >= REGISTERED then return false end
  unregistered = math.min(unregistered or at, at)
  return true
end

local function schedule(gift, at)
  if not gifts_waiting then gifts_waiting = due_waiting() > 0 and call('HLEN', LATER) - 1 or 0 end
  if gifts_waiting >= MAX then
    local first = due_first()
    return 'f' .. int(math.max((first or at) - now, 0))
  end
  local text = gift.own
  if unready(at, text) then return '' end
  due_add(at, 'g', cjson.decode(text).id, text)
  gifts_waiting = gifts_waiting + 1
  return 'n' .. keep_receipt(gift, { status = 'scheduled', since = now, due_at = at })
end

local answers = take_all(schedule, guards and function(n, gift)
  return judge_gift(string.sub(ARGV.blocked_everywhere, n, n) == '1', gift, unready)
end)
if unregistered then return { '', 'register', int(unregistered), int(policy.delay_ms) } end
local not_yet = finish()
if not_yet then return not_yet end
if guards then commit_reviews() end
answers[1] = header() .. news
do return answers end
