-- register: worker, incarnation, info.
freeing()
queue()
local key = P .. 'w:' .. ARGV[1]
if call('HGET', key, 'inc') ~= ARGV[2] then
  leave(ARGV[1])
  local number = call('GET', P .. 'wn:' .. ARGV[1] .. ':' .. ARGV[2]) or call('HINCRBY', P .. 'g', 'wn', 1)
  call('HSET', key, 'inc', ARGV[2], 'wn', number, 'beat', '')
end
call('HSET', key, 'info', ARGV[3], 'seen', NOW)
call('ZADD', P .. 'ws', NOW, ARGV[1])
return 1
