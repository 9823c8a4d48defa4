-- purge_dead: topic or '', batch, 1 when ids follow, ids. Answers how many were forgotten.
freeing()
queue()
local tn = ARGV[1] ~= '' and call('HGET', P .. 'tn', ARGV[1])
if ARGV[1] ~= '' and not tn then return 0 end
local ids, count = {}, 0
if ARGV[3] == '1' then
  for k = 4, #ARGV do ids[#ids + 1] = ARGV[k] end
else
  ids = call('ZRANGE', tn and P .. 'dz:' .. tn or P .. 'da', 0, tonumber(ARGV[2]) - 1)
end
for _, id in ipairs(ids) do
  local packed = call('HGET', P .. 'dm', id)
  local of = packed and munpack(packed)[14]
  if of and (not tn or tonumber(tn) == of) and forget_dead(id, of) then count = count + 1 end
end
return count
