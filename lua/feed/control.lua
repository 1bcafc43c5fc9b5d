-- control: sends overlays a control message.
--
-- KEYS list rows hist meta policy control
--     control: STRING "PAUSED MUTED", each 0 or 1; none is "0 0"
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel action row
--     action: pause, resume, skip, mute, unmute or replay
--     row: its id, or "-"
-- DATA writes
-- RETURNS the header, then "1", or "0" for the replay of a row that is not in the list
-- REFUSES nothing

settle()
local action, row = ARGV.action, ARGV.row
local paused, muted = match(strings[4] or '', '^([01]) ([01])$')
local was = (paused or '0') .. ' ' .. (muted or '0')
if action == 'pause' then paused = '1' elseif action == 'resume' then paused = '0' end
if action == 'mute' then muted = '1' elseif action == 'unmute' then muted = '0' end
local is = (paused or '0') .. ' ' .. (muted or '0')

local found = action ~= 'replay'
for _, entry in ipairs(entries) do
  found = found or match(entry, '^%S+') == row
end
if found and (is ~= was or action == 'skip' or action == 'replay') then
  if not epoch then
    epoch, born = CANDIDATE, CANDIDATE
  end
  record('control ' .. action .. ' ' .. row, '')
end
commit('=')
if is ~= was then call('SET', KEYS.control, is) end
return { header(), found and '1' or '0' }
