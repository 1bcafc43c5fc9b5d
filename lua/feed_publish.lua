-- feed_publish: takes gifts in order, as one step; those for later join the due queue.
--
-- KEYS 13 + 2 per gift:
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
--   14 id: of the gift
--   15 lock: of its user and kind
-- ARGV 14 + 7 per gift:
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
--   13 in the index since: when the feed was registered among due feeds, a time, or ""
--   14 gifts that may wait
--   15 fingerprint, hex
--   16 show: "" by policy, "-" at once, "+MS" later, or a time
--   17 combo key, "" without explicit combo
--   18 body: see feed_gifts
--   19 record: of the gift, its id the first line; "" as long as it is not known to be for later
--   20 extra: second line of its entry in the ledger; "" for a test, which is no entry
--   21 gifter: "r USER", or "- USER" for one who is not ranked
-- RETURNS the header, then one text per gift: "n" (new) or "d" (came before) and what is remembered of
--   its id; or "f" and in how many milliseconds the first is due (as many wait as may)
-- REFUSES with "", "register", a time, the policy's delay: nothing was done; the feed must be in the index
--   from that time on, and records must come along. See also feed_ledger, feed_count

local REGISTERED, MAX = tonumber(ARGV[13]), tonumber(ARGV[14])
local unregistered, gifts_waiting = false, false

local function schedule(a, index, at)
  if not gifts_waiting then gifts_waiting = due_waiting() > 0 and call('HLEN', LATER) - 1 or 0 end
  if gifts_waiting >= MAX then
    local first = due_first()
    return 'f' .. int(math.max((first or at) - now, 0))
  end
  local text = ARGV[a + OWN]
  if text == '' or not REGISTERED or at < REGISTERED then
    unregistered = math.min(unregistered or at, at)
    return ''
  end
  due_add(at, 'g', match(text, '^[^\n]+'), text)
  gifts_waiting = gifts_waiting + 1
  local answer = int(at) .. ' ' .. ARGV[a] .. ' w 0 0 ' .. int(at) .. ' -'
  ids[KEYS[index]], waits[KEYS[index]] = answer, true
  return 'n' .. answer
end

local answers = take_all(schedule)
if unregistered then return { '', 'register', int(unregistered), int(policy.delay) } end
local not_yet = ledger_refuses()
if not_yet then return not_yet end
commit('=')
remember()
ledger_commit()
due_commit()
answers[1] = header() .. news
return answers
