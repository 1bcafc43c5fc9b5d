-- feed_drop_claim: claims units, claim by claim in order, as one step.
--
-- KEYS 20:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 drops
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 shown
--   17 unpaid
--   18 claims: of the drop
--   19 holds: of the drop
--   20 units: of the drop
-- ARGV 15 + 9 per claim:
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
--   13 looked at: from then on
--   14 drop
--   15 reminder
--   16 claim
--   17 fingerprint, hex
--   18 user digest
--   19 units
--   20 pay: "now" or "later"
--   21 user, JSON
--   22 message, JSON, or ""
--   23 gifter: "r USER", or "- USER" for one who is not ranked
--   24 trace: what the entry of the sale ends with in its second line: nothing, or a blank and the trace
-- DATA writes, grows
-- RETURNS the header, then one text per claim: "n" (new) or "a" (came before) and what `claims` has of it; "u" (no
--   such drop); "p" and how many units one user may have; "o" and the phase; "c" and, if it is known, the
--   user's first claim, newline, and what `claims` has of it; "s" and how many are free; "h" and in how
--   many ms the user's earliest hold ends. Or only "m" (call again)
-- REFUSES u, p, o, c, s and h: that claim changes nothing

local unsettled
if count_gate then unsettled = count_gate() elseif strings[9] then unsettled = { '', 'count', time } end
if unsettled then return unsettled end
sweep()
local fresh = {} -- user -> ends of the holds that this run made

local function unpaid_of(user)
  local from, to = '[' .. user .. ' ' .. padded(now + 1), '(' .. user .. '!'
  local mine = fresh[user] or {}
  local count, earliest = call('ZLEXCOUNT', UNPAID, from, to), nil
  if count > 0 and count + #mine >= stock.most then
    local first = call('ZRANGEBYLEX', UNPAID, from, to, 'LIMIT', '0', '1')[1]
    earliest = tonumber(match(first, '^%S+ (%d+) '))
  end
  for _, at in ipairs(mine) do
    if not earliest or at < earliest then earliest = at end
  end
  return count + #mine, earliest
end

local function take(a)
  if not stock then return 'u' end
  local id, user, count, later = ARGV[a], ARGV[a + 2], tonumber(ARGV[a + 3]), ARGV[a + 4] == 'later'
  local known = claim_of(id)
  if known then return 'a' .. known end
  if count > stock.per_user then return 'p' .. int(stock.per_user) end
  local is = phase()
  if is == 'pending' or is == 'closed' then return 'o' .. is end
  local u = units_of(user)
  if u.n + count > stock.per_user then
    local first = u.firsts[1]
    local text = first and claim_of(first)
    return text and 'c' .. first .. '\n' .. text or 'c'
  end
  if count > free() then return 's' .. int(free()) end
  local expires, row = 0, '0 - -'
  if later then
    local holds, earliest = unpaid_of(user)
    if holds >= stock.most then return 'h' .. int((earliest or now) - now) end
    if not fresh[user] then
      fresh[user] = {}
      call('ZCARD', HOLDS)
    end
    expires = math.min(now + stock.ttl, MAX_TIME)
    table.insert(fresh[user], expires)
    stock.held = stock.held + count
    heed(expires)
    held_now[#held_now + 1] = int(expires)
    held_now[#held_now + 1] = 'h ' .. ARGV[a + 3] .. ' ' .. user .. ' ' .. id
    unpaid_now[#unpaid_now + 1] = '0'
    unpaid_now[#unpaid_now + 1] = unpaid_member(user, expires, ARGV[a + 3], id)
  else
    stock.sold = stock.sold + count
    row = sell(id, ARGV[a + 3], ARGV[a + 5], ARGV[a + 6], ARGV[a + 7], ARGV[a + 8])
  end
  stock.stale = true
  take_units(user, count, id)
  put_claim(id, ARGV[a + 1] .. ' ' .. ARGV[a + 3] .. ' ' .. user .. ' ' .. int(expires) .. ' ' .. time .. ' ' .. row .. '\n'
    .. ARGV[a + 5] .. '\n' .. ARGV[a + 6] .. '\n')
  -- A drop that sells out is told there and then, not after the claims that come in the same run.
  if must_tell() then tell() end
  return 'n' .. claims[id]
end

local answers = { '', 'm' }
if not more then
  for n = 0, (#ARGV - 15) / 9 - 1 do answers[n + 2] = take(16 + n * 9) end
end
local not_yet = finish()
if not_yet then return not_yet end
answers[1] = header() .. news
return answers
