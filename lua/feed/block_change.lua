-- block_change: blocks a user, or ends a block. Blocks that are over go.
--
-- KEYS blocks
--     blocks: see feed/blocks
-- ARGV now user until blocks_at_most
--     user: the id as JSON
--     until: a time, "0" for ever, or "" to end the block
-- USES clock
-- DATA writes, grows
-- RETURNS "new" or "again"; of one that is ended "ended" or "none"
-- REFUSES with "full"

local call, match = redis.call, string.match
local now, user, til = clock.now, ARGV.user, ARGV.until

local lines, found = {}, false
for line in string.gmatch(call('MGET', KEYS.blocks)[1] or '', '[^\n]+') do
  local over, of = match(line, '^(%d+) %d+ (.+)$')
  if of == user then
    found = over == '0' or now < tonumber(over)
  elseif over == '0' or now < tonumber(over) then
    lines[#lines + 1] = line
  end
end
if til ~= '' then
  if not found and #lines >= tonumber(ARGV.blocks_at_most) then return 'full' end
  lines[#lines + 1] = til .. ' ' .. clock.text .. ' ' .. user
end
if #lines > 0 then
  call('SET', KEYS.blocks, table.concat(lines, '\n') .. '\n')
else
  call('UNLINK', KEYS.blocks)
end
if til ~= '' then return found and 'again' or 'new' end
return found and 'ended' or 'none'
