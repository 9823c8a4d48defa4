-- peek: topic, W, D or R, limit. Answers rows: id, message, counts, due in ms or -1, worker.
freeing()
queue()
tick()
finish()
local tn, limit = call('HGET', P .. 'tn', ARGV[1]), tonumber(ARGV[3])
if not tn or limit <= 0 then return {} end
local out = {}
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
  for _, id in ipairs(call('ZRANGE', P .. 'leases', 0, 4999)) do
    local lease = lease_of(id)
    if lease and lease.tn == tonumber(tn) then add(id, -1, lease.worker) end
  end
end
return out
