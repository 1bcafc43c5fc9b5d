-- show: takes gifts whose time has come, in order, as one step with their leaving the due queue.
-- One that is not in the queue any more, or not due, is left alone, so that several may try.
--
-- KEYS list rows hist meta policy due later ledger reports readers count tally parts left told blocks reviews
--   approved, per gift: id lock
--     id: of the gift
--     lock: of its user and kind; of a frame its combo
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at blocked_everywhere, per gift: head body extra rest
--     blocked_everywhere: a 1 for each gift whose giver is, a 0 for each other
--     rest: its gifter, and the member of due
-- DATA writes, always
-- RETURNS the header, when the next entry is due or "", then one text per gift: "n" and its
--   receipt, or "x" (not done)
-- REFUSES as ledger/append and totals/count do

local gifts, members = {}, {}
for n = 1, ITEM_COUNT do
  gifts[n] = gift_at(n)
  members[n] = gifts[n].own
end
local scores = call('ZMSCORE', DUE, unpack(members))
due_waiting()

local answers = {}
for n, gift in ipairs(gifts) do
  local member, score = gift.own, tonumber(scores[n])
  if score and score <= now then
    if string.sub(ARGV.blocked_everywhere, n, n) == '1' or is_blocked((person_of(gift.body))) then
      answers[n + 2] = 'n' .. keep_back('suppressed', nil, gift)
    else
      local before = receipt_of(gift)
      answers[n + 2] = 'n' .. take_now(gift, before and before.status == 'scheduled' and before.decision or nil)
    end
    due_remove(member, match(member, '^%d+ %a(.*)$'))
  else
    answers[n + 2] = 'x'
  end
end
local not_yet = finish()
if not_yet then return not_yet end
local next_due = due_first()
answers[1], answers[2] = header() .. news, next_due and int(next_due) or ''
return answers
