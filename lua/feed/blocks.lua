-- blocks: who is blocked in a feed.
--
--   blocks  STRING, a line per user: "UNTIL AT USER"; UNTIL is 0 for ever, USER the id as JSON (feed/block_change)

-- The id and the name of the nth gift's giver, both as JSON. The giver is JSON, and no text in it has a quote of its own.
local function giver_of(n)
  local giver = LATER.row.giver(LATER.row.decode_gift(ARGV.body[n]))
  local user = string.sub(giver, 9, string.find(giver, ',"gift":', 1, true) - 1)
  local at = string.find(user, ',"name":', 1, true)
  local name = string.sub(user, at + 8, -2)
  for _, member in ipairs({ ',"avatar":', ',"anonymous":' }) do
    local behind = string.find(name, member, 1, true)
    if behind then name = string.sub(name, 1, behind - 1) end
  end
  return string.sub(user, 7, at - 1), name
end

-- Whether the nth gift's giver is blocked, in this feed or in all.
local function is_blocked(n)
  if string.sub(ARGV.blocked_everywhere, n, n) == '1' then return true end
  if not STRINGS.blocks then return false end
  local at = string.find(STRINGS.blocks, ' ' .. giver_of(n) .. '\n', 1, true)
  local ends_at = at and string.match(string.sub(STRINGS.blocks, 1, at - 1), '(%d+) %d+$')
  return ends_at == '0' or ends_at and feed.now < tonumber(ends_at) or false
end

return { giver_of = giver_of, is_blocked = is_blocked }
