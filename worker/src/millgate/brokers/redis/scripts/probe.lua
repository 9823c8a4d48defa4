-- probe: tries every command that the verbs use on a key of its own; answers those that the user may not call.
local P, missing = KEYS[1], {}
local key = P .. 'probe'
local COMMANDS = {
  { 'DEL', key }, { 'EXISTS', key }, { 'GET', key }, { 'SET', key, '1', 'PX', 1000 }, { 'UNLINK', key }, { 'TYPE', key },
  { 'PEXPIRE', key, 1000 }, { 'TIME' },
  { 'HSET', key, 'f', 1 }, { 'HGET', key, 'f' }, { 'HMGET', key, 'f' }, { 'HGETALL', key }, { 'HEXISTS', key, 'f' },
  { 'HINCRBY', key, 'f', 1 }, { 'HLEN', key }, { 'HRANDFIELD', key, 1 }, { 'HSCAN', key, 0 }, { 'HDEL', key, 'f' },
  { 'RPUSH', key, 1 }, { 'DEL', key },
  { 'SADD', key, 1 }, { 'SCARD', key }, { 'SISMEMBER', key, 1 }, { 'SMISMEMBER', key, 1 },
  { 'SRANDMEMBER', key, 1 }, { 'SREM', key, 1 },
  { 'ZADD', key, 1, 'm' }, { 'ZCARD', key }, { 'ZMSCORE', key, 'm' }, { 'ZRANGE', key, 0, 0 },
  { 'ZRANGEBYSCORE', key, 0, 1 }, { 'ZRANK', key, 'm' },
  { 'ZREVRANGEBYSCORE', key, 1, 0 }, { 'ZSCORE', key, 'm' }, { 'ZREM', key, 'm' }, { 'ZPOPMIN', key, 1 },
}
for _, command in ipairs(COMMANDS) do
  local answer = redis.pcall(unpack(command))
  local said = type(answer) == 'table' and answer.err or ''
  if said:find('NOPERM', 1, true) or said:find('no permissions', 1, true)
      or said:find("can't run this command", 1, true) then
    missing[#missing + 1] = command[1]:lower()
  end
end
redis.pcall('DEL', key)
return missing
