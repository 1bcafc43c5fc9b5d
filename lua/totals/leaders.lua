-- leaders: who leads a run.
--
-- KEYS policy totals names
-- ARGV now default_policy runs measures period state measure limit user
--     state: open, or ended for the run that ended last
--     limit: how many at most
--     user: whose rank is asked for too, or ""
-- USES clock policies
-- LATER runs
-- DATA reads
-- RETURNS when the run began, the first as JSON, and the rank and the score of the user, if that is ranked; only "" where there is no
--   such run
-- REFUSES as totals/read does

local runs, policy = LATER.runs, policies.with(STRINGS.policy)
if not policy or runs.is_damaged then return redis.error_reply('DAMAGED what a feed counts') end
if not runs.are_current(policy) then return { '', 'period' } end

local run = (ARGV.state == 'ended' and runs.ended or runs.open)[ARGV.period]
if not run then return { '' } end
local answer = { string.format('%d', run.since), runs.leaders(run, ARGV.measure, ARGV.limit + 0) }
local key = runs.key(run, ARGV.measure)
local score = key and ARGV.user ~= '' and redis.call('ZSCORE', key, ARGV.user)
if score then
  answer[3], answer[4] = string.format('%d', redis.call('ZRANK', key, ARGV.user) + 1), string.format('%d', -score)
end
return runs.refusal() or answer
