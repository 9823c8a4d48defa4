-- extend: worker, incarnation, beat, then pairs of id and call. Answers lost ids, cancelled ids, state, revision.
freeing()
local name, incarnation = ARGV[1], ARGV[2]
local w = call('HMGET', P .. 'w:' .. name, 'inc', 'fence', 'seen')
local state = 'A'
if w[1] ~= incarnation or not present(w[3], w[2]) then
  state = 'U'
else
  if w[2] and tonumber(w[2]) > NOW then state = 'F' end
  call('HSET', P .. 'w:' .. name, 'beat', ARGV[3], 'seen', NOW)
  call('ZADD', P .. 'ws', NOW, name)
end
local lost, stop = {}, {}
local marked = exists('cx')
for from = 4, #ARGV, 1000 do
  local ids, renewed = {}, {}
  for k = from, min(from + 999, #ARGV), 2 do ids[#ids + 1] = ARGV[k] end
  local leases = call('HMGET', P .. 'L', unpack(ids))
  for k = 1, #ids do
    local lease = leases[k]
    local t = lease and lease:sub(1, 8) == ARGV[from + 2 * k - 1] and topic((sunpack('>I4', lease, 10)))
    if t then
      renewed[#renewed + 1] = NOW + (t.c.lease or 60000)
      renewed[#renewed + 1] = ids[k]
      if marked and call('SISMEMBER', P .. 'cx', ids[k]) == 1 then stop[#stop + 1] = ids[k] end
    else
      lost[#lost + 1] = ids[k]
    end
  end
  if #renewed > 0 then call('ZADD', P .. 'leases', 'XX', unpack(renewed)) end
end
local g = call('HMGET', P .. 'g', 'rev', 'beat', 'grace')
beat(tonumber(g[2] or nil) or 0, tonumber(g[3] or nil) or 0)
return { lost, stop, state, tonumber(g[1] or nil) or 0 }
