-- feed_show: takes gifts whose time has come, in order, as one step with their leaving the due queue.
-- One that is not in the queue any more, or not due, is left alone, so that several may try.
--
-- KEYS 7 + 2 per gift:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 later
--   8 id of the gift
--   9 lock of its user and kind
-- ARGV 9 + 5 per gift:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 fingerprint, hex
--   11 when to show; not looked at
--   12 combo key, "" without explicit combo
--   13 body: see feed_gifts
--   14 member of due
-- RETURNS the header, when the next entry is due or "", then one text per gift: "n" and what is
--   remembered of its id from now on, or "x" (not done)
-- REFUSES nothing

local members = {}
for gift = 0, (#KEYS - 7) / 2 - 1 do members[gift + 1] = ARGV[10 + gift * GIFT_ARGS + OWN] end
local scores = call('ZMSCORE', DUE, unpack(members))
due_waiting()

local answers = {}
for gift, member in ipairs(members) do
  local a, index = 10 + (gift - 1) * GIFT_ARGS, 8 + (gift - 1) * 2
  local score = tonumber(scores[gift])
  if score and score <= now then
    answers[gift + 2] = 'n' .. take_now(a, index)
    due_remove(member, match(member, '^%d+ %a(.*)$'))
  else
    answers[gift + 2] = 'x'
  end
end
commit('=')
remember()
due_commit()
local next_due = due_first()
answers[1], answers[2] = header(), next_due and int(next_due) or ''
return answers
