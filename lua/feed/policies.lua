-- policies: a feed's policy: the members that are set for the feed, over the server's.
--
--   policy  STRING of JSON: the members of the API's policy that are set for the feed; the key is missing if none is set

local defaults = cjson.decode(ARGV.default_policy)

-- The policy with these members set, JSON or nothing; nil where that cannot be read.
local function with(text)
  if not text then return defaults end
  local is_whole, set = pcall(cjson.decode, text)
  return is_whole and type(set) == 'table' and setmetatable(set, { __index = defaults }) or nil
end

return { defaults = defaults, with = with }
