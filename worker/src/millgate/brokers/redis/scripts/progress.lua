-- progress: id, call, value. Answers 1, or 0 when the token is stale.
freeing()
local lease = lease_of(ARGV[1])
if not lease or lease.call ~= ARGV[2] then return 0 end
call('HSET', P .. 'pg', ARGV[1], ARGV[3])
return 1
