-- plain_count: how plain gifts count; Rust puts this text behind the scripts that count, in front of plain_write. Their KEYS 9 to
-- 12 are tally, parts, count and left, and ARGV 6 to 8 known count, calendar and span. See feed_count. A goal that is
-- reached, and the first gift since what came was added up, are feed_publish's.
-- REFUSES with "", "count", and what the key count holds; and with "", "once": only this time feed_publish is to be called

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
  elements = { '@+ ' .. span .. ' ' .. time, ARGV[FIRST_ARG + 4], ARGV[FIRST_ARG + 5] }
  for arg = FIRST_ARG + GIFT_ARGS + 4, #ARGV, GIFT_ARGS do
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
