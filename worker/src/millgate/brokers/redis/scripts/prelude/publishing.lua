-- Publishing. A draft: { id, topic's name, priority, key, delay, at, expires_in, expires_at, unique, unique_for, ttl, group,
-- body } with times in seconds, and false for what is not set.
-- A run: topic, priority, how many, the letters of the fields that are set; then of each id, fields, body.

local MANY = 600 -- accepted messages of one call, those with a gate counted four times, that are let through at once

-- The run in ARGV at `at`. A letter's field says how far behind the id its value stands.
local function run_at(at)
  local set, first = ARGV[at + 3], at + 4
  local width = #set + 2
  local run = { name = ARGV[at], prio = tonumber(ARGV[at + 1]), set = set ~= '', width = width, first = first,
    last = first + (tonumber(ARGV[at + 2]) - 1) * width }
  for f = 1, #set do run[set:sub(f, f)] = f end
  return run
end

-- The policy under which a topic (nil: it is new) takes messages; nil and the refusal when it does not.
local function terms_of(name, t)
  local c = t and t.c or munpack(defaults())
  if G.reject and not c.declared then return nil, redis.error_reply('MGUNDECLARED ' .. name) end
  return c
end

-- How many bytes a record may have.
local function size_of(c) return c.size or 262144 end

--@seldom
local function oversized(id, name, size, most)
  return redis.error_reply('MGSIZE ' .. id .. ': ' .. size .. " bytes, topic '" .. name .. "' takes " .. most)
end

--@seldom
local function overfull(new)
  local waiting = call('HLEN', P .. 'm') - G.leased
  if waiting + new > G.most then
    return redis.error_reply('MGFULL the queue holds ' .. waiting .. ' of at most ' .. G.most .. ' messages; ' .. new
      .. ' more do not fit, nothing of this call was stored')
  end
end

-- A call that stores nothing, since what it brings is there, writes something nevertheless: whoever asks after replicas is
-- answered for the writes of its own connection, and those of the first call were another's. A full server lets it pass.
--@seldom
local function said_again()
  freeing()
  call('HSET', P .. 'g', 'again', NOW)
end

--@seldom
local function holder_of(unique)
  return call('HGET', P .. 'u', unique) or G.windows > NOW and call('GET', P .. 'uw:' .. unique)
end

-- Who holds the texts that are wanted.
--@seldom
local function holders(texts)
  local all = {}
  for from = 1, #texts, 500 do
    local last = min(from + 499, #texts)
    local known_, windows = call('HMGET', P .. 'u', unpack(texts, from, last)), {}
    for k = from, last do all[texts[k]] = known_[k - from + 1] or nil end
    for k = from, G.windows > NOW and last or 0 do windows[k - from + 1] = P .. 'uw:' .. texts[k] end
    if windows[1] and call('EXISTS', unpack(windows)) > 0 then
      for k = from, last do all[texts[k]] = all[texts[k]] or call('GET', P .. 'uw:' .. texts[k]) or nil end
    end
  end
  return all
end

-- Many times of one call are the same: as text they need not be written anew for each.
--@seldom
local function text_of(ms)
  local text = A.times[ms] or string.format('%.0f', ms)
  A.times[ms] = text
  return text
end

--@seldom
local function claim_text(unique, id, window)
  if not window then
    local n = A.texts + 2
    A.unique[n - 1], A.unique[n], A.texts = unique, id, n
  elseif window > 0 then
    local ms = max(1, ceil(window * 1000))
    call('SET', P .. 'uw:' .. unique, id, 'PX', text_of(ms))
    G.windows = max(G.windows, NOW + ms + MEMORY)
  end
end

--@seldom
local function line_up(lists, t, score, id)
  local list = lists[t.n]
  if not list then
    list = {}
    lists[t.n] = list
  end
  local n = #list + 2
  list[n - 1], list[n] = score, id
  return n
end

-- When a message expires that says so, or whose topic does.
--@seldom
local function expiry_of(t, id, after, at)
  local expires = at and floor(at * 1000)
  if after or not at then
    local relative = NOW + ceil((after or t.c.expires) * 1000)
    expires = expires and min(expires, relative) or relative
  end
  expires = max(0, expires)
  line_up(A.expires, t, text_of(expires), id)
  alarm(expires)
  return expires
end

-- Let a message that is not due wait for its time; false: it is due.
--@seldom
local function set_aside(t, id, delay, at)
  local due = at and ceil(at * 1000) or NOW + ceil(delay * 1000)
  if due <= NOW then return false end
  line_up(A.later, t, text_of(due), id)
  A.due[t.n] = min(A.due[t.n] or due, due)
  return true
end

--@seldom
local function bring_to_gate(t, id, rank, key)
  local n = line_up(A.gated, t, rank, id)
  if n == 2 then A.keys[t.n] = {} end
  A.keys[t.n][n / 2] = key or false
end

--@seldom
local function gathering()
  A = { expires = {}, unique = {}, texts = 0, times = {}, later = {}, due = {}, gated = {}, keys = {} }
end

-- Store a message; false or nil stands for what is not set. What it brings beside its row is gathered, and written by
-- `flush`.
--@seldom
local function accept(t, id, prio, body, key, delay, at, expires_in, expires_at, unique, window, ttl, group)
  local seq, expires = G.seq + 1, nil
  G.seq, t.e = seq, t.e + 1
  local c, rank = t.c, (9 - prio) * SPAN + seq
  local gate = t.rg or (c.order or c.keys) and gate_of(t, key)
  local times = expires_in or expires_at or c.expires
  if not A and (gate or times or unique or delay or at) then gathering() end
  if unique then claim_text(unique, id, window) end
  if times then expires = expiry_of(t, id, expires_in, expires_at) end
  rows = rows + 2
  M[rows - 1], M[rows] = id, build(t.n, rank, NOW, body, expires, ttl, key, unique, group)
  if (delay or at) and set_aside(t, id, delay, at) then return end
  if gate then
    bring_to_gate(t, id, rank, key)
  else
    local lane, n = t.lane or {}, t.lanes + 2
    lane[n - 1], lane[n] = rank, id
    t.lane, t.lanes = lane, n
  end
end

-- Store the message of a run that stands at `k`.
local function take(t, run, k)
  local id, body = ARGV[k], ARGV[k + run.width - 1]
  if not run.set then return accept(t, id, run.prio, body) end
  accept(t, id, run.prio, body, run.K and ARGV[k + run.K], run.D and tonumber(ARGV[k + run.D]),
    run.A and tonumber(ARGV[k + run.A]), run.E and tonumber(ARGV[k + run.E]), run.X and tonumber(ARGV[k + run.X]),
    run.U and ARGV[k + run.U], run.F and tonumber(ARGV[k + run.F]), run.T and tonumber(ARGV[k + run.T]),
    run.G and ARGV[k + run.G])
end

-- More than pass their gates in one step: they wait before them, and the topic is closed until all have passed.
--@seldom
local function crowd(t, list)
  fill_zset(P .. 'z:' .. t.n, list)
  if not t.rg then
    t.rg, t.arm = '2', true
    call('HSET', P .. 't:' .. t.n, 'rg', '2')
  end
  call('SADD', P .. 'rgs', t.n)
  alarm(NOW)
  G.crowded = true
end

--@seldom
local function admit(count)
  local all = A
  A = nil
  spread('HSET', P .. 'u', all.unique)
  for tn, list in pairs(all.later) do
    fill_zset(P .. 'd:' .. tn, list)
    call('ZADD', P .. 'due', 'LT', all.due[tn], tn)
    alarm(all.due[tn])
  end
  for tn, list in pairs(all.gated) do
    if count + 3 * #list / 2 > MANY then
      crowd(T[tn], list)
      all.expires[tn] = nil -- entered as they pass
    else
      for k, key in ipairs(all.keys[tn]) do
        local row = { id = list[2 * k], rank = list[2 * k - 1], key = key or nil, counted = true, started = false }
        enter(T[tn], row, nil)
      end
    end
  end
  for _, list in pairs(all.expires) do fill_zset(P .. 'ex', list) end
end

-- Write the rows of accepted messages, and let these wait.
local function flush()
  if rows == 0 then return end
  local count = rows / 2
  fill_hash(P .. 'm', M)
  M, rows = {}, 0
  for _, t in pairs(T) do
    if t.lane then
      fill_zset(t.q, t.lane)
      t.w, t.lane, t.lanes, t.new = t.w + t.lanes / 2, false, 0, true
    end
  end
  if A then admit(count) end
end

-- Publish what accepted work brings with it: neither a full queue nor an undeclared topic refuses it.
--@seldom
local function follow(drafts)
  local ids = {}
  for k = 1, #drafts do
    ids[k] = drafts[k][1]
    if drafts[k][9] then carry() end -- a text may have become free just now
  end
  local seen, taken = known(ids), {}
  for k = 1, #drafts do
    local d = drafts[k]
    local text = d[9]
    if not seen[d[1]] and not (text and (taken[text] or holder_of(text))) then
      seen[d[1]], ended[d[1]] = true, nil
      if text and (d[10] or 1) > 0 then taken[text] = true end
      accept(topic(number_of(d[2])), d[1], d[3], d[13], unpack(d, 4, 12))
    end
  end
  flush()
end

-- Drafts in ARGV from `at` on: how many, then meta data and body of each.
--@seldom
local function drafts_at(at)
  local n, drafts = tonumber(ARGV[at]), {}
  at = at + 1
  for k = 1, n do
    local d = munpack(ARGV[at])
    d[13] = ARGV[at + 1]
    drafts[k] = d
    at = at + 2
  end
  return drafts, at
end

--@seldom
local function too_large(id, name, size)
  local tn = call('HGET', P .. 'tn', name)
  local t = tn and topic(tonumber(tn))
  local most = size_of(t and t.c or munpack(defaults()))
  if size > most then return oversized(id, name, size, most) end
end

-- Why a topic does not take messages, of which that one of `size` bytes is the largest.
--@seldom
local function unfit(name, size, id)
  local tn = call('HGET', P .. 'tn', name)
  local _, refused = terms_of(name, tn and topic(tonumber(tn)))
  return refused or size and too_large(id, name, size)
end
