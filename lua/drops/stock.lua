-- stock: how every feed_drop_*.lua goes on after feed_ledger; Rust puts this text between the two.
-- The same steps in the same order as the domain's Stock.
--
-- What the drops of a feed are made of, none of which ever expires by itself:
--   drops   HASH, drop -> "HELD SOLD SAID ANNOUNCED_AT STALE SOONEST|- SPEC", newline, gift, newline
--           SPEC: TOTAL PER_USER HOLD_TTL MAX_HOLDS OPENS|- CLOSES|-
--   shown   HASH, drop -> what watchers were told, as a change of kind drop has it:
--           "DROP PHASE FREE HELD SOLD SPEC", newline, gift, newline
--   unpaid  ZSET, every score 0: "USER EXPIRES DROP~CLAIM COUNT" of each live hold, EXPIRES with 16
--           digits, so that a user's holds are a range by lex. What is over may still be there.
-- and of one drop:
--   claims  HASH, claim -> "FINGERPRINT COUNT USER EXPIRES MADE SEQ EPOCH|- ROW|-", newline, user, newline, message,
--           newline. MADE: when it was claimed. EXPIRES 0: paid at once. With a row it is sold. Ended holds stay for a while.
--   holds   ZSET: "h COUNT USER CLAIM" by the end of the hold, while it is unpaid; then, when it was not
--           paid, "x COUNT USER CLAIM" by when it is forgotten. A hold holds while its h is here and its
--           time is not over: whoever takes the h out is the only one
--   units   HASH, user -> "UNITS CLAIM ...", units held and sold, and the first claims that stand
-- USER is a digest. Counts are integers up to 10^9. CLAIM is an id, or "USER~" and an id that a viewer chose.
--
-- ARGV of all of them: those of feed/common, ledger/append and totals/count, and
--   drop      its name
--   reminder  how long before it opens or closes watchers are reminded; 0 never
-- RETURNS nothing by itself; but "", "r" and a time, when the feed must be looked at from then on and nobody is
--   known to do so: then nothing was written; call again with that time. See also ledger/append
-- REFUSES nothing

local DUE, DROPS, SHOWN, UNPAID, CLAIMS, HOLDS, UNITS =
  KEYS.due, KEYS.drops, KEYS.shown, KEYS.unpaid, KEYS.claims, KEYS.holds, KEYS.units
local DROP, REMINDER, LOOKED_AT = ARGV.drop, tonumber(ARGV.reminder), tonumber(ARGV.looked_at)
-- The drop's clock in the due queue: its place among entries of the same time is the first.
local CLOCK = format('%016d ', 0) .. 'd' .. DROP
-- ANNOUNCE_EVERY: the domain's TELL_EVERY_MS. SWEEP: holds ended in one run. FIRSTS: claims kept per user.
local ANNOUNCE_EVERY, SWEEP, FIRSTS = 600, 1000, 16
local SPEC = '^(%d+) (%d+) (%d+) (%d+) (%S+) (%S+)$'

local stock = false
local ended, over, paid, forgotten = {}, {}, {}, {} -- members of holds, of unpaid, fields of claims
local held_now, unpaid_now = {}, {} -- members that are new
local units, claims, touched_units, touched_claims = {}, {}, {}, {}
local announced = false
-- True when more holds are over than one run ends: then nothing can be decided yet.
local more = false

local function set_spec(s, spec, gift)
  local total, per_user, ttl, most, opens, closes = match(spec, SPEC)
  s.spec, s.gift = spec, gift
  s.total, s.per_user, s.ttl, s.most = tonumber(total), tonumber(per_user), tonumber(ttl), tonumber(most)
  s.opens, s.closes = tonumber(opens), tonumber(closes)
end

local stock_text = call('HGET', DROPS, DROP)
do
  local held, sold, said, announced_at, stale, soonest, spec, gift =
    match(stock_text or '', '^(%d+) (%d+) (%S+) (%d+) (%d) (%S+) ([^\n]+)\n([^\n]*)\n$')
  if held and match(spec, SPEC) then
    stock = {
      held = tonumber(held), sold = tonumber(sold), said = said, announced_at = tonumber(announced_at),
      stale = stale == '1', soonest = tonumber(soonest),
    }
    set_spec(stock, spec, gift)
  end
end

local function free()
  return stock.total - stock.held - stock.sold
end

local function phase()
  if stock.opens and now < stock.opens then return 'pending' end
  if stock.closes and now >= stock.closes then return 'closed' end
  return free() == 0 and 'sold_out' or 'open'
end

local function view()
  return DROP .. ' ' .. phase() .. ' ' .. int(free()) .. ' ' .. int(stock.held) .. ' ' .. int(stock.sold) .. ' '
    .. stock.spec .. '\n' .. stock.gift .. '\n'
end

local function heed(at)
  if not stock.soonest or at < stock.soonest then stock.soonest = at end
end

local function padded(ms)
  return format('%016d', ms)
end

local function units_of(user)
  local u = units[user]
  if not u then
    local n, list = match(call('HGET', UNITS, user) or '', '^(%d+)(.*)$')
    u = { n = tonumber(n or '0'), firsts = {} }
    for claim in string.gmatch(list or '', '%S+') do u.firsts[#u.firsts + 1] = claim end
    units[user] = u
  end
  return u
end

local function claim_of(id)
  if claims[id] == nil then claims[id] = call('HGET', CLAIMS, id) end
  return claims[id]
end

local function put_claim(id, text)
  claims[id], touched_claims[id] = text, true
end

local function take_units(user, count, claim)
  local u = units_of(user)
  u.n = u.n + count
  if #u.firsts < FIRSTS then u.firsts[#u.firsts + 1] = claim end
  touched_units[user] = true
end

local function unpaid_member(user, expires, count, claim)
  return user .. ' ' .. padded(expires) .. ' ' .. DROP .. '~' .. claim .. ' ' .. count
end

-- Takes a hold out: its h goes, and what was kept of it for its user.
local function take_out(expires, count, user, claim)
  ended[#ended + 1] = 'h ' .. count .. ' ' .. user .. ' ' .. claim
  paid[#paid + 1] = unpaid_member(user, expires, count, claim)
  stock.held, stock.stale = stock.held - tonumber(count), true
end

-- Ends a hold that is not paid: its units are free again.
local function end_hold(expires, count, user, claim)
  take_out(expires, count, user, claim)
  local u = units_of(user)
  u.n, touched_units[user] = u.n - tonumber(count), true
  for at, first in ipairs(u.firsts) do
    if first == claim then
      table.remove(u.firsts, at)
      break
    end
  end
  local forget_at = math.min(now + policy.idempotency_window_ms, MAX_TIME)
  over[#over + 1] = int(forget_at)
  over[#over + 1] = 'x ' .. count .. ' ' .. user .. ' ' .. claim
  heed(forget_at)
end

-- Ends the holds whose time is over and forgets those that ended long ago. Before anything is decided.
local function sweep()
  resize()
  if not stock or not stock.soonest or now < stock.soonest then return end
  local due = call('ZRANGEBYSCORE', HOLDS, '-inf', int(now), 'WITHSCORES', 'LIMIT', '0', int(SWEEP + 1))
  local last = #due
  if last > 2 * SWEEP then
    last, more = 2 * SWEEP, true
    stock.soonest = tonumber(due[last + 2])
  else
    local rest = call('ZRANGEBYSCORE', HOLDS, '(' .. int(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    stock.soonest = tonumber(rest[2])
  end
  for at = 1, last, 2 do
    local kind, count, user, claim = match(due[at], '^(%a) (%d+) (%S+) (%S+)$')
    if kind == 'h' then
      end_hold(tonumber(due[at + 1]), count, user, claim)
    else
      ended[#ended + 1] = due[at]
      if claim then forgotten[#forgotten + 1], claims[claim] = claim, false end
    end
  end
end

local function must_announce()
  local now_is = phase()
  local restocked = stock.said == 'sold_out' and now_is == 'open'
  if now_is ~= stock.said and not restocked then return true end
  local function reminded(at)
    return at and REMINDER > 0 and stock.announced_at < at - REMINDER and at - REMINDER <= now and now < at
  end
  if reminded(stock.opens) or now_is ~= 'pending' and reminded(stock.closes) then return true end
  return (stock.stale or restocked) and (now >= stock.announced_at + ANNOUNCE_EVERY or now < stock.announced_at)
end

local function begin()
  if not epoch then
    epoch, born = CANDIDATE, CANDIDATE
  end
end

local function announce()
  begin()
  stock.said, stock.announced_at, stock.stale, announced = phase(), now, false, true
  record('drop', view())
end

-- When the drop's clock strikes next, after everything that is due now was done.
local function strikes_next()
  local soonest = stock.soonest or nil
  local function consider(at)
    if at and (not soonest or at < soonest) then soonest = at end
  end
  -- Once more also when nothing waits yet: a drop that sells has its clock in the queue all the time.
  if stock.stale or stock.said ~= phase() or now < stock.announced_at + ANNOUNCE_EVERY then
    consider(stock.announced_at + ANNOUNCE_EVERY)
  end
  for _, at in pairs({ stock.opens or 0, stock.closes or 0 }) do
    if at > now then consider(at) end
    if REMINDER > 0 and at - REMINDER > now then consider(at - REMINDER) end
  end
  return soonest
end

-- The row of a sale, which is its own: it takes no lock and follows no combo. Also its entry in the ledger. Where a host
-- reviews what is said, a sale shows without its message. `held` where its units were held before.
local function sell(claim, count, user, message, gifter, trace, held)
  settle()
  begin()
  local number, time = int(seq + 1), int(now)
  local id = epoch .. '-' .. number
  local head = count .. '\n\n\n\n0 ' .. int(free()) .. ' ' .. DROP .. '\n' .. user .. '\n' .. stock.gift .. '\n'
  local body = head .. (policy.review == 'off' and message or '') .. '\n \n'
  local text = id .. '\n1\n' .. number .. '\n' .. time .. '\n' .. time .. '\n' .. expiry_of_row() .. '\n' .. body
  table.insert(entries, 1, id)
  relist = true
  put_row(id, text)
  while #entries > policy.capacity do drop(#entries) end
  record('add', text)
  -- The ledger has the id as it was sent, without a viewer's namespace.
  enter('b', id, match(claim, '[^~]+$') .. ' ' .. count .. ' - ' .. (held and '~' .. claim or '-') .. trace, head .. message .. '\n \n')
  if count_sale then count_sale(count, gifter, user, id) end
  return int(seq) .. ' ' .. epoch .. ' ' .. id
end

-- True when whoever does what is due will look at the feed by then, or a quarter of a second later. Every
-- entry of the due queue is looked for already, so is what comes after it. A look in the past says nothing:
-- it may have found nothing.
local function is_looked_at(by)
  local first = tonumber(call('ZRANGE', DUE, '0', '0', 'WITHSCORES')[2])
  return first and first <= by or LOOKED_AT and now < LOOKED_AT and LOOKED_AT <= by + 250
end

-- Tells watchers if they are to be told, and writes everything: nothing, or what the script answers when
-- somebody must be made to look at the feed first.
local function finish()
  if stock and must_announce() then announce() end
  local strikes, struck = stock and strikes_next(), tonumber(call('ZSCORE', DUE, CLOCK) or nil)
  if strikes and strikes ~= struck and not is_looked_at(strikes) then
    return { '', 'r', int(math.max(strikes, now + 200)) }
  end
  if announced then call('HLEN', SHOWN) end
  if #paid > 0 then call('ZCARD', UNPAID) end
  local refused = ledger_refuses()
  if refused then return refused end
  commit('=')
  ledger_commit()
  if stock then
    local text = int(stock.held) .. ' ' .. int(stock.sold) .. ' ' .. stock.said .. ' ' .. int(stock.announced_at) .. ' '
      .. (stock.stale and '1' or '0') .. ' ' .. (stock.soonest and int(stock.soonest) or '-') .. ' '
      .. stock.spec .. '\n' .. stock.gift .. '\n'
    if text ~= stock_text then call('HSET', DROPS, DROP, text) end
    if announced then call('HSET', SHOWN, DROP, view()) end
  end
  in_parts('ZREM', HOLDS, ended)
  in_parts('ZREM', UNPAID, paid)
  in_parts('ZADD', HOLDS, over)
  in_parts('ZADD', HOLDS, held_now)
  in_parts('ZADD', UNPAID, unpaid_now)
  in_parts('HDEL', CLAIMS, forgotten)
  local gone_units, set_units, set_claims = {}, {}, {}
  for user in pairs(touched_units) do
    local u = units[user]
    if u.n > 0 then
      set_units[#set_units + 1] = user
      set_units[#set_units + 1] = int(u.n) .. (#u.firsts > 0 and ' ' or '') .. concat(u.firsts, ' ')
    else
      gone_units[#gone_units + 1] = user
    end
  end
  for id in pairs(touched_claims) do
    set_claims[#set_claims + 1] = id
    set_claims[#set_claims + 1] = claims[id]
  end
  in_parts('HDEL', UNITS, gone_units)
  in_parts('HSET', UNITS, set_units)
  in_parts('HSET', CLAIMS, set_claims)
  if strikes then
    if struck ~= strikes then call('ZADD', DUE, int(strikes), CLOCK) end
  elseif struck then
    call('ZREM', DUE, CLOCK)
  end
end
