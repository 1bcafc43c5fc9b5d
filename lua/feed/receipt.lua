-- receipt: what became of a gift, by its id: the answer when the same id comes again, and what has to be undone when the gift is
-- taken back.
--
--   id  STRING of JSON:
--       until       when the id is forgotten, by the steady time; none while the gift waits: such an id is never forgotten
--       since       when it began to wait
--       fingerprint of the payload
--       status      accepted, merged, suppressed, denied, scheduled, cancelled or in_review
--       decision    what was decided about one that was in review: approve, mask or deny
--       due_at      when it is to be shown; of one in review when time decides
--       row, count  the row that shows it, and the row's count where it joined one
--       epoch, seq  where the feed stood; the row's id says both where the gift began it
--       added       what it added to its row: {"units":N,"amount":N,"currency":C}, no amount where it has no value
--       given       what was given, less what was refunded, where that is not what was added: of a gift that no row shows, where a
--                   sum stopped at its limit, and of a frame whose combo had grown before its row began
--       refunded    how much of its value was refunded
--       retracted   true once it was taken back; then it has no added, given and counted
--       test        true for a test, which has no entry
--       keep_until, counted  until when what it counted can be taken back, and that (totals/counting, PART)
--       entry       the number of its entry in the ledger
--
-- PX only removes what has run out, a minute later.

local MEMBERS = {
  'until', 'since', 'fingerprint', 'status', 'decision', 'due_at', 'row', 'count', 'epoch', 'seq', 'added', 'given', 'refunded',
  'retracted', 'test', 'keep_until', 'counted', 'entry',
}
local OF_SUM = { 'runs', 'gifts', 'units', 'points', 'amount', 'currency', 'ranked', 'user' }

local function read(text)
  return text and cjson.decode(text) or nil
end

local function quoted(text)
  return cjson.encode(text)
end

-- Numbers are written exactly, where cjson would round them to 14 digits.
local function write(it, members)
  local texts = {}
  for _, name in ipairs(members or MEMBERS) do
    local value = it[name]
    local kind, text = type(value), nil
    if kind == 'number' then
      text = string.format('%d', value)
    elseif kind == 'table' then
      text = write(value, OF_SUM)
    elseif kind == 'string' then
      text = quoted(value)
    elseif value then
      text = 'true'
    end
    if text then texts[#texts + 1] = '"' .. name .. '":' .. text end
  end
  return '{' .. table.concat(texts, ',') .. '}'
end

-- Whether its id still holds; what waits holds until something became of it.
local function is_kept(it, steady)
  return not it['until'] or steady < it['until']
end

-- The gift whose id has this key waited and is cancelled; it would have been due then.
local function cancel(it, due_at, key)
  local window = feed.policy.idempotency_window_ms
  it.status, it['until'], it.since, it.due_at = 'cancelled', math.min(feed.steady + window, clock.MAX_TIME), nil, due_at
  feed.commits[#feed.commits + 1] = function() redis.call('SET', key, write(it), 'PX', feed.int(window + 60000)) end
end

return { read = read, write = write, is_kept = is_kept, cancel = cancel }
