-- The index of topics that may be claimed from: `active` has them by level and pass, `age` by when they are raised.

-- When the longest waiting row of a lane entered it; nil: the lane is empty. Rows that came back from workers stand before
-- those that have waited longer: up to 100 of each priority are passed over.
--@seldom
local function oldest(t)
  local key, from = P .. 'b:' .. t.n, '-inf'
  local back = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  local best, most = tonumber(back[2]), back[1] and min(call('ZCARD', key) + 1, 100) or 1
  for _ = 1, 10 do
    local page, ids = call('ZRANGEBYSCORE', t.q, from, '+inf', 'WITHSCORES', 'LIMIT', 0, most), {}
    if not page[1] then break end
    for k = 1, #page, 2 do ids[#ids + 1] = page[k] end
    local came = back[1] and call('ZMSCORE', key, unpack(ids)) or {}
    for k, id in ipairs(ids) do
      if not came[k] then
        local rec = call('HGET', P .. 'm', id)
        local row = rec and read(id, rec)
        if row and (not best or row.enqueued < best) then best = row.enqueued end
        break
      end
    end
    from = string.format('%.0f', (floor(tonumber(page[2]) / SPAN) + 1) * SPAN)
  end
  return best
end

-- The numbers of the topics that have a reserve.
--@seldom
local function reserved()
  local flat, names, numbers = call('HGETALL', P .. 'rsv'), {}, {}
  for k = 1, #flat, 2 do names[#names + 1] = flat[k] end
  for at = 1, #names, 500 do
    for _, tn in ipairs(call('HMGET', P .. 'tn', unpack(names, at, min(at + 499, #names)))) do
      numbers[#numbers + 1] = tonumber(tn or nil)
    end
  end
  return numbers
end

local function score(t) return string.format('%.3f', (9 - (t.c.prio or 5)) * LEVEL + t.ps) end

-- Decide whether a topic competes; its row must be current.
local function arm(t)
  local limit = limit_of(t)
  local go = t.w > 0 and not t.hp and not t.c.paused and not t.rg and not (limit and t.l >= limit)
  if go and t.c.rcount then
    local have = tokens(t)
    if whole(have) < 1 then
      go = false
      local when = NOW + max(1, ceil((1 - have) * t.c.rper / t.c.rcount))
      call('ZADD', P .. 'later', when, t.n)
      alarm(when)
    end
  end
  if not go then
    call('ZREM', P .. 'active', t.n)
    if t.w == 0 then call('ZREM', P .. 'age', t.n) end
    t.live = false
    return
  end
  if t.w0 == 0 then
    local joined = tonumber(call('HGET', P .. 'g', 'v' .. (t.c.prio or 5))) or 0
    if t.ps < joined then t.ps = joined end
  end
  call('ZADD', P .. 'active', score(t), t.n)
  local boost = t.c.boost or 600
  if boost > 0 and (t.w0 == 0 or t.late or t.aged) then
    call('ZADD', P .. 'age', 'LT', (t.late or NOW) + ceil(boost * 1000), t.n)
  elseif boost <= 0 and t.aged then
    call('ZREM', P .. 'age', t.n)
  end
  t.live = true
end

-- Bring `active` up to date with the topics that were touched.
local function settle_index()
  for _, t in pairs(T) do
    if t.arm or t.new or t.w ~= t.w0 or t.l ~= t.l1 then
      t.news = t.news or t.new or t.l < t.l1 or t.arm
      if t.arm or t.late or t.l ~= t.l1 or t.w0 == 0 or t.w == 0 or t.c.rcount then
        arm(t)
      else -- only longer or shorter: it competes or does not, as before
        local limit = limit_of(t)
        t.live = not (t.hp or t.c.paused or t.rg or (limit and t.l >= limit))
      end
      t.arm, t.new, t.late, t.aged, t.w0, t.l1 = false, false, false, false, t.w, t.l
    end
  end
end
