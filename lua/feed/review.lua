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
--     decision: approve, mask or deny; retract to deny it and take it back in the same step; "" when time decides, if it has come
--     gift: its id
--     reason: why it is taken back, as JSON, or ""
--     head, body, extra, rest: twice the same gift, as it is and masked
--     rest: its gifter, and its record as it waits for its own time
-- DATA writes, always
-- RETURNS the header, when the next entry is due or "", "done" or "gone" (it was not in review any more), and its
--   receipt or ""
-- REFUSES as feed/publish and ledger/append do

local GIFT, as_given, as_masked = ARGV.gift, gift_at(1), gift_at(2)

local function next_due()
  local first = due_first()
  return first and int(first) or ''
end

-- Denies the gift. One that is taken back in the same step is not counted, and a second entry takes away what the first one gave.
local function deny()
  if ARGV.decision ~= 'retract' then return keep_back('denied', 'deny', as_given) end
  count_gift = nil
  keep_back('denied', 'deny', as_given)
  local it = receipt_of(as_given)
  local sum = it.given or it.added
  if not it.test and (sum.units ~= 0 or (sum.amount or 0) ~= 0) then
    local value, who, kind = sum.amount and int(sum.amount) .. ' ' .. sum.currency or '',
      match(as_given.body, '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n([^\n]*)\n')
    enter('r', '-', GIFT .. ' 0 - -',
      concat({ int(sum.units), value, '', '', '0', who, kind, ARGV.reason, ' ', '' }, '\n'), nil, true)
  end
  return keep_receipt(as_given, receipt.taken_back(it))
end

-- Decides, unless somebody has. A function, because the texts in front of it nearly fill Lua's 200 locals.
local function decide()
  local entry = call('HGET', REVIEWS, GIFT)
  local member = entry and match(entry, '^[^\n]*')
  local score = member and tonumber(call('ZSCORE', DUE, member))
  due_waiting()
  call('ZCARD', APPROVED)
  if not score or (ARGV.decision == '' and score > now) then
    local before = receipt_of(as_given)
    return { header(), next_due(), 'gone', before and receipt.is_kept(before, steady) and as_given.known or '' }
  end

  local user, name = person_of(as_given.body)
  local action, own_will = ARGV.decision, score > now
  if not own_will then action = policy.review_default == 'show' and 'approve' or policy.review_default end
  if ARGV.blocked_everywhere == '1' or ARGV.decision == 'retract' or is_blocked(user) then action = 'deny' end

  local came, deliver = match(entry, '^[^\n]*\n(%d+) (%S+)\n')
  deliver = tonumber(deliver)
  -- One that came while the clock was ahead waits for as long as it was to wait.
  if deliver and tonumber(came) > now then deliver = now + deliver - came end
  due_remove(member)
  local answer
  local gift = action == 'mask' and as_masked or as_given
  if action == 'deny' then
    answer = deny()
  elseif deliver and deliver > now then
    local since = tonumber(ARGV.looked_at)
    if not since or deliver < since then return { '', 'register', int(deliver), int(policy.delay_ms) } end
    due_add(deliver, 'g', GIFT, gift.own)
    answer = keep_receipt(gift, { status = 'scheduled', decision = action, since = now, due_at = deliver })
  else
    answer = take_now(gift, action)
  end
  local not_yet = finish()
  if not_yet then return not_yet end
  call('HDEL', REVIEWS, GIFT)
  if action == 'approve' and own_will then approve_name(user, name) end
  return { header() .. news, next_due(), 'done', answer }
end

return decide()
