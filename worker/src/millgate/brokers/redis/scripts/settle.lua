-- settle: settlements. Answers the stale ids, and whether something waits to be forwarded.
freeing()
queue()
local ops, refused = settlements_at(1)
if not ops then return refused end
tick()
local stale = {}
carry_out(ops, stale)
finish()
return { stale, exists('fw') and 1 or 0 }
