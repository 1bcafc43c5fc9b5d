-- session: begins a session by name, unless it is the present one. What counts by session begins anew.
--
-- KEYS list hist meta policy due ledger reports readers totals sums people unranked parts announced
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at time_zone bounds session
--     session: its name
-- USES clock policies list feed ledger
-- LATER doubt settle row rows room stored runs sums notices calendar
-- DATA writes
-- RETURNS where the feed stands, then "new" or "same", and when the session began
-- REFUSES as totals/tick does

if feed.refusal then return feed.refusal end
local refusal = LATER.calendar.settle()
if refusal then return refusal end
if feed.is_resized then LATER.settle.resize() end
feed.begin()
local session = LATER.runs.state.session
local is_new = not session or session.id ~= ARGV.session
if is_new then LATER.calendar.begin_session(ARGV.session) end
refusal = LATER.notices.refusal(feed.now) or ledger.refusal()
if refusal then return refusal end
feed.commit()
return { feed.position() .. ledger.news, is_new and 'new' or 'same', feed.int(LATER.runs.state.session.since) }
