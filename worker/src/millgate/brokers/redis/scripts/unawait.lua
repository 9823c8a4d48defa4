-- unawait: a waiter's name, ids: it waits no more.
freeing()
for k = 2, #ARGV do
  local names, left = call('HGET', P .. 'aw', ARGV[k]), {}
  if names then
    for name in names:gmatch('%S+') do if name ~= ARGV[1] then left[#left + 1] = name end end
    if left[1] then
      call('HSET', P .. 'aw', ARGV[k], table.concat(left, ' '))
    else
      call('HDEL', P .. 'aw', ARGV[k])
      call('ZREM', P .. 'awx', ARGV[k])
    end
  end
end
call('UNLINK', P .. 'done:' .. ARGV[1])
return 1
