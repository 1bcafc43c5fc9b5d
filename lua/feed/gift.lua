-- gift: what becomes of a gift whose time has come: it joins a row, is suppressed, or becomes a row; and what is kept of that: its
-- entry in the ledger, what it counts, its receipt. The same rules as the domain's FeedState::publish.
--
-- Of a gift KEYS and ARGV have
--   id, lock     keys: of its id; of its user and kind, or of a frame of its combo
--   fingerprint  of the payload, in hex
--   show         "" by the policy, "-" at once, "+MS" later, or a time
--   combo        the key of its combo, "" for none
--   given        what was given: {"units":N,"amount":N,"currency":C}, no amount where it has no value; of a frame what it says
--   body         the lines that it gives the row that it begins (row)
--   entry        the members that it gives its entry in the ledger (ledger/stored); "" for a test, which has none
--   ranked, user "1" where its giver is ranked, else "0"; the giver's id
--   record       its record, "" while the caller does not know that it is for later

local NOTHING = '{"units":0}'
-- Whether the feed counts something, or is to begin to.
local is_counted = STRINGS.totals or #policies.defaults.totals > 0

-- Counts the nth gift, which was given this; see counting. A frame that its combo did not grow by counts nothing.
local function count_in_runs(n, row, is_ranked, given)
  local sum = cjson.decode(given)
  if ARGV.combo[n] ~= '' and sum.units == 0 and (sum.amount or 0) == 0 then return nil end
  return LATER.counting.count(sum, ARGV.user[n], string.match(ARGV.body[n], ',"user":({.-}),"gift":{'), is_ranked, row)
end

-- Keeps what became of the nth gift, and returns its receipt. `decision` is that of a review. `id` is the row that shows the gift, nil
-- if no row does. `count` is that of the row that it joined. `added` is what it added to its row, nil if the gift is taken back in
-- the same step. `given` is what was given.
local function keep(n, status, decision, id, count, added, given)
  local entry, rest, lifetime = ARGV.entry[n], nil, nil
  if status == 'accepted' then
    rest = ',"row":"' .. id .. '","added":' .. added
  else
    rest = (id and ',"row":"' .. id .. '"' or '') .. (count and ',"count":' .. count or '') .. ',"epoch":"' .. (feed.epoch or '0')
      .. '","seq":' .. feed.seq_text .. (added and ',"added":' .. added or ',"retracted":true')
  end
  if decision then rest = rest .. ',"decision":"' .. decision .. '"' end
  if entry == '' then return receipts.keep_taken(n, status, rest .. ',"test":true') end

  if added and given ~= added then rest = rest .. ',"given":' .. given end
  local number = ledger.append(status, id, '"given":' .. given .. ',' .. entry, status == 'suppressed' or status == 'denied')
  if is_counted and added then
    local keep_until, counted = count_in_runs(n, status ~= 'suppressed' and id, id ~= nil and ARGV.ranked[n] == '1', given)
    if counted then
      rest = rest .. ',"keep_until":' .. feed.int(keep_until) .. ',"counted":' .. counted
      lifetime = keep_until - feed.now
    end
  end
  return receipts.keep_taken(n, status, rest .. ',"entry":' .. number, lifetime)
end

-- Shows the nth gift, and returns its receipt.
local function take(n, decision)
  if feed.is_unsettled then LATER.settle.apply() end
  if ARGV.combo[n] ~= '' then return keep(n, LATER.frame.take(n, decision)) end

  local id, status, count, added = locks.row_of(n), nil, nil, NOTHING
  if id and feed.policy.dedup == 'combine' then
    count, added = LATER.merge.join(id, n)
    if count then status = 'merged' end
  elseif id and not LATER.merge.says_more(id, n) then
    status = 'suppressed'
  end
  if not status then id, status, added = list.add(ARGV.body[n]), 'accepted', ARGV.given[n] end

  if status ~= 'suppressed' then locks.take(n, id) end
  return keep(n, status, decision, id, count, added, ARGV.given[n])
end

-- Keeps that the nth gift is suppressed or denied, and returns its receipt and what was given. A gift that is taken back in the same
-- step (`is_taken_back`) does not count.
local function keep_back(n, status, decision, is_taken_back)
  local given = ARGV.combo[n] == '' and ARGV.given[n] or LATER.frame.grow(n)
  return keep(n, status, decision, nil, nil, not is_taken_back and NOTHING or nil, given), given
end

-- The refusal that ends the call before any gift is looked at, if there is one.
local function refusal_at_start()
  return feed.refusal or is_counted and LATER.counting.refusal_at_start() or nil
end

-- The refusal that ends the call once all gifts were looked at, if there is one. Nothing is written yet.
local function refusal()
  if feed.unready_at then return { '', 'register', feed.int(feed.unready_at), feed.int(feed.policy.delay_ms) } end
  return is_counted and LATER.counting.refusal() or ledger.refusal()
end

return { take = take, keep_back = keep_back, refusal_at_start = refusal_at_start, refusal = refusal }
