-- claim: claims units, claim by claim in order, as one step.
--
-- KEYS list hist meta policy due drops ledger reports readers totals sums people unranked parts announced shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder, per claim: claim fingerprint user_digest units pay user message
--   trace
--     fingerprint: hex
--     pay: "now" or "later"
--     user: JSON
--     message: JSON, or ""
--     trace: the step of a trace that brought the sale, as JSON, or ""
-- USES clock policies list feed ledger stock
-- LATER doubt settle row rows receipt room stored counting runs sums person notices
-- DATA writes, grows
-- RETURNS where the feed stands, then one text per claim: "n" (new) or "a" (came before) and what `claims` has of it; "u" (no
--   such drop); "p" and how many units one user may have; "o" and the phase; "c" and, if it is known, the
--   user's first claim, newline, and what `claims` has of it; "s" and how many are free; "h" and in how
--   many ms the user's earliest hold ends. Or only "m" (call again)
-- REFUSES u, p, o, c, s and h: that claim changes nothing

local refusal = stock.refusal_at_start()
if refusal then return refusal end
local now, int = feed.now, feed.int
stock.sweep()
local fresh = {} -- user -> ends of the holds that this call made

-- How many holds of this user are unpaid, and when the first of them ends.
local function unpaid_of(user)
  local from, to = '[' .. user .. ' ' .. stock.padded(now + 1), '(' .. user .. '!'
  local mine = fresh[user] or {}
  local count, earliest = redis.call('ZLEXCOUNT', KEYS.unpaid, from, to), nil
  if count > 0 and count + #mine >= stock.most then
    local first = redis.call('ZRANGEBYLEX', KEYS.unpaid, from, to, 'LIMIT', '0', '1')[1]
    earliest = tonumber(string.match(first, '^%S+ (%d+) '))
  end
  for _, at in ipairs(mine) do
    if not earliest or at < earliest then earliest = at end
  end
  return count + #mine, earliest
end

-- What is answered to the nth claim. Nothing is written yet.
local function take(n)
  if not stock.is_there then return 'u' end
  local id, user, count, later = ARGV.claim[n], ARGV.user_digest[n], tonumber(ARGV.units[n]), ARGV.pay[n] == 'later'
  local known = stock.claim_of(id)
  if known then return 'a' .. known end
  if count > stock.per_user then return 'p' .. int(stock.per_user) end
  local phase = stock.phase()
  if phase == 'pending' or phase == 'closed' then return 'o' .. phase end
  local taken = stock.units_of(user)
  if taken.n + count > stock.per_user then
    local first = taken.firsts[1]
    local text = first and stock.claim_of(first)
    return text and 'c' .. first .. '\n' .. text or 'c'
  end
  if count > stock.free() then return 's' .. int(stock.free()) end
  local it = {
    fingerprint = ARGV.fingerprint[n], count = count, value = stock.value_of(count), user_digest = user, made_at = now, user = ARGV.user[n],
    message = ARGV.message[n] ~= '' and ARGV.message[n] or nil,
  }
  if later then
    local holds, earliest = unpaid_of(user)
    if holds >= stock.most then return 'h' .. int((earliest or now) - now) end
    if not fresh[user] then
      fresh[user] = {}
      redis.call('ZCARD', KEYS.holds) -- checks its type
    end
    it.expires_at = math.min(now + stock.ttl, clock.MAX_TIME)
    table.insert(fresh[user], it.expires_at)
    stock.held = stock.held + count
    stock.add_hold(it.expires_at, ARGV.units[n], user, id)
  else
    stock.sold = stock.sold + count
    stock.sell(id, it, ARGV.trace[n])
  end
  stock.stale = true
  stock.take_units(user, count, id)
  local claim = stock.put_claim(id, it)
  -- A drop that sells out is announced there and then, not after the claims that come in the same call.
  if stock.must_announce() then stock.announce() end
  return 'n' .. claim
end

local answers = { '', 'm' }
if not stock.has_more then
  for n = 1, ITEM_COUNT do answers[n + 1] = take(n) end
end
refusal = stock.finish()
if refusal then return refusal end
answers[1] = feed.position() .. ledger.news
return answers
