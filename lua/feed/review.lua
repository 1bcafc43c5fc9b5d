-- review: decides about a gift that waits for a host, in one step with its leaving the due queue. One about which
-- somebody or time has decided is left alone, so that several may try.
--
-- KEYS list rows hist meta policy due later ledger reports readers count tally parts left told blocks reviews
--   approved, per gift: id lock
--     id: of the gift
--     lock: of its user and kind; of a frame its combo
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at blocked_everywhere decision gift reason, per gift: head body extra rest
--     blocked_everywhere: 1 when its giver is, else 0
--     decision: A, M or D; R to deny it and take it back in the same step; "-" when time decides, if it has come
--     gift: its id
--     reason: why it is taken back, as JSON, or ""
--     head, body, extra, rest: twice the same gift, as it is and masked
--     rest: its gifter, and its record as it waits for its own time; that of the masked one has "masked" as its last line
-- DATA writes, always
-- RETURNS the header, when the next entry is due or "", "done" or "gone" (it was not in review any more), and what is
--   remembered of its id or ""
-- REFUSES as feed/publish and ledger/append do

local GIFT, as_given, as_masked = ARGV.gift, gift_at(1), gift_at(2)
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

if not score or (ARGV.decision == '-' and score > now) then
  local over, status = match(known, '^(%d+) %x+ (%l)%u? ')
  local holds = over and (status == 'w' or status == 'v' or steady < tonumber(over))
  return { header(), next_due(), 'gone', holds and known or '' }
end

local user, name = person_of(as_given.body)
local action, own_will = ARGV.decision, score > now
if not own_will then action = ({ show = 'A', mask = 'M', deny = 'D' })[policy.review_default] end
if ARGV.blocked_everywhere == '1' or ARGV.decision == 'R' or is_blocked(user) then action = 'D' end

local came, deliver = match(entry, '^[^\n]*\n(%d+) (%S+)\n')
deliver = tonumber(deliver)
-- One that came while the clock was ahead waits for as long as it was to wait.
if deliver and tonumber(came) > now then deliver = now + deliver - came end
due_remove(member)
local answer
if action == 'D' then
  -- What is taken back in the same step is not counted.
  if ARGV.decision == 'R' then count_gift = nil end
  answer = keep_back('n', 'D', as_given)
  -- A second entry takes away what the first one gave. A function, because this script is at Lua's limit of 200 locals.
  if ARGV.decision == 'R' then
    answer = (function()
      local head, given = match(answer, '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) [^%s|]+|?(%S*)$')
      local count, amount, currency = match(given, '^(%d+):(%d*):(%a*)$')
      if count then
        local value, who, kind = amount ~= '' and amount .. ' ' .. currency or '',
          match(as_given.body, '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n([^\n]*)\n')
        if count ~= '0' or value ~= '' and amount ~= '0' then
          enter('r', '-', GIFT .. ' 0 - -',
            table.concat({ count, value, '', '', '0', who, kind, ARGV.reason, ' ', '' }, '\n'), nil, true)
        end
      end
      return head .. ' x'
    end)()
    ids[as_given.id_key] = answer
  end
else
  local gift = action == 'M' and as_masked or as_given
  if deliver and deliver > now then
    local since = tonumber(ARGV.looked_at)
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
