-- stage: call, number, a part of a batch; topics that its chains name; then of each topic: name, the bytes of its largest
-- record, and that message's id. Keeps the part for a minute, unless the topics would not take it; answers the revision.
queue()
local this, number, part = ARGV[1], ARGV[2], ARGV[3]
local last = 4 + tonumber(ARGV[4])
for k = 5, last do
  local refused = unfit(ARGV[k])
  if refused then return refused end
end
for k = last + 1, #ARGV, 3 do
  local refused = unfit(ARGV[k], tonumber(ARGV[k + 1]), ARGV[k + 2])
  if refused then return refused end
end
call('HSET', P .. 'part:' .. this, number, part)
call('PEXPIRE', P .. 'part:' .. this, 60000)
return G.rev
