-- leaders: who leads a run.
--
-- KEYS policy totals people unranked
-- ARGV now default_policy runs measures period state measure limit user are_ranked
--     state: open, or ended for the run that ended last
--     limit: how many at most
--     user: whose rank is asked for too, or ""
--     are_ranked: "1" once users whose scores changed before the call were ranked
-- USES clock policies
-- LATER runs person rankings
-- DATA reads
-- RETURNS when the run began, the first as JSON, and the rank and the score of the user, if that is ranked; only "" where there is no
--   such run
-- REFUSES with "period" as totals/read does; with "rank": users are to be ranked first (totals/rank); and as totals/rankings does

local runs, policy = LATER.runs, policies.with(STRINGS.policy)
if not policy or runs.is_damaged then return redis.error_reply('DAMAGED what a feed counts') end
if not runs.are_current(policy) then return { '', 'period' } end
if ARGV.are_ranked ~= '1' and redis.call('LLEN', KEYS.unranked) > 0 then return { '', 'rank' } end

local run = (ARGV.state == 'ended' and runs.ended or runs.open)[ARGV.period]
if not run then return { '' } end
local rankings, call, format = LATER.rankings, redis.call, string.format
local answer = { format('%d', run.since), rankings.first(run, ARGV.measure, ARGV.limit + 0) }
local key = rankings.key(run, ARGV.measure)
local score = key and ARGV.user ~= '' and call('ZSCORE', key, ARGV.user)
if score then answer[3], answer[4] = format('%d', call('ZRANK', key, ARGV.user) + 1), format('%d', -score) end
return rankings.refusal() or answer
