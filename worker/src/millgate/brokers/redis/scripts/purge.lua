-- purge: topic, waiting, delayed, batch, '' or the last number of publication that counts. Removes up to a batch, from
-- the back; answers how many, and that number: what an end brings about is not purged with it.
freeing()
queue()
tick()
local tn = call('HGET', P .. 'tn', ARGV[1])
if not tn then return { 0, '0' } end
local t, budget, removed = topic(tonumber(tn)), tonumber(ARGV[4]), 0
local upto = tonumber(ARGV[5]) or G.seq
local keys = {}
if ARGV[2] == '1' then keys = { P .. 'z:' .. tn, P .. 'pz:' .. tn, t.q } end
if ARGV[3] == '1' then keys[#keys + 1] = P .. 'd:' .. tn end
for _, key in ipairs(keys) do
  local from = 0
  while removed < budget do
    local ids = call('ZREVRANGE', key, from, from + budget - removed - 1)
    if not ids[1] then break end
    fetch(ids)
    for _, id in ipairs(ids) do
      local row = row_of(id)
      if not row then
        call('ZREM', key, id) -- no message of ours
      elseif row.rank % SPAN <= upto then
        cancelled(t, row, nil, MEMORY / 1000)
        removed = removed + 1
      else
        from = from + 1
      end
    end
  end
end
finish()
return { removed, string.format('%.0f', upto) }
