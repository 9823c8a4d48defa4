-- fence: worker, seconds; '' lifts it. Answers known, and claims held (or whether there was a fence).
freeing()
queue()
local key = P .. 'w:' .. ARGV[1]
local w = call('HMGET', key, 'wn', 'fence', 'seen')
if not w[1] or not present(w[3], w[2]) then return { 0, 0 } end
call('ZADD', P .. 'ws', w[3], ARGV[1]) -- what an earlier fence has said of when to forget it holds no more
if ARGV[2] == '' then
  local had = w[2] and tonumber(w[2]) > NOW
  call('HDEL', key, 'fence')
  local numbers = call('ZRANGE', P .. 'active', 0, 99)
  ring_for(numbers, false)
  return { 1, had and 1 or 0 }
end
call('HSET', key, 'fence', NOW + ceil(tonumber(ARGV[2]) * 1000))
return { 1, call('SCARD', P .. 'h:' .. w[1]) }
