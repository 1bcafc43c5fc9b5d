-- review: decides about a gift that waits for a host, in one step with its leaving the due queue. One about which somebody or time
-- has decided is left alone, so that several may try.
--
-- KEYS list hist meta policy due later ledger reports readers totals sums people unranked parts announced blocks reviews
--   approved, per gift: id lock
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at blocked_everywhere decision gift reason, per gift: fingerprint combo given body entry
--   ranked user record
--     blocked_everywhere: 1 when its giver is, else 0
--     decision: approve, mask or deny; retract to deny it and take it back in the same step; "" when time decides, if it has come
--     gift: its id
--     reason: why it is taken back, as JSON, or ""
--     those of each gift (feed/gift) stand twice for the same one, as it is and masked; record as it waits for its own time
-- USES clock policies list feed lock locks receipts ledger gift schedule
-- LATER doubt settle row rows merge combo frame blocks room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, when the next entry is due or "", "done" or "gone" (it was not in review any more), and its
--   receipt or ""
-- REFUSES as feed/publish and ledger/writer do

local AS_GIVEN, AS_MASKED = 1, 2
-- For how long an approved name passes, and how many names are remembered.
local NAME_KEPT_MS, NAMES_MAX = 2592000000, 10000
local call, int = redis.call, feed.int

local refusal = gift.refusal_at_start()
if refusal then return refusal end

local function answer(what, receipt)
  local next_due = schedule.first()
  return { feed.position() .. ledger.news, next_due and int(next_due) or '', what, receipt }
end

-- Denies the gift. Of one that is taken back in the same step a second entry takes away what the first one gave.
local function deny()
  local is_taken_back = ARGV.decision == 'retract'
  local receipt, given = gift.keep_back(AS_GIVEN, 'denied', 'deny', is_taken_back)
  local sum = cjson.decode(given)
  if is_taken_back and ARGV.entry[AS_GIVEN] ~= '' and (sum.units ~= 0 or (sum.amount or 0) ~= 0) then
    ledger.append('retracted', nil, '"given":' .. given .. (ARGV.reason ~= '' and ',"reason":' .. ARGV.reason or '')
      .. ',"gift":{"id":"' .. ARGV.gift .. '"' .. LATER.row.giver(LATER.row.decode_gift(ARGV.body[AS_GIVEN])) .. '}', true)
  end
  return receipt
end

local waiting = call('HGET', KEYS.reviews, ARGV.gift)
local member, came_at, due_at = string.match(waiting or '', '^([^\n]*)\n(%d+) (%S+)\n')
local decides_at = member and tonumber(call('ZSCORE', KEYS.due, member) or nil)
call('ZCARD', KEYS.approved) -- checks its type
if not decides_at or ARGV.decision == '' and decides_at > feed.now then
  return answer('gone', (receipts.find(AS_GIVEN)) or '')
end

local decision, is_by_host = ARGV.decision, decides_at > feed.now
if not is_by_host then decision = feed.policy.review_default == 'show' and 'approve' or feed.policy.review_default end
if ARGV.decision == 'retract' or LATER.blocks.is_blocked(1) then decision = 'deny' end
due_at = tonumber(due_at)
-- One that came while the clock was ahead waits for as long as it was to wait.
if due_at and tonumber(came_at) > feed.now then due_at = feed.now + due_at - came_at end

schedule.remove(member)
local shown_as, receipt = decision == 'mask' and AS_MASKED or AS_GIVEN, nil
if decision == 'deny' then
  receipt = deny()
elseif due_at and due_at > feed.now then
  local registered_at = tonumber(ARGV.looked_at)
  if not registered_at or due_at < registered_at then feed.unready_at = due_at end
  schedule.add(due_at, 'g', ARGV.gift, ARGV.record[shown_as])
  receipt = receipts.keep_waiting(shown_as, 'scheduled', ',"decision":"' .. decision .. '","due_at":' .. int(due_at))
else
  receipt = gift.take(shown_as, decision)
end
refusal = gift.refusal()
if refusal then return refusal end

feed.commit()
call('HDEL', KEYS.reviews, ARGV.gift)
if decision == 'approve' and is_by_host then
  local id, name = LATER.blocks.giver_of(AS_GIVEN)
  call('ZADD', KEYS.approved, int(feed.now + NAME_KEPT_MS), id .. ' ' .. name)
  call('ZREMRANGEBYRANK', KEYS.approved, '0', int(-1 - NAMES_MAX))
end
return answer('done', receipt)
