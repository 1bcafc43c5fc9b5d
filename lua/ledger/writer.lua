-- writer: appends to the feed's ledger what happened. ledger/stored says how a ledger is stored.
--
-- Of ARGV
--   hooks_version  is that of the set of webhooks of all feeds that the caller knows
--   registered     is IDLE as the script answered it, once these webhooks are registered in the index of jobs; else ""
--   ledger_bounds  is LEDGER_MAX BACKLOG_MAX MAX_AGE, where 0 is no age
--
-- A script that appends may answer instead of everything, and then has written nothing:
--   "", "hooks"          webhooks of all feeds are to be brought here first (ledger/attach)
--   "", "reports", IDLE  these webhooks are to be registered first
-- and behind the feed's position `news`: how many entries were cut that some reader was not done with; "," and how many of those
-- were gone with the list when the store let go of it; and then, if there are any, the webhooks that doze: these are to be
-- registered now. (Who cannot do so any more only makes them late: a webhook that dozes is looked at soon.)

local call, int = redis.call, feed.int
local entries, length = {}, call('LLEN', KEYS.ledger)
local limit, hooks, readers, base, rest = string.match(STRINGS.reports or '', '^(%d+) (%d+) %- (%d+) %d+ (%d+)()')
local is_usual = limit and hooks == ARGV.hooks_version and length > 0
-- The number of the first entry of this call.
local first = is_usual and base + length
-- state: the ledger, where more than its length changes.
local ledger = { news = '', state = false, entries = entries }

-- Adds an entry of this kind, about this row if there is one, with these members besides. `is_unseen` where no change came with it.
-- Its number, as text.
function ledger.append(kind, row_id, members, is_unseen)
  first = first or LATER.room.open(ledger, length)
  entries[#entries + 1] = '{"at":' .. feed.time .. ',"seq":' .. feed.seq_text .. ',"type":"' .. kind
    .. (row_id and '","row":"' .. row_id .. '",' or '",') .. (is_unseen and '"unseen":true,' or '') .. members .. '}'
  return int(first + #entries - 1)
end

-- What is to be answered instead, if anything.
function ledger.refusal()
  if #entries == 0 then return nil end
  if not is_usual or length + #entries > limit + 0 then return LATER.room.make(ledger, length) end
end

feed.commits[#feed.commits + 1] = function()
  if #entries == 0 then return end
  local state = ledger.state
  if state and state.broken then call('UNLINK', KEYS.ledger) end
  feed.call_in_parts('RPUSH', KEYS.ledger, entries)
  local is_read = readers ~= '0'
  if state then
    is_read = state.readers > 0
    if state.cut > 0 then call('LTRIM', KEYS.ledger, int(state.cut), '-1') end
    if #state.lost > 0 then call('HSET', KEYS.readers, unpack(state.lost)) end
    if state.changed or is_read then call('SET', KEYS.reports, LATER.stored.reports_of(state)) end
  elseif is_read then
    call('SET', KEYS.reports, string.sub(STRINGS.reports, 1, rest - 1) .. ' ' .. int(length + #entries))
  end
  -- Who waits for entries listens on the feed's channel.
  if is_read and #feed.changes == 0 and not feed.is_lost and not feed.is_strayed then
    feed.announce('live', {})
  end
end

return ledger
