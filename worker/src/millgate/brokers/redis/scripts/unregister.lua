-- unregister: worker, incarnation, batch. Gives back what it holds, then forgets it; answers how many are still held.
freeing()
queue()
local key = P .. 'w:' .. ARGV[1]
local w = call('HMGET', key, 'inc', 'wn')
if w[1] ~= ARGV[2] then return 0 end
local held = P .. 'h:' .. w[2]
local ids = call('SRANDMEMBER', held, tonumber(ARGV[3]))
fetch(ids)
for _, id in ipairs(ids) do
  if not put_back(id) then call('SREM', held, id) end
end
carry()
local left = call('SCARD', held)
if left == 0 then
  call('UNLINK', key)
  call('ZREM', P .. 'ws', ARGV[1])
end
finish()
return left
