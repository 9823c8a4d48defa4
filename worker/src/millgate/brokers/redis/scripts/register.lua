-- register: worker, incarnation, info.
freeing()
queue()
local key = P .. 'w:' .. ARGV[1]
if call('HGET', key, 'inc') ~= ARGV[2] then
  call('DEL', key)
  call('HSET', key, 'inc', ARGV[2], 'wn', call('HINCRBY', P .. 'g', 'wn', 1), 'beat', '')
end
call('HSET', key, 'info', ARGV[3], 'seen', NOW)
call('ZADD', P .. 'ws', NOW, ARGV[1])
return 1
