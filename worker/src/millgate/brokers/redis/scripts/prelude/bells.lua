-- Bells: lists with one token at most, on which waiting workers of one subscription block.

local function ring(sid, token)
  local bell = P .. 'bell:' .. sid
  if call('EXISTS', bell) == 0 then call('RPUSH', bell, token) end
end

-- Wake one waiter of each subscription that takes one of these topics; `all`: whatever it takes, to look again.
local function ring_for(numbers, all)
  if G.suspended or (#numbers == 0 and not all) or (G.limit and G.leased >= G.limit) then return end
  local bells = call('HGETALL', P .. 'bells')
  for k = 1, #bells, 2 do
    local sid = bells[k]
    if NOW - tonumber(bells[k + 1]) > 60000 then
      call('HDEL', P .. 'bells', sid)
      call('HDEL', P .. 'bv', sid)
      call('UNLINK', P .. 'sub:' .. sid, P .. 'bell:' .. sid)
    elseif sid == '*' then
      if #numbers > 0 then ring(sid, 'work') end
    elseif all then
      ring(sid, 'look') -- a new topic: who takes it, only they know
    else
      for at = 1, #numbers, 500 do
        local takes = call('SMISMEMBER', P .. 'sub:' .. sid, unpack(numbers, at, min(at + 499, #numbers)))
        for n = 1, #takes do
          if takes[n] == 1 then
            ring(sid, 'work')
            break
          end
        end
      end
    end
  end
end
