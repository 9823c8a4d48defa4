-- look: subscription's name, topics' version, topics; before it waits. Answers whether a claim is worth a try, ms to the
-- next event, the topics' version (another one: nothing was looked at), whether something waits to be forwarded.
freeing()
queue()
tick()
finish()
local sid, numbers = ARGV[1], subscription_at(3)
if numbers and ARGV[2] ~= G.topics then return { 0, '', G.topics, 0 } end
local hit = false
if not G.suspended then
  local live = {}
  if not numbers then
    live = call('ZRANGE', P .. 'active', 0, G.limit and 499 or 0)
  else
    for at = 1, #numbers, 500 do
      local last = min(at + 499, #numbers)
      local scores = call('ZMSCORE', P .. 'active', unpack(numbers, at, last))
      for k = 1, #scores do if scores[k] then live[#live + 1] = numbers[at + k - 1] end end
    end
  end
  if G.limit then
    local room = G.limit - G.leased - G.unmet
    for _, tn in ipairs(live) do hit = hit or room + unmet(topic(tonumber(tn))) > 0 end
    if not hit and not numbers and #live == 500 then -- those with slots of their own may stand behind
      for _, tn in ipairs(reserved()) do
        hit = hit or call('ZSCORE', P .. 'active', tn) and room + unmet(topic(tn)) > 0
      end
    end
  else
    hit = live[1] ~= nil
  end
end
if not hit then
  if numbers and call('HEXISTS', P .. 'bells', sid) == 0 or (numbers and ARGV[2] ~= call('HGET', P .. 'bv', sid)) then
    call('UNLINK', P .. 'sub:' .. sid)
    for at = 1, #numbers, 500 do
      call('SADD', P .. 'sub:' .. sid, unpack(numbers, at, min(at + 499, #numbers)))
    end
    call('HSET', P .. 'bv', sid, ARGV[2])
  end
  call('HSET', P .. 'bells', sid, NOW)
  call('DEL', P .. 'bell:' .. sid) -- an old token says nothing any more
end
return { hit and 1 or 0, next_due(numbers), G.topics, exists('fw') and 1 or 0 }
