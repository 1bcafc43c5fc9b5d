-- attach: brings the webhooks of all feeds to one feed: those that are new begin to read, those that are no
-- more stop.
--
-- KEYS ledger reports readers
-- ARGV now hooks_version ledger_max stamp again, per webhook: reader since gathers
--     hooks_version: of their set
--     ledger_max: how far back they begin at most, entries
--     again: "again" also when this version was brought here already: a reader that should be here is not; else ""
--     since: when there is this webhook
--     gathers: how long it gathers entries, milliseconds
-- USES clock stored reports
-- DATA writes, always
-- RETURNS "gone" and how many stopped, or began anew under a name that was there; these; then those that began
--   and have something to send
-- REFUSES nothing: of a version that is known already it does nothing

local call, int, ledger, behind = redis.call, reports.int, reports.ledger, reports.behind
call('HLEN', KEYS.readers)
local gone, began = {}, {}
local version = tonumber(ARGV.hooks_version)
if version < ledger.hooks or version == ledger.hooks and ARGV.again == '' then return { 'gone', '0' } end
local names = {}
for n = 1, ITEM_COUNT do names[ARGV.reader[n]] = ARGV.since[n] end
for _, name in ipairs(call('HKEYS', KEYS.readers)) do
  local it = string.sub(name, 1, 2) == '*:' and reports.find(name)
  if it and int(it.since) ~= names[name] then
    gone[#gone + 1] = name
    call('HDEL', KEYS.readers, name)
    reports.wake(name)
  end
end

for n = 1, ITEM_COUNT do
  local name = ARGV.reader[n]
  if call('HEXISTS', KEYS.readers, name) == 0 then
    local since = tonumber(ARGV.since[n])
    local at = reports.first_since(since, math.max(ledger.base, behind - tonumber(ARGV.ledger_max)))
    reports.keep_reader(reports.new_reader(name, at, since))
    reports.rest(name, ARGV.gathers[n], ARGV.stamp)
    if at < behind then began[#began + 1] = name end
  end
end
ledger.hooks, ledger.readers = version, call('HLEN', KEYS.readers)
reports.keep()
local answer = { 'gone', int(#gone) }
for _, name in ipairs(gone) do answer[#answer + 1] = name end
for _, name in ipairs(began) do answer[#answer + 1] = name end
return answer
