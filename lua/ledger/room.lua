-- room: what is to be done before entries are appended, most of the time nothing: a ledger begins or was lost, is full, or webhooks
-- of it rest.

local call, match = redis.call, string.match
-- How many entries more than wanted are kept, as a part of them and at most, so that the oldest are cut once in a while.
local SLACK_PART, SLACK_MAX = 32, 256
-- How many entries that are too old are cut at a time; a call cuts fewer than twice as many.
local OLD_AT_A_TIME = 512

-- How many of the oldest entries are cut once the ledger has this length, and how many of these some reader was not done with: what
-- every reader is done with, down to LEDGER_MAX. Whatever readers say, no more than BACKLOG_MAX is kept, and of what is older than
-- MAX_AGE no more than LEDGER_MAX.
local function plan_cut(state, length)
  local most, backlog, age = match(ARGV.ledger_bounds, '^(%d+) (%d+) (%d+)$')
  most, age = tonumber(most), tonumber(age)
  local behind = state.base + length
  local kept, floor = behind - most, behind - most
  for _, text in ipairs(call('HVALS', KEYS.readers)) do floor = math.min(floor, tonumber(match(text, '^(%d+) ') or behind)) end
  floor = math.max(floor, state.base)
  local to = math.max(floor, behind - tonumber(backlog))
  local step = age > 0 and OLD_AT_A_TIME or 0
  while step >= 1 do
    local last = to + step - 1
    local entry = last < kept and call('LINDEX', KEYS.ledger, feed.int(last - state.base))
    local at = LATER.stored.entry_time(entry)
    if at and at + age < math.min(feed.now, feed.steady) then to = last + 1 end
    step = math.floor(step / 2)
  end
  local cut = to - state.base
  state.base, state.changed = to, true
  state.limit = math.max(length - cut, most) + math.min(SLACK_MAX, math.floor(most / SLACK_PART))
  return cut, math.max(0, to - floor)
end

-- The ledger, which has this length, as it is once something was appended: the number of the first entry that comes.
local function open(ledger, length)
  local state = LATER.stored.ledger_of(STRINGS.reports, length, KEYS.readers)
  state.cut, state.lost, state.unread, state.lost_count = 0, {}, 0, 0
  ledger.state = state
  if state.vanished then
    state.lost_count, state.lost = LATER.stored.ledger_mourn(state, math.max(state.base + state.length, feed.now * 1000), KEYS.readers)
    state.changed = true
  elseif state.length == 0 then
    state.base, state.changed = math.max(state.base, feed.now * 1000), true
    state.start = state.base
  end
  return state.base + state.length
end

-- What is to be answered instead, if anything; else the ledger, which has this length now, has room.
local function make(ledger, length)
  if not ledger.state then open(ledger, length) end
  local state, dozing = ledger.state, ''
  if tonumber(ARGV.hooks_version) > state.hooks then return { '', 'hooks' } end
  if state.idle ~= '-' then
    -- A stamp that is a plain number is that of a webhook that rests.
    if ARGV.registered ~= state.idle and string.find(state.idle, ',%d+,%d') then return { '', 'reports', state.idle } end
    -- Those that doze are registered afterwards, whatever was before: a look in between leaves no trace of itself.
    for one in string.gmatch(state.idle, '[^;]+') do
      if string.find(one, ',~', 1, true) then dozing = dozing .. (dozing == '' and ' ' or ';') .. one end
    end
    state.idle, state.changed = '-', true
  end
  state.length = state.length + #ledger.entries
  if state.length > state.limit then
    state.cut, state.unread = plan_cut(state, state.length)
    state.length = state.length - state.cut
  end
  if state.unread + state.lost_count > 0 or dozing ~= '' then
    ledger.news = ' ' .. feed.int(state.unread) .. (state.lost_count > 0 and ',' .. feed.int(state.lost_count) or '') .. dozing
  end
end

return { open = open, make = make }
