-- lock: what (acquire, renew, release), name, holder, fence or '', seconds, 1 for any holder. Answers the fence, or 0.
freeing()
local what, name, holder, fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local packed = call('HGET', P .. 'lk', name)
local held = packed and munpack(packed)
if held and held[3] <= NOW then held = nil end
if what == 'acquire' then
  for _, other in ipairs(call('ZRANGEBYSCORE', P .. 'lkx', '-inf', NOW, 'LIMIT', 0, 2)) do -- more go than come
    call('ZREM', P .. 'lkx', other)
    call('HDEL', P .. 'lk', other)
  end
  if held and held[1] ~= holder then return 0 end
  held = held or { holder, call('HINCRBY', P .. 'g', 'lf', 1) }
elseif not held or (ARGV[6] ~= '1' and held[1] ~= holder) or (fence ~= '' and held[2] ~= tonumber(fence)) then
  return 0
elseif what == 'release' then
  call('HDEL', P .. 'lk', name)
  call('ZREM', P .. 'lkx', name)
  return held[2]
end
held[3] = NOW + max(0, ceil(tonumber(ARGV[5]) * 1000))
call('HSET', P .. 'lk', name, mpack(held))
call('ZADD', P .. 'lkx', held[3], name)
return held[2]
