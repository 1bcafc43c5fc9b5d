-- counted: how totals/counting ends: what scripts that take gifts call.

feed.commits[#feed.commits + 1] = count_commit

-- Counts the nth gift. Returns until when it can be taken back, and what it counted as JSON; nil if nothing is counted. `row` is the
-- row that shows it. If no row does (`is_shown` is false), its giver is not ranked.
local function count_nth(n, row, is_shown, given)
  local sum, flag = cjson.decode(given), is_shown and ARGV.ranked[n] == '1' and 'r' or '-'
  local sums = int(sum.units) .. ':' .. (sum.amount and int(sum.amount) .. ':' .. sum.currency or ':')
  local text, keep_until = count_gift(ARGV.combo[n] ~= '', row, flag, ARGV.user[n], ARGV.body[n], sums)
  if text then return keep_until, cjson.encode(text) end
end

return { count = count_nth, refusal_at_start = count_gate, refusal = count_refuses }
