-- snapshot: the list as it stands. Removes rows whose time has ended; of a feed that nobody wrote to
-- it writes nothing.
--
-- KEYS list hist meta policy shown control announced
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel
-- USES clock policies list feed
-- LATER doubt settle row rows
-- DATA writes, always
-- RETURNS where the feed stands, the policy's text ("" for none), the overlays' control state as in feed/control or "", how many
--   rows, these, newest first, then what was announced of the feed's drops, then of totals and goals
-- REFUSES nothing

if feed.refusal then return feed.refusal end
if feed.is_unsettled then LATER.settle.apply() end

local rows = LATER.rows.all()
local answer = { feed.position(), STRINGS.policy or '', STRINGS.control or '', feed.int(#rows) }
for at, row in ipairs(rows) do answer[at + 4] = row.text end
for _, key in ipairs({ KEYS.shown, KEYS.announced }) do
  for _, announced in ipairs(redis.call('HVALS', key)) do answer[#answer + 1] = announced end
end
feed.commit()
return answer
