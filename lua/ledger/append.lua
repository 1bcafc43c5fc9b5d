-- append: appending to the feed's ledger; Rust puts this text behind feed_common's and ledger's, in front of
-- scripts that take gifts or sell. Of their ARGV
--   hooks_version  is that of the set of webhooks of all feeds that the caller knows
--   registered     is IDLE as this script answered it, once these webhooks are registered in the index of jobs; else ""
--   ledger_bounds  is LEDGER_MAX BACKLOG_MAX MAX_AGE, where 0 is no age
--
-- Such a script may answer instead of everything, and then has written nothing:
--   "", "hooks"          webhooks of all feeds are to be brought here first (ledger/attach)
--   "", "reports", IDLE  these webhooks are to be registered first
-- and behind its header, how many entries were cut that some reader was not done with; "," and how many of those were
-- gone with the list when the store let go of it; and then, if there are any, the webhooks that doze: these are to be
-- registered now. (Who cannot do so any more only makes them late: a webhook that dozes is looked at soon.)

local LEDGER, READERS = KEYS.ledger, KEYS.readers
-- ledger: as it stands, where that is looked at: most of the time there is nothing to be looked at but its length.
-- is_read: true when somebody reads it. grown: how long the list is afterwards. mourned: what readers is to hold.
local fresh, ledger, is_read, pushed, cut, unread, dozed = {}, false, false, false, 0, 0, ''
local base = 0 -- the number of the ledger's first entry, where `ledger` is not looked at
local grown, vanished, mourned = 0, 0, {}
-- What the header is followed by.
local news = ''

-- Status, row, and the lines behind the first of what happened now. `grown` is what a combo grew by, where body is a frame
-- of it, as "UNITS:AMOUNT:CURRENCY"; else what is given is told by the lines. `unseen` where no change came with it: then "~" stands
-- before the seq. Which of this call's entries it is.
local function enter(status, row, extra, body, grown, unseen)
  unseen = unseen or status == 's' or status == 'n'
  fresh[#fresh + 1] = status .. (unseen and ' ~' or ' ') .. seq_text .. ' ' .. row .. ' ' .. time
    .. (grown and ' ' .. grown or '') .. '\n' .. extra .. '\n' .. body
  return #fresh
end

-- The number of this call's first entry; after `ledger_refuses`.
local function first_entry()
  return (ledger and ledger.base or base) + grown - #fresh
end

-- What is cut once the ledger is of this length: from the front, what every reader is done with, down to
-- LEDGER_MAX. Whatever readers say, no more than BACKLOG_MAX is kept, and of what is older than MAX_AGE no more
-- than LEDGER_MAX; of that at most a thousand go at a time.
local function plan_cut(length)
  local most, backlog, age = match(ARGV.ledger_bounds, '^(%d+) (%d+) (%d+)$')
  most, age = tonumber(most), tonumber(age)
  local behind = ledger.base + length
  local kept, floor = behind - most, behind - most
  for _, text in ipairs(call('HVALS', READERS)) do
    floor = math.min(floor, tonumber(match(text, '^(%d+) ') or behind))
  end
  floor = math.max(floor, ledger.base)
  local to = math.max(floor, behind - tonumber(backlog))
  local step = age > 0 and 512 or 0
  while step >= 1 do
    local last = to + step - 1
    local entry = last < kept and call('LINDEX', LEDGER, int(last - ledger.base))
    local at = entry_time(entry)
    if at and at + age < math.min(now, steady) then to = last + 1 end
    step = math.floor(step / 2)
  end
  unread = math.max(0, to - floor)
  cut = to - ledger.base
  ledger.base, ledger.changed = to, true
  ledger.limit = math.max(length - cut, most) + math.min(256, math.floor(most / 32))
end

-- What is to be answered instead, if anything. Reads and decides what `ledger_commit` writes; where nothing is left
-- to be read, `first` lets it append at once, which also meets the key's type.
local function ledger_refuses(first)
  local not_counted = count_refuses and count_refuses()
  if not_counted then return not_counted end
  if #fresh == 0 then return nil end
  local length
  local limit, known, readers, first_number = match(strings[7] or '', '^(%d+) (%d+) %- (%d+) %d+ (%d+)')
  if first and limit and ARGV.hooks_version == known then
    length = call('RPUSHX', LEDGER, unpack(fresh))
    if length > 0 then
      pushed = length <= limit + 0
      if pushed then
        is_read, grown, base = readers ~= '0', length, first_number + 0
        return nil
      end
      -- Something is to be cut, which has more to read first.
      call('LTRIM', LEDGER, '0', int(-1 - #fresh))
      length = length - #fresh
    end
  else
    length = call('LLEN', LEDGER)
  end
  if limit and ARGV.hooks_version == known and length > 0 and length + #fresh <= limit + 0 then
    is_read, grown, base = readers ~= '0', length + #fresh, first_number + 0
    return nil
  end
  ledger = ledger_of(strings[7], length, READERS)
  is_read = ledger.readers > 0
  if ARGV.hooks_version + 0 > ledger.hooks then return { '', 'hooks' } end
  if ledger.idle ~= '-' then
    -- A stamp that is a plain number is that of one that rests.
    if ARGV.registered ~= ledger.idle and string.find(ledger.idle, ',%d+,%d') then
      return { '', 'reports', ledger.idle }
    end
    -- Those that doze are registered behind, whatever was before: a look in between leaves no trace of itself.
    for one in string.gmatch(ledger.idle, '[^;]+') do
      if string.find(one, ',~', 1, true) then dozed = dozed .. (dozed == '' and ' ' or ';') .. one end
    end
    ledger.idle, ledger.changed = '-', true
  end
  if ledger.vanished then
    vanished, mourned = ledger_mourn(ledger, math.max(ledger.base + ledger.length, now * 1000), READERS)
    ledger.changed = true
  elseif ledger.length == 0 then
    ledger.base, ledger.changed = math.max(ledger.base, now * 1000), true
    ledger.start = ledger.base
  end
  length = ledger.length + #fresh
  if length > ledger.limit then plan_cut(length) end
  grown = length - cut
  if unread + vanished > 0 or dozed ~= '' then
    news = ' ' .. int(unread) .. (vanished > 0 and ',' .. int(vanished) or '') .. dozed
  end
end

-- Writes what was entered; after `commit`. Who waits for entries listens on the feed's channel.
local function ledger_commit()
  if count_commit then count_commit() end
  if #fresh == 0 then return end
  local call = redis.call
  if ledger and ledger.broken then call('DEL', LEDGER) end
  if not pushed then in_parts('RPUSH', LEDGER, fresh) end
  if cut > 0 then call('LTRIM', LEDGER, int(cut), -1) end
  if #mourned > 0 then call('HSET', READERS, unpack(mourned)) end
  if ledger and ledger.changed then
    ledger.length = grown
    call('SET', KEYS.reports, reports_of(ledger))
  elseif is_read then
    call('SET', KEYS.reports, match(strings[7], '^%S+ %S+ %S+ %S+ %S+ %S+') .. ' ' .. int(grown))
  end
  if is_read and #changes == 0 and not lost and not strayed then
    call('SPUBLISH', ARGV.live_channel, 'live ' .. (epoch or '0') .. ' 0\n=\n')
  end
end
