-- retract_gift: takes one gift back by its id, or refunds a part of its value (reversal). A gift that waits is cancelled.
--
-- KEYS list hist meta policy due later ledger reports readers totals sums people unranked parts announced retracted id
--     id: of the gift
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at gift refunded reason
--     gift: its id
--     refunded: how much of its value is refunded by now, in minor units; "" to take the gift back
--     reason: as JSON, or ""
-- USES clock policies list feed ledger receipt retraction reversal
-- LATER doubt settle row rows schedule room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, then what reversal answers; "v" for one in review, which is to be denied (feed/review), and of a
--   refund also for one that waits; or "0" when the id is not, or no longer, remembered with its part
-- REFUSES as ledger/writer and totals/counting do

if feed.refusal then return feed.refusal end
local int, now = feed.int, feed.now
local it, id, refunded = receipt.read(STRINGS.id), ARGV.gift, ARGV.refunded

local function answer(...)
  return { feed.position() .. ledger.news, ... }
end

-- A gift that waits leaves the due queue.
local function cancel()
  local due_at = LATER.schedule.cancel(id)
  if not due_at then return answer('0') end
  receipt.cancel(it, due_at, KEYS.id)
  feed.commit()
  return answer('1', '0', '-')
end

if it and it.status == 'in_review' then return answer('v') end
if not it or not receipt.is_kept(it, feed.steady) and now >= (it.keep_until or 0) then return answer('0') end
if it.status == 'cancelled' then return answer('1', '0', '-') end
if it.status == 'scheduled' then return refunded == '' and cancel() or answer('v') end

local refunds = refunded ~= '' and tonumber(refunded) or nil
local reversed, is_changed = reversal.apply(it, { id = id, reason = ARGV.reason ~= '' and ARGV.reason or nil }, refunds)
if not is_changed then return answer(unpack(reversed)) end
local refusal = retraction.refusal()
if refusal then return refusal end

feed.commit()
redis.call('SET', KEYS.id, receipt.write(it), 'KEEPTTL')
return answer(unpack(reversed))
