-- publish_now: how feed_publish goes on where its usual way ends, and all of it as long as every gift is shown at once
-- and nobody looks at gifts: what comes behind this, the due queue first, is then not even made.

local GIFT_COUNT = ITEM_COUNT
-- Whether gifts are looked at: somebody is blocked, or they may wait for a host.
local guards = policy.review ~= 'off' or strings[14] or string.find(ARGV.blocked_everywhere, '1', 1, true)

local gifts, all_now = {}, not guards
for n = 1, GIFT_COUNT do gifts[n] = gift_at(n) end

-- When a gift is to be shown; nothing when that is now.
local function due_of(gift)
  local show, at = gift.show, nil
  if show == '-' or show == '' and policy.delay_ms == 0 then return nil end
  if show == '' then
    at = now + policy.delay_ms
  elseif string.sub(show, 1, 1) == '+' then
    at = now + tonumber(string.sub(show, 2))
  else
    at = tonumber(show)
  end
  if at <= now then return nil end
  return math.min(at, MAX_TIME)
end

-- Takes the gifts in order; `judge` says what becomes of one before anything else is asked, if anything, `schedule`
-- takes those for later. What is to be answered.
local function take_all(schedule, judge)
  local answers = {}
  for n, gift in ipairs(gifts) do
    local before, at, judged = receipt_of(gift), nil, nil
    local again = before and receipt.is_kept(before, steady)
    if not again and judge then judged = judge(n, gift) end
    if not again and schedule then at = due_of(gift) end
    if again then
      answers[n + 1] = 'd' .. (before.text or gift.known)
    elseif judged then
      answers[n + 1] = judged
    elseif at then
      answers[n + 1] = schedule(gift, at)
    else
      answers[n + 1] = 'n' .. take_now(gift)
    end
  end
  return answers
end

for _, gift in ipairs(gifts) do all_now = all_now and not due_of(gift) end
if all_now then
  local answers = take_all()
  local not_yet = ledger_refuses(true)
  if not_yet then return not_yet end
  commit('=')
  remember()
  ledger_commit()
  answers[1] = header() .. news
  return answers
end
