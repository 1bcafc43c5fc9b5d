-- guard: what becomes of a gift before anything else is asked about it: its giver is blocked, or it waits for a
-- host. Rust puts this text behind due/queue's.
--
--   blocks    STRING, a line per user: "UNTIL AT USER"; UNTIL is 0 for ever, USER the id as JSON (feed/block_change)
--   reviews   HASH, gift id -> "MEMBER\nAT DELIVER_AT|-\n" and the record of the gift; MEMBER is its entry in due
--   approved  ZSET, "USER NAME", both as JSON -> until when this name of this user passes
-- The same rules as the domain's `must_review`.

local BLOCKS, REVIEWS, APPROVED = strings[14], KEYS.reviews, KEYS.approved
local REVIEWS_MAX, NAMES_MAX, NAME_KEPT = 1000, 10000, 2592000000
local reviews_new, reviews_count = {}, false

-- Whether this user, an id as JSON, is blocked in the feed.
local function is_blocked(user)
  local at = BLOCKS and string.find(BLOCKS, ' ' .. user .. '\n', 1, true)
  local til = at and match(string.sub(BLOCKS, 1, at - 1), '(%d+) %d+$')
  return til == '0' or (til and now < tonumber(til)) or false
end

-- A gift's user as JSON, as its body has it: the id and the name. No text inside has a quote of its own.
local function person_of(body)
  local person = match(body, '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n')
  local at = string.find(person, ',"name":', 1, true)
  local name = string.sub(person, at + 8, -2)
  for _, member in ipairs({ ',"avatar":', ',"anonymous":' }) do
    local behind = string.find(name, member, 1, true)
    if behind then name = string.sub(name, 1, behind - 1) end
  end
  return string.sub(person, 7, at - 1), name
end

-- A gift that no row shows: it is suppressed or denied. Its receipt as text.
local function keep_back(status, decision, gift)
  part, ended = '0::', false
  return settle_gift(gift, status, decision, '-')
end

-- Whether the combo of this key shows this very message.
local function repeats(key, message)
  for _, entry in ipairs(entries) do
    local at = string.find(entry, ' ', 1, true)
    if at and string.sub(entry, at + 1) == key then
      local row = row_text(string.sub(entry, 1, at - 1)) or ''
      return match(row, '^' .. string.rep('[^\n]*\n', 13) .. '([^\n]*)\n') == message
    end
  end
  return false
end

-- When time decides about the first gift in review, or a time by which it has decided: any number of other gifts may be
-- scheduled in front of it, and a refusal must not cost a walk past them. Looked up once for all gifts of a call.
local function first_in_review()
  if not reviews_new.first then
    reviews_new.first = now + policy.review_timeout_ms
    local part = call('ZRANGE', DUE, '0', '255', 'WITHSCORES')
    for n = #part - 1, 1, -2 do
      if match(part[n], '^%d+ r') then reviews_new.first = math.min(reviews_new.first, tonumber(part[n + 1])) end
    end
  end
  return reviews_new.first
end

local function hold(gift, unready)
  reviews_count = reviews_count or call('HLEN', REVIEWS)
  if reviews_count >= REVIEWS_MAX then return 'F' .. int(math.max(first_in_review() - now, 0)) end
  local expires, text, show, deliver = now + policy.review_timeout_ms, gift.own, gift.show, nil
  if unready(expires, text) then return '' end
  if show == '' then
    deliver = now + policy.delay_ms
  elseif string.sub(show, 1, 1) == '+' then
    deliver = now + tonumber(string.sub(show, 2))
  else
    deliver = tonumber(show) or now
  end
  local id = cjson.decode(text).id
  due_add(expires, 'r', id)
  reviews_count = reviews_count + 1
  reviews_new[#reviews_new + 1] = id
  reviews_new[#reviews_new + 1] = due_new[#due_new] .. '\n' .. time .. ' '
    .. (deliver > now and int(math.min(deliver, MAX_TIME)) or '-') .. '\n' .. text
  return 'n' .. keep_receipt(gift, { status = 'in_review', since = now, due_at = expires })
end

-- What is to be answered to a new gift that is kept from being shown or waits for a host; nothing for any other.
local function judge(everywhere, gift, unready)
  local body = gift.body
  local user, name = person_of(body)
  if everywhere or is_blocked(user) then return 'n' .. keep_back('suppressed', nil, gift) end
  local key, test, message =
    match(body, '^[^\n]*\n[^\n]*\n([^\n]*)\n[^\n]*\n([^\n]*)\n[^\n]*\n[^\n]*\n([^\n]*)\n')
  if policy.review == 'off' or test == '1' then return nil end
  if key ~= '' and (message == '' or repeats(key, message)) then return nil end
  if policy.review == 'messages' and message == '' then
    local til = tonumber(call('ZSCORE', APPROVED, user .. ' ' .. name))
    if til and now < til then return nil end
  end
  return hold(gift, unready)
end

-- Lets this name of this user pass from now on.
local function approve_name(user, name)
  call('ZADD', APPROVED, int(now + NAME_KEPT), user .. ' ' .. name)
  call('ZREMRANGEBYRANK', APPROVED, '0', int(-1 - NAMES_MAX))
end

-- Writes what waits for a host; after `commit`.
local function guard_commit()
  if #reviews_new > 0 then call('HSET', REVIEWS, unpack(reviews_new)) end
end
