-- Settlements: read from the arguments, then carried out.

-- The settlements in ARGV from `at` on, as a list of operations; an error when a message that follows is too large.
local function settlements_at(at)
  local ops = {}
  while at <= #ARGV do
    local op = { kind = ARGV[at], call = ARGV[at + 1] }
    if op.kind == 'A' then
      op.from, op.to = at + 3, at + 2 + tonumber(ARGV[at + 2])
      at = op.to + 1
    else
      op.id = ARGV[at + 2]
      at = at + 3
      if op.kind == 'R' then
        if ARGV[at] == '1' then op.result = ARGV[at + 1] end
        op.ttl = tonumber(ARGV[at + 2])
        op.drafts, at = drafts_at(at + 3)
        for _, d in ipairs(op.drafts) do
          local refused = too_large(d)
          if refused then return nil, refused end
        end
      elseif op.kind == 'D' then
        op.delay, op.charge, op.failure = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
        at = at + 3
      elseif op.kind == 'B' then
        op.reason, op.failure = ARGV[at], ARGV[at + 1]
        at = at + 2
      end
    end
    ops[#ops + 1] = op
  end
  return ops
end

-- Many acknowledgements of one call, without results: the plain ones at once.
local function acknowledge(op, stale)
  local leases = call('HMGET', P .. 'L', unpack(ARGV, op.from, op.to))
  local plain, of, wn, value = {}, nil, nil, nil
  local odd = {} -- ids that somebody waits for, that a group counts, or that have more to be cleared away
  for _, name in ipairs({ 'pg', 'wt', 'aw' }) do
    if exists(name) then
      for k, v in ipairs(call('HMGET', P .. name, unpack(ARGV, op.from, op.to))) do odd[k] = odd[k] or v end
    end
  end
  if exists('cx') then
    for k, v in ipairs(call('SMISMEMBER', P .. 'cx', unpack(ARGV, op.from, op.to))) do odd[k] = odd[k] or v == 1 end
  end
  local function done()
    if #plain == 0 then return end
    local t = topic(of)
    call('HDEL', P .. 'L', unpack(plain))
    call('ZREM', P .. 'leases', unpack(plain))
    call('HDEL', P .. 'm', unpack(plain))
    call('SREM', P .. 'h:' .. wn, unpack(plain))
    local ended = {}
    for k = 1, #plain do
      ended[2 * k - 1] = plain[k]
      ended[2 * k] = of
    end
    call('HSET', recent(#plain), unpack(ended))
    hold(t, -#plain)
    t.ok = t.ok + #plain
    plain = {}
  end
  for k = 1, #leases do
    local lease, id = leases[k], ARGV[op.from + k - 1]
    if not lease or lease:sub(1, 8) ~= op.call then
      stale[#stale + 1] = id
    elseif odd[k] or lease:byte(9) ~= 0 then
      done()
      local row = row_of(id)
      if row then succeeded(topic(row.tn), row, lease_of(id)) else stale[#stale + 1] = id end
    else
      local same = lease:sub(9)
      if same ~= value then
        done()
        value = same
        of, wn = sunpack('>I4I4', lease, 10)
      end
      plain[#plain + 1] = id
    end
  end
  done()
end

local CHARGES = { F = 'f', L = 'l', N = 'i' }

local function carry_out(op, stale)
  if op.kind == 'A' then return acknowledge(op, stale) end
  local lease = lease_of(op.id)
  local row = lease and lease.call == op.call and row_of(op.id)
  if not row then
    stale[#stale + 1] = op.id
    return
  end
  local t = topic(row.tn)
  local marked = exists('cx') and call('SISMEMBER', P .. 'cx', op.id) == 1
  if op.kind == 'R' then
    -- the end comes first: it frees the unique text and the key that a follower may want
    succeeded(t, row, lease, op.result, op.ttl)
    if #op.drafts > 0 then follow(op.drafts) end
  elseif op.kind == 'X' then
    cancelled(t, row, lease)
  else
    count_up(row, op.kind == 'B' and 'f' or CHARGES[op.charge], op.failure)
    row.given = true
    if marked then
      cancelled(t, row, lease)
    elseif op.kind == 'B' then
      bury(t, row, lease, op.reason)
    else
      give_back(t, row, lease, NOW + ceil(op.delay * 1000))
    end
  end
end
