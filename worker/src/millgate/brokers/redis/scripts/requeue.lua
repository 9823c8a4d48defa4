-- requeue: ids. Answers those that were running.
freeing()
queue()
tick()
local out = {}
fetch(ARGV)
for k = 1, #ARGV do
  if put_back(ARGV[k]) then out[#out + 1] = ARGV[k] end
end
finish()
return out
