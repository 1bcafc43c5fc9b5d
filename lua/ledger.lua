-- ledger: a feed's ledger and its readers, as they are stored; Rust puts this text in front of every script that
-- writes to them. The ledger is a LIST and no stream: entries are numbered without holes, those of one run are
-- one command, and the oldest are cut off with one.
--
--   ledger   LIST, an entry per element, the oldest first; its lines are those of engine::record::push_entry
--   reports  STRING: "START BASE LIMIT READERS HOOKS IDLE"
--            START: the number of the first entry that there ever was; a ledger that was lost begins another
--            BASE: the number of the list's first element
--            LIMIT: the list is never longer; where it would be, it is looked what can be cut
--            READERS: how many read here
--            HOOKS: the version of the set of webhooks of all feeds that was brought here last
--            IDLE: webhooks that rest, "READER,BATCH_MS,STAMP" with ";" between, or "-". The stamp is another
--            each time somebody saw that there is nothing to send: a registration from before is worth nothing
--   readers  HASH, reader -> "FLOOR HANDED LOST SINCE", newline, progress
--            FLOOR: every entry below is done with. HANDED: those from here on were never handed out.
--            LOST: how many were cut that were not done with. SINCE: of a webhook of all feeds, when it was made
-- and of one reader, R ("g:NAME", "w:NAME" or "*:NAME"); members and fields are numbers with 16 digits:
--   pending:R  ZSET, number -> number: a group's entries of the ledger that are handed out
--   leases:R   ZSET, until when -> number: those, and those of again; 0 when given back
--   tries:R    HASH, number -> how often it was handed out; none is once
--   again:R    HASH, number -> entry: dead letters that are sent again
--   dead:R     HASH, number -> "DIED_AT ATTEMPTS REASON", newline, entry
--   deaths:R   ZSET, when it died -> number
-- None of this expires with an idle feed.

-- The ledger as it stands: `text` is what reports holds, `length` that of the list. Without a list (not begun, or
-- lost) what comes next begins at `base` at the earliest: no number is given out twice. broken: the list that is
-- there is of no use, because nobody knows its numbers.
local function ledger_of(text, length, readers_key)
  local start, base, limit, readers, hooks, idle =
    string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  if start and length <= limit + 0 then
    if length == 0 then
      base, limit = base + limit, 0
      start = base
    end
    return {
      start = start + 0, base = base + 0, limit = limit + 0, length = length, readers = readers + 0,
      hooks = hooks + 0, idle = idle,
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

-- What reports is to hold of it.
local function reports_of(it)
  return string.format('%d %d %d %d %d ', it.start, it.base, it.limit, it.readers, it.hooks) .. it.idle
end
