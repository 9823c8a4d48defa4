-- regate: one step of what a new policy brings about: what waits passes its new gates, dead letters that are too many or
-- too old are forgotten. Answers how many topics are not done, about.
freeing()
queue()
local next = call('SRANDMEMBER', P .. 'rgs')
if next then regate(topic(tonumber(next)), 150) else age_out_dead() end
finish()
return call('SCARD', P .. 'rgs') + (overdue_dead() and 1 or 0)
