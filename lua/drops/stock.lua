-- stock: what a drop has and has sold, who holds units, and when watchers are notified of that. The same rules as the domain's Stock.
--
-- What the drops of a feed are made of, none of which ever expires by itself:
--   drops   HASH, drop -> JSON:
--           held, sold    units
--           said, announced_at, stale  the phase that watchers know, since when, and whether something changed since
--           soonest       when the first hold ends, or is forgotten; missing without holds
--           spec          total, per_user, hold_ttl_ms, max_holds_per_user, opens_at and closes_at where it opens and closes, value where a
--                         unit has a price, {"amount","currency"}, and at the end gift
--   shown   HASH, drop -> what was announced, as a change of kind drop has it: {"drop","phase","free","held","sold","spec"}
--   unpaid  ZSET, every score 0: "USER EXPIRES DROP~CLAIM COUNT" of each live hold, EXPIRES with 16
--           digits, so that a user's holds are a range by lex. What is over may still be there.
-- and of one drop:
--   claims  HASH, claim -> JSON: fingerprint, count, user_digest; value where it has a price; expires_at of a hold; made_at; sale once it
--           is sold, with what a receipt has (epoch, seq, row, added, counted, entry, …); cancelled of a hold that was; restocked of a sale
--           whose units are free again; message; and at the end user. Ended holds stay for a while
--   holds   ZSET: "h COUNT USER CLAIM" by the end of the hold, while it is unpaid; then, when it was not
--           paid, "x COUNT USER CLAIM" by when it is forgotten. A hold holds while its h is here and its
--           time has not come: the call that takes the h out is the only one
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
-- ANNOUNCE_EVERY: milliseconds between two announcements of a drop whose stock changes. SWEEP: holds ended in one run. FIRSTS: claims kept per user.
local ANNOUNCE_EVERY, SWEEP, FIRSTS = 600, 1000, 16

-- Whether the feed counts something, or is to begin to.
local is_counted = STRINGS.totals or #policies.defaults.totals > 0
-- is_there: the drop is defined; only then the other members have values. has_more: more holds are over than one call ends, so that
-- nothing can be decided yet. new_holds: times and members that are new.
local stock = { is_there = false, has_more = false, new_holds = {} }
local ended, over, paid, forgotten = {}, {}, {}, {} -- members of holds, of unpaid, fields of claims
local new_holds, new_unpaid = stock.new_holds, {} -- members that are new
local units, claims, touched_units, touched_claims = {}, {}, {}, {}
local announced = false

-- The last member of a record, as text: everything behind its name up to the brace that ends the record. What is in it has no member
-- of this name; what comes before it may.
local function last_member(text, name)
  return match(text, '.*,"' .. name .. '":(.*)}$')
end

-- Gives the drop this spec.
local function set_spec(text)
  local spec = cjson.decode(text)
  stock.is_there, stock.spec, stock.gift = true, text, last_member(text, 'gift')
  stock.total, stock.per_user, stock.ttl, stock.most = spec.total, spec.per_user, spec.hold_ttl_ms, spec.max_holds_per_user
  stock.opens, stock.closes, stock.price = spec.opens_at, spec.closes_at, spec.value
end

local stock_text = call('HGET', KEYS.drops, DROP)
if stock_text then
  local it = cjson.decode(stock_text)
  stock.held, stock.sold, stock.said, stock.announced_at = it.held, it.sold, it.said, it.announced_at
  stock.stale, stock.soonest = it.stale, it.soonest
  set_spec(last_member(stock_text, 'spec'))
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
  return format('{"drop":"%s","phase":"%s","free":%d,"held":%d,"sold":%d,"spec":', DROP, phase(), free(), stock.held, stock.sold)
    .. stock.spec .. '}'
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

-- What a claim says; its user and its message as JSON.
local function read_claim(record)
  local it = cjson.decode(record)
  local text = it.message
  it.message = text and cjson.encode(text)
  it.user = last_member(record, 'user')
  return it
end

-- What these units cost; nil if the drop has no price. Its definition is refused where this could exceed 2^53-1.
local function value_of(count)
  local price = stock.price
  return price and { amount = price.amount * count, currency = price.currency } or nil
end

-- A member `value`, as text; "" without one.
local function value_member(value)
  return value and ',"value":{"amount":' .. int(value.amount) .. ',"currency":"' .. value.currency .. '"}' or ''
end

-- Keeps a claim, and returns its text.
local function put_claim(id, it)
  local sale = it.sale
  local text = '{"fingerprint":"' .. it.fingerprint .. '","count":' .. int(it.count) .. ',"user_digest":"' .. it.user_digest .. '"'
    .. value_member(it.value) .. (it.expires_at and ',"expires_at":' .. int(it.expires_at) or '') .. ',"made_at":' .. int(it.made_at)
    .. (sale and ',"sale":' .. LATER.receipt.write(sale) or '') .. (it.cancelled and ',"cancelled":true' or '')
    .. (it.restocked and ',"restocked":true' or '')
    .. (it.message and ',"message":' .. it.message or '') .. ',"user":' .. it.user .. '}'
  claims[id], touched_claims[id] = text, true
  return text
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

-- A user has these units no more.
local function give_back_units(user, count, claim)
  local u = units_of(user)
  u.n, touched_units[user] = u.n - count, true
  for at, first in ipairs(u.firsts) do
    if first == claim then
      table.remove(u.firsts, at)
      break
    end
  end
end

-- The units of a sale that was taken back are free again, once.
local function restock(id, it)
  it.restocked = true
  stock.sold, stock.stale = stock.sold - it.count, true
  give_back_units(it.user_digest, it.count, id)
end

-- Ends a hold that is not paid: its units are free again.
local function end_hold(expires, count, user, claim)
  take_out(expires, count, user, claim)
  give_back_units(user, tonumber(count), claim)
  local forget_at = math.min(now + policy.idempotency_window_ms, clock.MAX_TIME)
  over[#over + 1] = int(forget_at)
  over[#over + 1] = 'x ' .. count .. ' ' .. user .. ' ' .. claim
  heed(forget_at)
end

-- Cancels the hold of this claim, `it`, if it is still unpaid. Returns the claim's text then, else nil.
local function cancel_hold(id, it)
  local count = int(it.count)
  if it.expires_at <= now or not call('ZSCORE', KEYS.holds, 'h ' .. count .. ' ' .. it.user_digest .. ' ' .. id) then return nil end
  end_hold(it.expires_at, count, it.user_digest, id)
  it.cancelled = true
  return put_claim(id, it)
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
  feed.record('drop', ',"drop":' .. view())
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

-- The claim of this id, `it`, is sold: its row, which is its own, takes no lock and follows no combo. Also its entry in the ledger.
-- Where a host reviews what is said, a sale shows without its message. `held` where its units were held before.
local function sell(claim, it, trace, held)
  if feed.is_unsettled then LATER.settle.apply() end
  local user, count, message = it.user, int(it.count), it.message and ',"message":' .. it.message or ''
  local given, money = { units = it.count }, ''
  if it.value then
    given.amount, given.currency = it.value.amount, it.value.currency
    money = ',"amount":' .. int(given.amount) .. ',"currency":"' .. given.currency .. '"'
  end
  local shown = policy.review == 'off' and message or ''
  local id = list.add('"count":' .. count .. money .. shown .. ',"test":false,"drop":"' .. DROP .. '","left":' .. int(free()) .. ',"user":' .. user
    .. ',"gift":' .. stock.gift)
  -- The ledger has the id as it was sent, without a viewer's namespace.
  local entry = ledger.append('sold', id, '"given":{"units":' .. count .. money .. '},"drop":"' .. DROP .. '",'
    .. (held and '"hold":"' .. DROP .. '~' .. claim .. '",' or '') .. (trace ~= '' and '"trace":' .. trace .. ',' or '')
    .. '"gift":{"id":"' .. match(claim, '[^~]+$') .. '","user":' .. user .. ',"gift":' .. stock.gift .. ',"count":' .. count
    .. value_member(it.value) .. message .. '}')
  local counted = nil
  if is_counted then
    local gifter = cjson.decode(user)
    counted = select(2, LATER.counting.count(given, gifter.id, user, not gifter.anonymous, id))
  end
  it.sale = {
    row = id, epoch = feed.epoch, seq = feed.seq, added = given, counted = counted and cjson.decode(counted), entry = tonumber(entry),
  }
end

-- Whether a node will look at the feed by then, or a quarter of a second later. Every
-- entry of the due queue is looked for already, so is what comes after it. A look in the past says nothing:
-- it may have found nothing.
local function is_looked_at(by)
  local first = tonumber(call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
  return first and first <= by or LOOKED_AT and now < LOOKED_AT and LOOKED_AT <= by + 250
end

-- The drop as it is stored.
local function record()
  return format('{"held":%d,"sold":%d,"said":"%s","announced_at":%d', stock.held, stock.sold, stock.said, stock.announced_at)
    .. (stock.stale and ',"stale":true' or '') .. (stock.soonest and ',"soonest":' .. int(stock.soonest) or '')
    .. ',"spec":' .. stock.spec .. '}'
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
  local text = stock.is_there and record() or stock_text
  local refused = is_counted and LATER.counting.refusal() or ledger.refusal()
  if refused then return refused end
  feed.commit()
  if text ~= stock_text then call('HSET', KEYS.drops, DROP, text) end
  if announced then call('HSET', KEYS.shown, DROP, view()) end
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
  return feed.refusal or is_counted and LATER.counting.refusal_at_start() or nil
end

stock.set_spec, stock.free, stock.phase, stock.view, stock.units_of = set_spec, free, phase, view, units_of
stock.claim_of, stock.read_claim, stock.put_claim = claim_of, read_claim, put_claim
stock.take_units, stock.unpaid_member, stock.value_of = take_units, unpaid_member, value_of
stock.take_out, stock.restock, stock.cancel_hold, stock.sweep, stock.must_announce, stock.announce = take_out, restock, cancel_hold, sweep, must_announce, announce
stock.sell, stock.finish, stock.refusal_at_start = sell, finish, refusal_at_start
stock.add_hold, stock.padded, stock.SWEEP, stock.ended, stock.paid = add_hold, padded, SWEEP, ended, paid
return stock
