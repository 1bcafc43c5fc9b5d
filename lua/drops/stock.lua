-- stock: what a drop has and has sold, who holds units, and when watchers are notified of that. The same rules as the domain's Stock.
--
-- What the drops of a feed are made of, none of which ever expires by itself:
--   drops   HASH, drop -> "HELD SOLD SAID ANNOUNCED_AT STALE SOONEST|- SPEC", newline, gift, newline
--           SPEC: TOTAL PER_USER HOLD_TTL MAX_HOLDS OPENS|- CLOSES|-
--   shown   HASH, drop -> what was announced, as a change of kind drop has it:
--           "DROP PHASE FREE HELD SOLD SPEC", newline, gift, newline
--   unpaid  ZSET, every score 0: "USER EXPIRES DROP~CLAIM COUNT" of each live hold, EXPIRES with 16
--           digits, so that a user's holds are a range by lex. What is over may still be there.
-- and of one drop:
--   claims  HASH, claim -> "FINGERPRINT COUNT USER EXPIRES MADE SEQ EPOCH|- ROW|-", newline, user, newline, message,
--           newline. MADE: when it was claimed. EXPIRES 0: paid at once. With a row it is sold. Ended holds stay for a while.
--   holds   ZSET: "h COUNT USER CLAIM" by the end of the hold, while it is unpaid; then, when it was not
--           paid, "x COUNT USER CLAIM" by when it is forgotten. A hold holds while its h is here and its
--           time is not over: whoever takes the h out is the only one
--   units   HASH, user -> "KEYS.units CLAIM ...", units held and sold, and the first claims that stand
-- USER is a digest. Counts are integers up to 10^9. CLAIM is an id, or "USER~" and an id that a viewer chose.
--
-- Of ARGV
--   drop      its name
--   reminder  how long before it opens or closes watchers are reminded; 0 never
-- A script of drops may answer "", "r" and a time instead of everything: the feed must be looked at from then on, and no node is
-- known to do so. Then nothing was written; call again with that time.

local call, match, format, int = redis.call, string.match, string.format, feed.int
local now, policy = feed.now, feed.policy
local DROP, REMINDER, LOOKED_AT = ARGV.drop, tonumber(ARGV.reminder), tonumber(ARGV.looked_at)
-- The drop's clock in the due queue: its place among entries of the same time is the first.
local CLOCK = format('%016d ', 0) .. 'd' .. DROP
-- ANNOUNCE_EVERY: the domain's TELL_EVERY_MS. SWEEP: holds ended in one run. FIRSTS: claims kept per user.
local ANNOUNCE_EVERY, SWEEP, FIRSTS = 600, 1000, 16
local SPEC = '^(%d+) (%d+) (%d+) (%d+) (%S+) (%S+)$'

-- Whether the feed counts something, or is to begin to.
local is_counted = STRINGS.count or #policies.defaults.totals > 0
-- is_there: the drop is defined; only then the other members have values. has_more: more holds are over than one call ends, so that
-- nothing can be decided yet. new_holds: times and members that are new.
local stock = { is_there = false, has_more = false, new_holds = {} }
local ended, over, paid, forgotten = {}, {}, {}, {} -- members of holds, of unpaid, fields of claims
local new_holds, new_unpaid = stock.new_holds, {} -- members that are new
local units, claims, touched_units, touched_claims = {}, {}, {}, {}
local announced = false

-- Gives the drop this spec and gift.
local function set_spec(spec, gift)
  local total, per_user, ttl, most, opens, closes = match(spec, SPEC)
  stock.is_there, stock.spec, stock.gift = true, spec, gift
  stock.total, stock.per_user, stock.ttl, stock.most = tonumber(total), tonumber(per_user), tonumber(ttl), tonumber(most)
  stock.opens, stock.closes = tonumber(opens), tonumber(closes)
end

local stock_text = call('HGET', KEYS.drops, DROP)
do
  local held, sold, said, announced_at, stale, soonest, spec, gift =
    match(stock_text or '', '^(%d+) (%d+) (%S+) (%d+) (%d) (%S+) ([^\n]+)\n([^\n]*)\n$')
  if held and match(spec, SPEC) then
    stock.held, stock.sold, stock.said, stock.announced_at = tonumber(held), tonumber(sold), said, tonumber(announced_at)
    stock.stale, stock.soonest = stale == '1', tonumber(soonest)
    set_spec(spec, gift)
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
    local n, list = match(call('HGET', KEYS.units, user) or '', '^(%d+)(.*)$')
    u = { n = tonumber(n or '0'), firsts = {} }
    for claim in string.gmatch(list or '', '%S+') do u.firsts[#u.firsts + 1] = claim end
    units[user] = u
  end
  return u
end

local function claim_of(id)
  if claims[id] == nil then claims[id] = call('HGET', KEYS.claims, id) end
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

-- Adds a hold that ends then.
local function add_hold(ends_at, count, user, claim)
  heed(ends_at)
  new_holds[#new_holds + 1] = int(ends_at)
  new_holds[#new_holds + 1] = 'h ' .. count .. ' ' .. user .. ' ' .. claim
  new_unpaid[#new_unpaid + 1] = '0'
  new_unpaid[#new_unpaid + 1] = unpaid_member(user, ends_at, count, claim)
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
  local forget_at = math.min(now + policy.idempotency_window_ms, clock.MAX_TIME)
  over[#over + 1] = int(forget_at)
  over[#over + 1] = 'x ' .. count .. ' ' .. user .. ' ' .. claim
  heed(forget_at)
end

-- Ends the holds whose time is over and forgets those that ended long ago. Before anything is decided.
local function sweep()
  if feed.is_resized then LATER.settle.resize() end
  if not stock.is_there or not stock.soonest or now < stock.soonest then return end
  local due = call('ZRANGEBYSCORE', KEYS.holds, '-inf', int(now), 'WITHSCORES', 'LIMIT', '0', int(SWEEP + 1))
  local last = #due
  if last > 2 * SWEEP then
    last, stock.has_more = 2 * SWEEP, true
    stock.soonest = tonumber(due[last + 2])
  else
    local rest = call('ZRANGEBYSCORE', KEYS.holds, '(' .. int(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
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

local function announce()
  stock.said, stock.announced_at, stock.stale, announced = phase(), now, false, true
  feed.next_seq()
  local text = view()
  feed.record('drop', ',"text":' .. cjson.encode(text))
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
  if feed.is_unsettled then LATER.settle.apply() end
  local shown = policy.review == 'off' and message ~= '' and ',"message":' .. message or ''
  local id = list.add('"count":' .. count .. shown .. ',"test":false,"drop":"' .. DROP .. '","left":' .. int(free()) .. ',"user":' .. user
    .. ',"gift":' .. stock.gift)
  -- The ledger has the id as it was sent, without a viewer's namespace.
  ledger.append('sold', id, '"given":{"units":' .. count .. '},"drop":"' .. DROP .. '",'
    .. (held and '"hold":"' .. DROP .. '~' .. claim .. '",' or '') .. (trace ~= '' and '"trace":' .. trace .. ',' or '')
    .. '"gift":{"id":"' .. match(claim, '[^~]+$') .. '","user":' .. user .. ',"gift":' .. stock.gift .. ',"count":' .. count
    .. (message ~= '' and ',"message":' .. message or '') .. '}')
  if is_counted then LATER.totals.count_sale(count, gifter, user, id) end
  return feed.seq_text .. ' ' .. feed.epoch .. ' ' .. id
end

-- Whether a node will look at the feed by then, or a quarter of a second later. Every
-- entry of the due queue is looked for already, so is what comes after it. A look in the past says nothing:
-- it may have found nothing.
local function is_looked_at(by)
  local first = tonumber(call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
  return first and first <= by or LOOKED_AT and now < LOOKED_AT and LOOKED_AT <= by + 250
end

-- Notifies watchers if that is due, and writes everything. Returns the refusal if there is one; then nothing was written.
local function finish()
  if stock.is_there and must_announce() then announce() end
  local strikes, struck = stock.is_there and strikes_next(), tonumber(call('ZSCORE', KEYS.due, CLOCK) or nil)
  if strikes and strikes ~= struck and not is_looked_at(strikes) then
    return { '', 'r', int(math.max(strikes, now + 200)) }
  end
  if announced then call('HLEN', KEYS.shown) end
  if #paid > 0 then call('ZCARD', KEYS.unpaid) end
  local refused = is_counted and LATER.totals.refusal() or ledger.refusal()
  if refused then return refused end
  feed.commit()
  if stock.is_there then
    local text = int(stock.held) .. ' ' .. int(stock.sold) .. ' ' .. stock.said .. ' ' .. int(stock.announced_at) .. ' '
      .. (stock.stale and '1' or '0') .. ' ' .. (stock.soonest and int(stock.soonest) or '-') .. ' '
      .. stock.spec .. '\n' .. stock.gift .. '\n'
    if text ~= stock_text then call('HSET', KEYS.drops, DROP, text) end
    if announced then call('HSET', KEYS.shown, DROP, view()) end
  end
  local in_parts = feed.call_in_parts
  in_parts('ZREM', KEYS.holds, ended)
  in_parts('ZREM', KEYS.unpaid, paid)
  in_parts('ZADD', KEYS.holds, over)
  in_parts('ZADD', KEYS.holds, new_holds)
  in_parts('ZADD', KEYS.unpaid, new_unpaid)
  in_parts('HDEL', KEYS.claims, forgotten)
  local gone_units, set_units, set_claims = {}, {}, {}
  for user in pairs(touched_units) do
    local u = units[user]
    if u.n > 0 then
      set_units[#set_units + 1] = user
      set_units[#set_units + 1] = int(u.n) .. (#u.firsts > 0 and ' ' or '') .. table.concat(u.firsts, ' ')
    else
      gone_units[#gone_units + 1] = user
    end
  end
  for id in pairs(touched_claims) do
    set_claims[#set_claims + 1] = id
    set_claims[#set_claims + 1] = claims[id]
  end
  in_parts('HDEL', KEYS.units, gone_units)
  in_parts('HSET', KEYS.units, set_units)
  in_parts('HSET', KEYS.claims, set_claims)
  if strikes then
    if struck ~= strikes then call('ZADD', KEYS.due, int(strikes), CLOCK) end
  elseif struck then
    call('ZREM', KEYS.due, CLOCK)
  end
end

-- The refusal that ends the call before anything is decided, if there is one.
local function refusal_at_start()
  return feed.refusal or is_counted and LATER.totals.refusal_at_start() or nil
end

stock.set_spec, stock.free, stock.phase, stock.view, stock.units_of = set_spec, free, phase, view, units_of
stock.claim_of, stock.put_claim, stock.take_units, stock.unpaid_member = claim_of, put_claim, take_units, unpaid_member
stock.take_out, stock.end_hold, stock.sweep, stock.must_announce, stock.announce = take_out, end_hold, sweep, must_announce, announce
stock.sell, stock.finish, stock.refusal_at_start = sell, finish, refusal_at_start
stock.add_hold, stock.padded, stock.SPEC, stock.SWEEP, stock.ended, stock.paid = add_hold, padded, SPEC, SWEEP, ended, paid
return stock
