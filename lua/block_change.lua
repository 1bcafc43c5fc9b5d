-- block_change: blocks a user, or ends a block. Blocks that are over go.
--
-- KEYS 1:
--   1 blocks: as feed_guard has them
-- ARGV 4:
--   1 now, milliseconds; "-" takes the store's clock
--   2 user: the id as JSON
--   3 until: a time, "0" for ever, or "" to end the block
--   4 blocks at most
-- DATA writes, grows
-- RETURNS "new" or "again"; of one that is ended "ended" or "none"
-- REFUSES with "full"

local call, match, format = redis.call, string.match, string.format
local now, user, til = tonumber(ARGV[1]), ARGV[2], ARGV[3]
if not now then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local lines, found = {}, false
for line in string.gmatch(call('MGET', KEYS[1])[1] or '', '[^\n]+') do
  local over, of = match(line, '^(%d+) %d+ (.+)$')
  if of == user then
    found = over == '0' or now < tonumber(over)
  elseif over == '0' or now < tonumber(over) then
    lines[#lines + 1] = line
  end
end
if til ~= '' then
  if not found and #lines >= tonumber(ARGV[4]) then return 'full' end
  lines[#lines + 1] = til .. ' ' .. format('%d', now) .. ' ' .. user
end
if #lines > 0 then
  call('SET', KEYS[1], table.concat(lines, '\n') .. '\n')
else
  call('DEL', KEYS[1])
end
if til ~= '' then return found and 'again' or 'new' end
return found and 'ended' or 'none'
