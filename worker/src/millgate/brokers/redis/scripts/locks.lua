-- locks: answers name, holder, fence, ms left of each.
local flat, out = call('HGETALL', P .. 'lk'), {}
for k = 1, #flat, 2 do
  local held = munpack(flat[k + 1])
  if held[3] > NOW then out[#out + 1] = { flat[k], held[1], held[2], held[3] - NOW } end
end
return out
