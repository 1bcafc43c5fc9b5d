-- read: what a feed counts: the totals of its runs, or its goals.
--
-- KEYS policy totals sums
-- ARGV now default_policy what
--     what: open for the runs that are, ended for those that ended last, goals
-- USES clock policies
-- LATER runs sums
-- DATA reads
-- RETURNS "counted", or "not_counted" where no run is open; then JSON: the period and the totals of each run, or each goal
-- REFUSES with "period": the runs are to be settled first

local runs, policy = LATER.runs, policies.with(STRINGS.policy)
if not policy or runs.is_damaged then return redis.error_reply('DAMAGED what a feed counts') end
if not runs.are_current(policy) then return { '', 'period' } end

local answer = { next(runs.open) and 'counted' or 'not_counted' }
if ARGV.what == 'goals' then
  for _, goal in ipairs(runs.state and runs.state.goals or {}) do
    answer[#answer + 1] = runs.goal_text(goal, LATER.sums.of_goal(goal))
  end
else
  for period, run in pairs(ARGV.what == 'ended' and runs.ended or runs.open) do
    answer[#answer + 1] = '{"' .. period .. '":' .. LATER.sums.text(run, LATER.sums.of_run(run)) .. '}}'
  end
end
return answer
