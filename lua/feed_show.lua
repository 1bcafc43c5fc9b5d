-- feed_show: takes gifts whose time has come, in order, as one step with their leaving the due queue.
-- One that is not in the queue any more, or not due, is left alone, so that several may try.
--
-- KEYS 16 + 2 per gift:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 later
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 blocks
--   17 id: of the gift
--   18 lock: of its user and kind; of a frame its combo
-- ARGV 14 + 4 per gift, see feed_gifts:
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
--   13 looked at: from when on the feed is known to be looked at by whoever does what is due
--   14 blocked everywhere: a 1 for each gift whose giver is, a 0 for each other
--   15 head
--   16 body
--   17 extra
--   18 rest: its gifter, and the member of due
-- DATA writes, always
-- RETURNS the header, when the next entry is due or "", then one text per gift: "n" and what is
--   remembered of its id from now on, or "x" (not done)
-- REFUSES as feed_ledger and feed_count do

local gifts, members = {}, {}
for n = 1, (#KEYS - 16) / 2 do
  gifts[n] = gift_at(15 + 2 * n, 11 + 4 * n)
  members[n] = gifts[n].own
end
local scores = call('ZMSCORE', DUE, unpack(members))
due_waiting()

local answers = {}
for n, gift in ipairs(gifts) do
  local member, score = gift.own, tonumber(scores[n])
  if score and score <= now then
    if string.sub(ARGV[14], n, n) == '1' or is_blocked((person_of(gift.body))) then
      answers[n + 2] = 'n' .. keep_back('s', '', gift)
    else
      answers[n + 2] = 'n' .. take_now(gift, match(known_of(gift) or '', '^%d+ %x+ w(%u)'))
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
