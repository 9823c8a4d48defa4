-- regate: one step of letting what waits pass new gates. Answers how many topics are not done.
freeing()
queue()
local next = call('SRANDMEMBER', P .. 'rgs')
if next then regate(topic(tonumber(next)), 150) end
finish()
return call('SCARD', P .. 'rgs')
