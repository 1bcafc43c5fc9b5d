-- feed_review: decides about a gift that waits for a host, in one step with its leaving the due queue. One about which
-- somebody or time has decided is left alone, so that several may try.
--
-- KEYS 18 + 2 per gift:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 later
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 blocks
--   17 reviews
--   18 approved
--   19 id: of the gift
--   20 lock: of its user and kind; of a frame its combo
-- ARGV 17 + 4 per gift, see feed_gifts: twice the same one, as it is and masked
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 hooks version: that of the webhooks of all feeds
--   11 registered: webhooks that rest and are in the index of jobs
--   12 ledger bounds
--   13 in the index since: when the feed was registered among due feeds, a time, or ""
--   14 blocked everywhere: 1 when its giver is, else 0
--   15 decision: A, M or D; R to deny it and take it back in the same step; "-" when time decides, if it has come
--   16 gift: its id
--   17 reason: why it is taken back, as JSON, or ""
--   18 head
--   19 body
--   20 extra
--   21 rest: its gifter, and its record as it waits for its own time; that of the masked one has "masked" as its last line
-- DATA writes, always
-- RETURNS the header, when the next entry is due or "", "done" or "gone" (it was not in review any more), and what is
--   remembered of its id or ""
-- REFUSES as feed_publish and feed_ledger do

local GIFT, as_given, as_masked = ARGV[16], gift_at(19, 18), gift_at(21, 22)
local known = as_given.known or ''
local entry = call('HGET', REVIEWS, GIFT)
local member = entry and match(entry, '^[^\n]*')
local score = member and tonumber(call('ZSCORE', DUE, member))
due_waiting()
call('ZCARD', APPROVED)

local function next_due()
  local first = due_first()
  return first and int(first) or ''
end

if not score or (ARGV[15] == '-' and score > now) then
  local over, status = match(known, '^(%d+) %x+ (%l)%u? ')
  local holds = over and (status == 'w' or status == 'v' or steady < tonumber(over))
  return { header(), next_due(), 'gone', holds and known or '' }
end

local user, name = person_of(as_given.body)
local action, own_will = ARGV[15], score > now
if not own_will then action = ({ show = 'A', mask = 'M', deny = 'D' })[policy.review_default] end
if ARGV[14] == '1' or ARGV[15] == 'R' or is_blocked(user) then action = 'D' end

local came, deliver = match(entry, '^[^\n]*\n(%d+) (%S+)\n')
deliver = tonumber(deliver)
-- One that came while the clock was ahead waits for as long as it was to wait.
if deliver and tonumber(came) > now then deliver = now + deliver - came end
due_remove(member)
local answer
if action == 'D' then
  -- What is taken back in the same step is not counted.
  if ARGV[15] == 'R' then count_gift = nil end
  answer = keep_back('n', 'D', as_given)
  -- A second entry takes away what the first one gave. A function, because this script is at Lua's limit of 200 locals.
  if ARGV[15] == 'R' then
    answer = (function()
      local head, given = match(answer, '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) [^%s|]+|?(%S*)$')
      local count, amount, currency = match(given, '^(%d+):(%d*):(%a*)$')
      if count then
        local value, who, kind = amount ~= '' and amount .. ' ' .. currency or '',
          match(as_given.body, '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n([^\n]*)\n')
        if count ~= '0' or value ~= '' and amount ~= '0' then
          enter('r', '-', GIFT .. ' 0 - -',
            table.concat({ count, value, '', '', '0', who, kind, ARGV[17], ' ', '' }, '\n'), nil, true)
        end
      end
      return head .. ' x'
    end)()
    ids[as_given.id_key] = answer
  end
else
  local gift = action == 'M' and as_masked or as_given
  if deliver and deliver > now then
    local since = tonumber(ARGV[13])
    if not since or deliver < since then return { '', 'register', int(deliver), int(policy.delay) } end
    due_add(deliver, 'g', GIFT, gift.own)
    answer = time .. ' ' .. gift.fingerprint .. ' w' .. action .. ' 0 0 ' .. int(deliver) .. ' -'
    ids[gift.id_key], waits[gift.id_key] = answer, true
  else
    answer = take_now(gift, action)
  end
end
local not_yet = finish()
if not_yet then return not_yet end
call('HDEL', REVIEWS, GIFT)
if action == 'A' and own_will then approve_name(user, name) end
return { header() .. news, next_due(), 'done', answer }
