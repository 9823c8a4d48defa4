-- dead: topic or '', limit, after or '', or one id. Answers pairs of id and packed letter, newest first.
freeing()
queue()
tick()
finish()
if ARGV[4] ~= '' then
  local letter = call('HGET', P .. 'dm', ARGV[4])
  return letter and { ARGV[4], letter } or {}
end
local key = P .. 'da'
if ARGV[1] ~= '' then
  local tn = call('HGET', P .. 'tn', ARGV[1])
  if not tn then return {} end
  key = P .. 'dz:' .. tn
end
local below = ARGV[3] ~= '' and call('ZSCORE', P .. 'da', ARGV[3])
local ids = call('ZREVRANGEBYSCORE', key, below and '(' .. below or '+inf', '-inf', 'LIMIT', 0, tonumber(ARGV[2]))
local out = {}
for _, id in ipairs(ids) do
  out[#out + 1] = id
  out[#out + 1] = call('HGET', P .. 'dm', id)
end
return out
