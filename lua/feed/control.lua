-- control: sends overlays a control message.
--
-- KEYS list hist meta policy control
--     control: STRING "PAUSED MUTED", each 0 or 1; none is "0 0"
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel action row
--     action: pause, resume, skip, mute, unmute or replay
--     row: its id, or "-"
-- USES clock policies list feed
-- LATER doubt settle row rows
-- DATA writes
-- RETURNS where the feed stands, then "1", or "0" for the replay of a row that is not in the list
-- REFUSES nothing

if feed.refusal then return feed.refusal end
if feed.is_unsettled then LATER.settle.apply() end
local action, row_id = ARGV.action, ARGV.row
local paused, muted = string.match(STRINGS.control or '', '^([01]) ([01])$')
local was = (paused or '0') .. ' ' .. (muted or '0')
if action == 'pause' then paused = '1' elseif action == 'resume' then paused = '0' end
if action == 'mute' then muted = '1' elseif action == 'unmute' then muted = '0' end
local is = (paused or '0') .. ' ' .. (muted or '0')

local is_known = action ~= 'replay' or LATER.rows.find(row_id) ~= nil
if is_known and (is ~= was or action == 'skip' or action == 'replay') then
  feed.next_seq()
  feed.record('control', ',"action":"' .. action .. (row_id ~= '-' and '","id":"' .. row_id .. '"' or '"'))
end
feed.commit()
if is ~= was then redis.call('SET', KEYS.control, is) end
return { feed.position(), is_known and '1' or '0' }
