-- purge_dead: topic or '', batch, 1 when ids follow, ids. Answers how many were forgotten.
freeing()
queue()
local tn = ARGV[1] ~= '' and call('HGET', P .. 'tn', ARGV[1])
if ARGV[1] ~= '' and not tn then return 0 end
local ids, of, count = {}, {}, 0
if ARGV[3] == '1' then
  for k = 4, #ARGV do ids[#ids + 1] = ARGV[k] end
else
  ids = call('ZRANGE', tn and P .. 'dz:' .. tn or P .. 'da', 0, tonumber(ARGV[2]) - 1)
end
for k, packed in ipairs(ids[1] and call('HMGET', P .. 'dm', unpack(ids)) or {}) do
  local number = packed and munpack(packed)[14]
  if number and (not tn or tonumber(tn) == number) then
    of[number] = of[number] or {}
    table.insert(of[number], ids[k])
  end
end
for number, letters in pairs(of) do count = count + forget_dead(letters, number) end
return count
