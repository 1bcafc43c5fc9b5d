-- publish_plain_counted: publish_plain of a feed that counts something. See plain, plain_write and feed_count. A goal that is
-- reached, and the first gift since what came was added up, are feed_publish's.
--
-- KEYS 12 + 2 per gift:
--   1 rows
--   2 hist
--   3 ledger
--   4 list
--   5 meta
--   6 policy
--   7 reports
--   8 blocks
--   9 tally
--   10 parts
--   11 count
--   12 left
--   13 id: of the gift
--   14 lock: of its user and kind; no id is that of two gifts, and no lock where locks are taken
-- ARGV 8 + 6 per gift:
--   1 tag
--   2 known: "EPOCH SEQ TAG ", or ""
--   3 live channel
--   4 known policy: what the caller takes the policy's key to hold, "" for nothing
--   5 rules, see plain
--   6 known count: what the caller takes the key count to hold
--   7 calendar: three times that follow from that, opens, ends, keep
--   8 span
--   9 fingerprint, hex
--   10 body
--   11 extra: second line of its entry in the ledger
--   12 part: what it adds to its row
--   13 counted: "COUNTED USER", as tally has it
--   14 person: its user as JSON
-- RETURNS as publish_plain does
-- REFUSES as publish_plain does; and with "", "count", and what the key count holds; and with "", "once": only this time
--   feed_publish is to be called

local FIRST_KEY, FIRST_ARG, GIFT_ARGS = 13, 9, 6
-- The domain's KEEP_MS, and for how long it is believed that the clock of totals stands in due.
local KEEP_GIFTS, TRUSTED = 3024000000, 5000
local MAX_TIME = 253402300799999

do
  local opens, ends, keep = match(ARGV[7], '^(%d+) (%d+) (%d+)$')
  -- Tally and parts, which are no strings, read as missing.
  local known_left = strings[9]
  if strings[8] ~= ARGV[6] then return { '', 'count', strings[8] or '' } end
  if not opens or now < opens + 0 or now >= ends + 0 then return { '' } end
  local told, words = match(known_left or '', '^(%d+) . ?(.*)$')
  if not told or now > told + TRUSTED or now < told + 0 then return { '', 'once' } end
  span = ARGV[8]
  elements = { '@+ ' .. span .. ' ' .. time, ARGV[13], ARGV[14] }
  for arg = 19, #ARGV, 6 do
    local n = #elements
    elements[n + 1], elements[n + 2] = ARGV[arg], ARGV[arg + 1]
  end
  if words ~= '' then
    local added = { u = 0, p = 0 }
    for at = 2, #elements, 2 do
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
    left = match(known_left, '^%d+ . ') .. table.concat(rest, ' ')
  end
  -- A key of another type is met here.
  call('HLEN', KEYS[10])
  kept_til = math.min(math.max(math.min(keep + 0, now + KEEP_GIFTS), now + REMEMBERED), MAX_TIME)
end
