-- claim: claims units, claim by claim in order, as one step.
--
-- KEYS list rows hist meta policy due drops ledger reports readers count tally parts left told shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder, per claim: claim fingerprint user_digest units pay user message
--   gifter trace
--     fingerprint: hex
--     pay: "now" or "later"
--     user: JSON
--     message: JSON, or ""
--     gifter: "r USER", or "- USER" for one who is not ranked
--     trace: what the entry of the sale ends with in its second line: nothing, or a blank and the trace
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

local function take(n)
  if not stock then return 'u' end
  local id, user, count, later = ARGV.claim[n], ARGV.user_digest[n], tonumber(ARGV.units[n]), ARGV.pay[n] == 'later'
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
    held_now[#held_now + 1] = 'h ' .. ARGV.units[n] .. ' ' .. user .. ' ' .. id
    unpaid_now[#unpaid_now + 1] = '0'
    unpaid_now[#unpaid_now + 1] = unpaid_member(user, expires, ARGV.units[n], id)
  else
    stock.sold = stock.sold + count
    row = sell(id, ARGV.units[n], ARGV.user[n], ARGV.message[n], ARGV.gifter[n], ARGV.trace[n])
  end
  stock.stale = true
  take_units(user, count, id)
  put_claim(id, ARGV.fingerprint[n] .. ' ' .. ARGV.units[n] .. ' ' .. user .. ' ' .. int(expires) .. ' ' .. time .. ' ' .. row .. '\n'
    .. ARGV.user[n] .. '\n' .. ARGV.message[n] .. '\n')
  -- A drop that sells out is told there and then, not after the claims that come in the same run.
  if must_announce() then announce() end
  return 'n' .. claims[id]
end

local answers = { '', 'm' }
if not more then
  for n = 1, ITEM_COUNT do answers[n + 1] = take(n) end
end
local not_yet = finish()
if not_yet then return not_yet end
answers[1] = header() .. news
return answers
