-- end: ends a hold, by selling or by cancelling it.
--
-- KEYS list hist meta policy due drops ledger reports readers totals sums people unranked parts announced shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder how claim trace
--     how: "confirm" or "cancel"
--     claim: that made the hold
--     trace: the step of a trace that brought the sale, as JSON, or ""
-- USES clock policies list feed ledger stock
-- LATER doubt settle row rows receipt room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, then "n" and what `claims` has of it; "a" and the same (confirm: it was confirmed before);
--   "e" (it ended before, or cancel: was sold) or "u" (no such hold)
-- REFUSES e and u

local refusal = stock.refusal_at_start()
if refusal then return refusal end

stock.sweep()

-- Ends the hold: what is answered. Nothing is written yet.
local function end_hold()
  local id = ARGV.claim
  local known = stock.is_there and stock.claim_of(id)
  local it = known and stock.read_claim(known)
  if not it or not it.expires_at then return 'u' end
  if it.sale then return ARGV.how == 'confirm' and 'a' .. known or 'e' end
  if ARGV.how == 'cancel' then
    local cancelled = stock.cancel_hold(id, it)
    return cancelled and 'n' .. cancelled or 'e'
  end
  local ends_at, count, user = it.expires_at, feed.int(it.count), it.user_digest
  local is_unpaid = ends_at > feed.now and redis.call('ZSCORE', KEYS.holds, 'h ' .. count .. ' ' .. user .. ' ' .. id)
  if not is_unpaid then return 'e' end
  stock.take_out(ends_at, count, user, id)
  stock.sold = stock.sold + it.count
  stock.sell(id, it, ARGV.trace, true)
  return 'n' .. stock.put_claim(id, it)
end

local answer = end_hold()
refusal = stock.finish()
if refusal then return refusal end
return { feed.position() .. ledger.news, answer }
