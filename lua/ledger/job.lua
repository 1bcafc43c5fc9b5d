-- job: keeps what a webhook has done, if anything, and answers what it has to send. When that is nothing,
-- it dozes from then on, and rests when it is looked at once more and there is still nothing.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader entries_at_most gathers stamp how was progress through dead_letters hooks_version, per entry: what
--   number tries reason
--     entries_at_most: of each kind
--     gathers: how long it gathers entries, milliseconds
--     how: "open" or "save"
--     was: progress as it was, and
--     progress: as it is now
--     through: entries up to this number are done with, or ""
--     dead_letters: how many are kept whose entries the ledger has no more
--     hooks_version: of a webhook of all feeds, the version of their set; else 0
--     what: "a" or "d"
--     number: 16 digits
--     tries: how often it was sent
--     reason: why it is dead
-- USES clock stored reports reader
-- DATA writes, always
-- RETURNS now, in how many milliseconds it is to be looked at again or "", how many entries there are to be sent, the first
--   one's number, progress, how many dead letters made room, how many entries follow, these, then numbers and entries that are
--   sent again
-- REFUSES with nothing when it does not read here, or its progress is not as the caller thinks; with "hooks" when
--   that set is to be brought here first (ledger/attach)

local call, int, ledger, behind = redis.call, reports.int, reports.ledger, reports.behind
reader.check_types()
if tonumber(ARGV.hooks_version) > ledger.hooks then return { 'hooks' } end
local it, most = reader.find(ARGV.reader), tonumber(ARGV.entries_at_most)
if not it or ARGV.how == 'save' and it.progress ~= ARGV.was then return {} end
if reader.let_go(it) then reports.keep_reader(it) end
if ARGV.how == 'save' then
  for n = 1, ITEM_COUNT do
    local member, number = ARGV.number[n], tonumber(ARGV.number[n])
    if ARGV.what[n] == 'a' then
      reader.end_resending(member)
    else
      local text = reader.entry_of(member)
      if text then reader.bury(it, number, text, tonumber(ARGV.tries[n]), ARGV.reason[n], tonumber(ARGV.dead_letters)) end
    end
  end
  it.progress = ARGV.progress
  local through = tonumber(ARGV.through)
  if through then it.floor = math.max(it.floor, math.min(through + 1, behind)) end
  it.handed = it.floor
  reports.keep_reader(it)
end

local backlog, again, look = math.max(behind - it.floor, 0), reader.all_resent(most), nil
-- What there was is counted with the next entry.
if ledger.vanished then backlog = 0 end
if backlog == 0 and #again == 0 then
  look = reports.doze(ARGV.reader, ARGV.gathers, ARGV.stamp)
  reports.keep()
end
local answer = { clock.text, look and int(look) or '', int(backlog), int(it.floor), it.progress, int(reader.lost_letters), '0' }
if backlog > 0 then
  local from = it.floor - ledger.base
  local entries = call('LRANGE', KEYS.ledger, int(from), int(from + most - 1))
  answer[7] = int(#entries)
  for _, text in ipairs(entries) do answer[#answer + 1] = text end
end
for _, text in ipairs(again) do answer[#answer + 1] = text end
return answer
