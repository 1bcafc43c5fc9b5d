-- goal: defines, changes or deletes a goal.
--
-- KEYS list hist meta policy due ledger reports readers totals sums people unranked parts announced
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at time_zone bounds goal spec goals_max
--     spec: {"goal","period","by","target","title"}, or "" to delete it
--     goals_max: how many a feed may have
-- USES clock policies list feed ledger
-- LATER doubt settle row rows room stored runs sums notices calendar
-- DATA writes
-- RETURNS where the feed stands, then "new" or "changed" and the goal; or "full", "not_counted", "deleted" or "unknown"
-- REFUSES as totals/tick does

if feed.refusal then return feed.refusal end
local refusal = LATER.calendar.settle()
if refusal then return refusal end
if feed.is_resized then LATER.settle.resize() end
local runs, notices = LATER.runs, LATER.notices
local goals, at = runs.state.goals, nil
for n, goal in ipairs(goals) do
  if goal.goal == ARGV.goal then at = n end
end

-- What becomes of it, and the goal as JSON.
local function put()
  local goal = cjson.decode(ARGV.spec)
  if not runs.open[goal.period] then return 'not_counted' end
  if not at and #goals >= ARGV.goals_max + 0 then return 'full' end
  feed.begin()
  local value = LATER.sums.of_goal(goal)
  goal.reached_at = at and value >= goal.target and goals[at].reached_at or nil
  goals[at or #goals + 1], runs.is_changed = goal, true
  if value >= goal.target and not goal.reached_at then notices.reach(goal, value) else notices.of_goal(goal, value) end
  return at and 'changed' or 'new', runs.goal_text(goal, value)
end

local function delete()
  if not at then return 'unknown' end
  notices.of_goal(table.remove(goals, at), 0, true)
  runs.is_changed = true
  return 'deleted'
end

local answer, text = (ARGV.spec == '' and delete or put)()
refusal = notices.refusal(feed.now) or ledger.refusal()
if refusal then return refusal end
feed.commit()
return { feed.position() .. ledger.news, answer, text }
