-- feed_publish_now: how feed_publish begins, and all of it as long as no gift is for later: what comes
-- behind this, the due queue first, is then not even made.

local GIFT_COUNT = (#KEYS - FIRST_KEY + 1) / 2
-- A feed with blocks, or whose gifts wait for a host, is published to by feed_publish_guarded.
if not guarded and (policy.review ~= 'off' or strings[14]) then return { '', 'guard' } end

-- When a gift is to be shown; nothing when that is now.
local function due_of(a)
  local show, at = ARGV[a + SHOW], nil
  if show == '-' or show == '' and policy.delay == 0 then return nil end
  if show == '' then
    at = now + policy.delay
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
  for gift = 1, GIFT_COUNT do
    local a, index = FIRST_ARG + (gift - 1) * GIFT_ARGS, FIRST_KEY + (gift - 1) * 2
    local known, again, at, judged = lookup(ids, index), false, nil, nil
    if known then
      local over, status = string.match(known, '^(%d+) %x+ ([amswcvn])%u? %S+ %d+ %S+ %S+')
      again = over and (status == 'w' or status == 'v' or now < tonumber(over))
    end
    if not again and judge then judged = judge(gift, a, index) end
    if not again and schedule then at = due_of(a) end
    if again then
      answers[gift + 1] = 'd' .. known
    elseif judged then
      answers[gift + 1] = judged
    elseif at then
      answers[gift + 1] = schedule(a, index, at)
    else
      answers[gift + 1] = 'n' .. take_now(a, index)
    end
  end
  return answers
end

local all_now = not guarded
for gift = 1, GIFT_COUNT do
  all_now = all_now and not due_of(FIRST_ARG + (gift - 1) * GIFT_ARGS)
end
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
