-- publish_plain_counted: publish_plain of a feed that counts something. See plain and feed_count. A goal that is reached, and
-- the first gift since what came was added up, are feed_publish's.
--
-- KEYS 12 + 2 per gift:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 ledger
--   7 tally
--   8 parts
--   9 reports
--   10 blocks
--   11 count
--   12 left
--   13 id: of the gift
--   14 lock: of its user and kind; none is the lock of two gifts, nor id the id of two
-- ARGV 18 + 6 per gift:
--   1 now, milliseconds; "-" takes the store's clock
--   2 tag
--   3 known epoch
--   4 known seq
--   5 known tag
--   6 live channel
--   7 hooks version
--   8 known policy: what the caller takes the policy's key to hold, "" for nothing
--   9 capacity, and what else follows from that policy
--   10 history, not 0
--   11 idempotency window
--   12 dedup window, 0 where no lock is taken
--   13 ledger max: entries that are kept though nobody reads
--   14 known count: what the caller takes the key count to hold
--   15 opens, and what else follows from that
--   16 ends
--   17 keep
--   18 span
--   19 fingerprint, hex
--   20 body
--   21 extra: second line of its entry in the ledger
--   22 part: what it adds to its row
--   23 counted: "COUNTED USER", as tally has it
--   24 person: its user as JSON
-- RETURNS the header, then what is remembered of its id for each gift
-- REFUSES as publish_plain does; and with "", "count", and what the key count holds; and with "", "once": only this time
--   feed_publish is to be called

-- The domain's KEEP_MS, and for how long it is believed that the clock of totals stands in due.
local KEEP_GIFTS, TRUSTED, LIMB = 3024000000, 5000, 9007199254740992

return take(9, 13, 19, 6, function(strings, now, time)
  local count, left = strings[6], strings[7]
  if count ~= ARGV[14] then return { '', 'count', count or '' } end
  if now < ARGV[15] + 0 or now >= ARGV[16] + 0 then return { '' } end
  local told, words = match(left or '', '^(%d+) . ?(.*)$')
  if not told or now > told + TRUSTED or now < told + 0 then return { '', 'once' } end
  local elements, n = { '@+ ' .. ARGV[18] .. ' ' .. time }, 1
  for a = 23, #ARGV, 6 do
    elements[n + 1], elements[n + 2], n = ARGV[a], ARGV[a + 1], n + 2
  end
  if words ~= '' then
    local added = { u = 0, p = 0 }
    for at = 2, n, 2 do
      local units, points, amount, currency = match(elements[at], '^1 (%d+) (%d+) (%d*):?%-?(%a*) ')
      added.u, added.p = added.u + units, added.p + points
      if currency ~= '' then added['$' .. currency] = (added['$' .. currency] or 0) + amount end
    end
    local rest = {}
    for goal, code, missing in string.gmatch(words, '(%S+) (%S+) (%S+)') do
      if string.byte(missing) ~= 43 then
        missing = missing - (added[code] or 0)
        if missing <= 0 then return { '', 'once' } end
        missing = format('%d', missing)
      end
      rest[#rest + 1] = goal .. ' ' .. code .. ' ' .. missing
    end
    words = match(left, '^%d+ . ') .. concat(rest, ' ')
  end
  call('HLEN', KEYS[8])
  -- Only behind others: while there are any, the clock of totals stands in due. The first write, and none when there
  -- are none.
  if call('RPUSHX', KEYS[7], unpack(elements)) == 0 then return { '', 'once' } end
  if words ~= '' then call('SET', KEYS[12], words) end
  local keep = math.max(math.min(ARGV[17] + 0, now + KEEP_GIFTS), now + ARGV[11])
  return nil, math.min(keep, 253402300799999), ARGV[18]
end)
