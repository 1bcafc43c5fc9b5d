-- stored: a feed's ledger and its readers, as they are stored. The ledger is a LIST and no stream: entries are numbered without
-- holes, those of one run are one command, and the oldest are cut off with one.
--
--   ledger   LIST of JSON, an entry per element, the oldest first:
--            at, seq, type  when it happened, the feed's last change then, and what; these come first
--            row            the row that it is about
--            unseen         true where no change came with it
--            given          what was given or taken away: {"units":N,"amount":N,"currency":C}, no amount where it has no value
--            reason, drop, hold, trace  why it was taken away; of a sale its drop, and the hold that was paid; the step of a trace
--            gift           the event as the API has it; of one that took away only id, user and gift
--            goal, lost     in place of given and gift: the goal, as text; which entries were lost
--   reports  STRING: "LIMIT HOOKS IDLE READERS START BASE LENGTH"
--            LIMIT: the list is never longer; where it would be, it is looked what can be cut
--            HOOKS: the version of the set of webhooks of all feeds that was brought here last
--            IDLE: webhooks that rest, "READER,BATCH_MS,STAMP" with ";" between, or "-". The stamp is another
--            each time somebody saw that there is nothing to send: a registration from before is worth nothing.
--            "~" and a time: since then it only dozes, and is looked at again without having been registered
--            READERS: how many read here
--            START: the number of the first entry that there ever was; a ledger that was lost begins another
--            BASE: the number of the list's first element
--            LENGTH: how long the list is, true while somebody reads: should the list be gone (an eviction), it says
--            how much of it
--   readers  HASH, reader -> "FLOOR HANDED LOST SINCE", and " FROM TO COUNT" where entries were cut before it was handed them,
--            COUNT 0 once ledger.lost announced that; newline, progress
--            FLOOR: every entry below is done with. HANDED: those from here on were never handed out.
--            LOST: how many were cut that were not done with. SINCE: the first number that is read here; of a webhook of all feeds
--            the time when it was made
-- and of one reader, R ("g:NAME", "w:NAME" or "*:NAME"); members and fields are numbers with 16 digits:
--   pending:R  ZSET, number -> number: a group's entries of the ledger that are handed out
--   leases:R   ZSET, until when -> number: those, and those of again; 0 when given back
--   tries:R    HASH, number -> how often it was handed out; none is once
--   again:R    ZSET of score 0, "NUMBER ENTRY" by number: dead letters that are sent again
--   dead:R     HASH, number -> "DIED_AT ATTEMPTS REASON", newline, entry
--   deaths:R   ZSET, a number that grows with every death -> number
-- None of this expires with an idle feed.

-- When an entry happened, nothing where there is none; and at which change, 0 where that is unknown.
local function entry_time(text)
  local at, seq = string.match(text or '', '^{"at":(%d+),"seq":(%d+)')
  return tonumber(at or nil), tonumber(seq or nil) or 0
end

-- The first number from `low` on, below `high`, that is not `before` what is looked for; `high` where all are.
local function bisect(low, high, before)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(middle) then low = middle + 1 else high = middle end
  end
  return low
end

-- The ledger as it stands: `text` is what reports holds, `length` that of the list. Without a list (not begun, or
-- lost) what comes next begins at `base` at the earliest: no number is given out twice. vanished: the list is gone,
-- and somebody read it: numbers are those that it had, until the next entry comes (ledger_mourn). broken: the list
-- that is there is of no use, because nobody knows its numbers.
local function ledger_of(text, length, readers_key)
  local limit, hooks, idle, readers, start, base, had =
    string.match(text or '', '^(%d+) (%d+) (%S+) (%d+) (%d+) (%d+) ?(%d*)$')
  if start and length <= limit + 0 then
    local vanished = length == 0 and readers ~= '0' and had ~= '' and had ~= '0'
    if vanished then
      length = had + 0
    elseif length == 0 then
      base, limit = base + limit, 0
      start = base
    end
    return {
      start = start + 0, base = base + 0, limit = limit + 0, length = length, readers = readers + 0,
      hooks = hooks + 0, idle = idle, vanished = vanished,
    }
  end
  local all, rests, used = redis.call('HGETALL', readers_key), {}, 0
  for n = 1, #all, 2 do
    used = math.max(used, tonumber(string.match(all[n + 1], '^%d+ (%d+) ') or '0'))
    if string.sub(all[n], 1, 2) ~= 'g:' then rests[#rests + 1] = all[n] .. ',0,0' end
  end
  return {
    start = used, base = used, limit = 0, length = 0, readers = #all / 2, hooks = 0,
    idle = #rests > 0 and table.concat(rests, ';') or '-', broken = true,
  }
end

-- What ledger.lost is to announce to a reader, which may be something already: these numbers too.
local function lost_too(untold, from, to)
  local first, last, count = string.match(untold or '', '^(%d+) (%d+) ([1-9]%d*)$')
  return string.format('%d %d %d', math.min(first or from, from), math.max(last or to, to), (count or 0) + to - from + 1)
end

-- What reports is to hold of it.
local function reports_of(it)
  return string.format('%d %d ', it.limit, it.hooks) .. it.idle
    .. string.format(' %d %d %d %d', it.readers, it.start, it.base, it.length)
end

-- The list is gone: counts for each reader what it was never handed, as those that it has pending are counted when it
-- comes. Numbers go on at `base`. How many entries some reader was not done with, and what readers is to hold.
local function ledger_mourn(it, base, readers_key)
  local behind, floor, kept = it.base + it.length, it.base + it.length, {}
  local all = redis.call('HGETALL', readers_key)
  for n = 1, #all, 2 do
    local done, handed, lost, since, untold, progress =
      string.match(all[n + 1], '^(%d+) (%d+) (%d+) (%d+) ?([%d ]*)(\n.*)$')
    if done then
      local first = math.max(handed + 0, it.start)
      if first < behind then
        lost, untold = lost + behind - first, lost_too(untold, first, behind - 1)
      end
      floor = math.min(floor, done + 0)
      kept[#kept + 1] = all[n]
      kept[#kept + 1] = string.format('%s %d %d ', done, math.max(handed + 0, base), lost) .. since
        .. (untold ~= '' and ' ' .. untold or '') .. progress
    end
  end
  local unread = behind - math.max(floor, it.start)
  it.start, it.base, it.limit, it.length, it.vanished = base, base, 0, 0, false
  return math.max(0, unread), kept
end

return {
  ledger_of = ledger_of, ledger_mourn = ledger_mourn, reports_of = reports_of, lost_too = lost_too, entry_time = entry_time,
  bisect = bisect,
}
