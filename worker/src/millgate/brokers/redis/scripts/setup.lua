-- setup: packed default policy of topics, the queue's default policy. Answers the schema that is stored; refuses keys
-- of another kind under our names. Stands alone: the others refuse to run before it.
local P, call = KEYS[1], redis.call
local KINDS = { schema = 'string', g = 'hash', tn = 'hash', m = 'hash', L = 'hash', a = 'hash', leases = 'zset',
  due = 'zset', later = 'zset', ex = 'zset', active = 'zset', age = 'zset', cf = 'hash', ws = 'zset', u = 'hash',
  dm = 'hash', da = 'zset', gv = 'zset', wt = 'hash', aw = 'hash', lk = 'hash', cron = 'hash', bells = 'hash',
  fw = 'hash', cx = 'set', pg = 'hash', rgs = 'set', batch = 'hash' }
if call('EXISTS', P) == 1 then
  return redis.error_reply("MGFOREIGN key '" .. P .. "' exists, and it is not ours")
end
for name, kind in pairs(KINDS) do
  local is = call('TYPE', P .. name).ok
  if is ~= 'none' and is ~= kind then
    return redis.error_reply("MGFOREIGN key '" .. P .. name .. "' is a " .. is .. ', ours is a ' .. kind)
  end
end
local stored = call('GET', P .. 'schema')
if not stored then
  if call('EXISTS', P .. 'g', P .. 'm', P .. 'tn') > 0 then
    return redis.error_reply("MGFOREIGN there is a queue without '" .. P .. "schema'")
  end
  local time = call('TIME')
  call('HSET', P .. 'g', 'born', time[1] .. time[2], 'df', ARGV[1], 'cq', ARGV[2], 'beat', time[1] * 1000)
  -- a value that is long makes a hash a table from the start: in a short list each look passes all that is before
  for _, name in ipairs({ 'L', 'u' }) do call('HSET', P .. name, '', ('-'):rep(65)) end
  call('SET', P .. 'schema', '1')
  return 1
end
return tonumber(stored) or -1
