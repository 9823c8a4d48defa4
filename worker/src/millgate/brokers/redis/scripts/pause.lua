-- pause: topic, 1 or 0.
freeing()
queue()
local t = topic(number_of(ARGV[1]))
t.hp = ARGV[2] == '1'
if t.hp then call('HSET', P .. 't:' .. t.n, 'hp', '1') else call('HDEL', P .. 't:' .. t.n, 'hp') end
t.arm = true
finish()
return 1
