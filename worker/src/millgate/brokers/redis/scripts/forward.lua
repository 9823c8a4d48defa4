-- forward: serial, then how many drafts (0 or 1) and the draft. Carries one over, or keeps it when it cannot be.
freeing()
queue()
local packed = call('HGET', P .. 'fw', ARGV[1])
if not packed then return 0 end
call('HDEL', P .. 'fw', ARGV[1])
local drafts = drafts_at(2)
if drafts[1] then
  follow(drafts)
else
  local both = munpack(packed)
  put_dead(topic(both[2][14]), both[1], both[2])
end
finish()
return 1
