-- show: takes gifts whose time has come, in order, as one step with their leaving the due queue. One that is not in the queue any
-- more, or not due, is left alone, so that several may try.
--
-- KEYS list hist meta policy due later ledger reports readers totals sums people unranked parts announced blocks, per gift: id lock
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at blocked_everywhere, per gift: fingerprint combo given body entry ranked user member
--     blocked_everywhere: a 1 for each gift whose giver is, a 0 for each other
--     member: of due
--     see feed/gift for the others of each gift
-- USES clock policies list feed lock locks receipts ledger gift schedule
-- LATER doubt settle row rows merge combo frame blocks room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, when the next entry is due or "", then one text per gift: "n" and its receipt, or "x" (not done)
-- REFUSES as ledger/writer and totals/counting do

local refusal = gift.refusal_at_start()
if refusal then return refusal end
local members = {}
for n = 1, ITEM_COUNT do members[n] = ARGV.member[n] end
local due_times = redis.call('ZMSCORE', KEYS.due, unpack(members))

-- What is answered to the nth gift. Nothing is written yet.
local function show(n)
  local due_at = tonumber(due_times[n] or nil)
  if not due_at or due_at > feed.now then return 'x' end
  schedule.remove(members[n], string.match(members[n], '^%d+ %a(.*)$'))
  if LATER.blocks.is_blocked(n) then return 'n' .. gift.keep_back(n, 'suppressed') end
  local _, before = receipts.find(n)
  return 'n' .. gift.take(n, before and before.status == 'scheduled' and before.decision or nil)
end

local answers = { '', '' }
for n = 1, ITEM_COUNT do answers[n + 2] = show(n) end
refusal = gift.refusal()
if refusal then return refusal end

feed.commit()
local next_due = schedule.first()
answers[1], answers[2] = feed.position() .. ledger.news, next_due and feed.int(next_due) or ''
return answers
