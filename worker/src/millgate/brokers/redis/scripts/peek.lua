-- peek: topic, W, D or R, limit, where to begin ('0' at first). Answers rows: id, message, counts, due in ms or -1, worker;
-- and where the next call begins, '0': nowhere. What runs is found by way of all leases, some hundreds a call.
freeing()
queue()
tick()
finish()
local tn, limit = tonumber(call('HGET', P .. 'tn', ARGV[1]) or nil), tonumber(ARGV[3])
if not tn or limit <= 0 then return { {}, '0' } end
local out, following = {}, '0'
local function add(id, due, worker)
  local rec = call('HGET', P .. 'm', id)
  if rec then out[#out + 1] = { id, rec, call('HGET', P .. 'a', id) or '', due, worker } end
end
if ARGV[2] == 'W' then
  for _, key in ipairs({ 'q:', 'pz:', 'z:' }) do
    for _, id in ipairs(call('ZRANGE', P .. key .. tn, 0, limit - 1)) do add(id, -1, '') end
  end
elseif ARGV[2] == 'D' then
  local page = call('ZRANGE', P .. 'd:' .. tn, 0, limit - 1, 'WITHSCORES')
  for k = 1, #page, 2 do add(page[k], max(0, tonumber(page[k + 1]) - NOW), '') end
else
  local page = call('HSCAN', P .. 'L', ARGV[4], 'COUNT', 300)
  following = page[1]
  for k = 1, #page[2], 2 do
    local id = page[2][k]
    local lease = lease_of(id, page[2][k + 1])
    if lease and lease.tn == tn then add(id, -1, lease.worker) end
  end
end
return { out, following }
