-- tick: settles what a feed counts in: runs begin and end, watchers are notified, and what no run needs any more goes.
--
-- KEYS list hist meta policy due ledger reports readers totals sums people unranked parts announced
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at runs measures time_zone bounds
-- USES clock policies list feed ledger
-- LATER doubt settle row rows room stored runs sums person rankings notices calendar
-- DATA writes, always
-- RETURNS where the feed stands, then when the due queue has something next, or ""
-- REFUSES with "", "again", the time: the policy or the calendar is another by now. See also ledger/writer, totals/rankings, totals/notices

if feed.refusal then return feed.refusal end
local refusal = LATER.calendar.settle()
if refusal then return refusal end
if feed.is_resized then LATER.settle.resize() end
LATER.notices.send()
local has_more = LATER.calendar.clean()
refusal = LATER.rankings.refusal() or LATER.notices.refusal_of_turn(has_more) or ledger.refusal()
if refusal then return refusal end
feed.commit()
local first = tonumber(redis.call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
return { feed.position() .. ledger.news, first and feed.int(first) or '' }
