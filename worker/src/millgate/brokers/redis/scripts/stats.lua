-- stats: the first topic's number, how many. Answers revision, ms to the next due message, topics, workers (with the
-- first page), the number to go on with or 0, whether something waits to be forwarded.
freeing()
queue()
tick()
finish()
local from, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local last = tonumber(G.topics:match('%d+$'))
local room = G.limit and G.limit - G.leased - G.unmet
local topics, workers = {}, {}
for tn = from, min(last, from + most - 1) do
  local t = topic(tn)
  if t then
    local claimable = 0
    if not (t.hp or t.c.paused or t.rg or G.suspended) then
      claimable = allowed(t)
      if room then claimable = max(0, min(claimable, room + unmet(t))) end
    end
    local since = claimable > 0 and oldest(t)
    topics[#topics + 1] = { t.name, t.w + call('ZCARD', P .. 'pz:' .. tn) + (t.rg and call('ZCARD', P .. 'z:' .. tn) or 0),
      claimable, call('ZCARD', P .. 'd:' .. tn), t.l, call('ZCARD', P .. 'dz:' .. tn),
      since and max(0, NOW - since) or -1, t.e, t.s, t.ok, t.fl,
      t.c.declared and 1 or 0, (t.hp or t.c.paused) and 1 or 0, t.dp }
  end
end
if from == 1 then
  for _, name in ipairs(call('ZRANGE', P .. 'ws', 0, -1)) do
    local w = call('HMGET', P .. 'w:' .. name, 'inc', 'wn', 'info', 'beat', 'seen', 'fence')
    if w[1] and present(w[5], w[6]) then
      local fence = tonumber(w[6] or nil)
      workers[#workers + 1] = { name, w[1], w[3], w[4], max(0, NOW - tonumber(w[5])),
        call('SCARD', P .. 'h:' .. w[2]), fence and fence > NOW and fence - NOW or -1 }
    end
  end
end
local due = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2]
return { G.rev, due and max(0, tonumber(due) - NOW) or -1, topics, workers, last >= from + most and from + most or 0,
  exists('fw') and 1 or 0 }
