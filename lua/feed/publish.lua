-- publish: takes gifts into a feed, in order, as one step.
--
-- A gift whose id came before gets the receipt that it got then. One that is for later, or that a host has to look at, waits. Any
-- other joins the row that has the dedup lock of its user and kind (dedup "combine"), or is suppressed by that lock ("drop"), or
-- becomes a row on top of the capped list. Whatever becomes of it, the ledger gets an entry.
--
-- KEYS list hist meta policy due later ledger reports readers totals sums people unranked parts announced blocks reviews
--   approved, per gift: id lock
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at may_wait blocked_everywhere, per gift: fingerprint combo given body entry ranked user
--   record show
--     may_wait: how many gifts may wait for their time
--     blocked_everywhere: "" when no giver is; else a 1 for each gift whose giver is, a 0 for each other
--     see feed/gift for those of each gift
-- USES clock policies list feed lock locks receipts ledger gift
-- LATER doubt settle row rows merge combo frame waiting schedule blocks screening room stored counting runs sums person notices
-- DATA writes, grows
-- RETURNS where the feed stands, then one text per gift: "n" (new) or "d" (came before) and its receipt; or "f", and "F" for review,
--   and in how many milliseconds the first is due (as many wait as may)
-- REFUSES with "", "register", a time, the policy's delay: nothing was done; the feed must be in the index from that time on, and
--   records must come along. With an error DAMAGED. See also ledger/writer, totals/counting

local refusal = gift.refusal_at_start()
if refusal then return refusal end
local policy = feed.policy
local is_screened = policy.review ~= 'off' or STRINGS.blocks or ARGV.blocked_everywhere ~= ''

-- What is answered to the nth gift. Nothing is written yet.
local function publish(n)
  local receipt = receipts.find(n)
  if receipt then return 'd' .. receipt end
  local answer = is_screened and LATER.screening.judge(n)
  if answer then return answer end
  local due_at = (ARGV.show[n] ~= '' or policy.delay_ms > 0) and LATER.waiting.due_at(n)
  if due_at then return LATER.waiting.add(n, due_at) end
  return 'n' .. gift.take(n)
end

local answers = { '' }
for n = 1, ITEM_COUNT do answers[n + 1] = publish(n) end
refusal = gift.refusal()
if refusal then return refusal end

-- From here on nothing can fail.
feed.commit()
answers[1] = feed.position() .. ledger.news
return answers
