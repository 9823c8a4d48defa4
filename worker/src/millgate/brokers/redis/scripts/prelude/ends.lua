-- How messages end, and what stays known of it.

-- The name of the hash that remembers ids which end now, with room for n more.
local function recent(n)
  if NOW - G.gent >= GENERATION or NOW < G.gent or G.gen == 0 or G.count >= MOST then
    G.gen, G.gent, G.count = G.gen + 1, NOW, 0
    call('HSET', P .. 'g', 'rct', NOW)
    call('UNLINK', P .. 'rc:' .. (G.gen - 4))
    call('HSET', P .. 'rc:' .. G.gen, '', LONG)
    call('PEXPIRE', P .. 'rc:' .. G.gen, MEMORY + 2 * GENERATION)
  end
  G.count = G.count + n
  return P .. 'rc:' .. G.gen
end

-- Keep what is known of an end for `ttl` seconds; '' stands for nothing in every text.
--@seldom
local function keep(t, row, state, result, reason, attempt, ttl)
  local progress = exists('pg') and call('HGET', P .. 'pg', row.id) or ''
  local ms = max(1, ceil(ttl * 1000))
  call('SET', P .. 'r:' .. row.id,
    mpack({ state, t.name, attempt, reason, row.failure, progress, result and 1 or 0, result or '' }),
    'PX', string.format('%.0f', ms))
  G.results = max(G.results, NOW + ms + MEMORY)
end

--@seldom
local function ttl_of(t, row, ttl) return ttl or row.ttl or t.c.ttl or 86400 end

--@seldom
local function told(id, state)
  if exists('aw') then
    local waiters = call('HGET', P .. 'aw', id)
    if waiters then
      call('HDEL', P .. 'aw', id)
      for waiter in waiters:gmatch('%S+') do
        call('RPUSH', P .. 'done:' .. waiter, id)
        call('PEXPIRE', P .. 'done:' .. waiter, 30000)
      end
    end
  end
  if exists('wt') then member_ended(id, state) end
end

-- Everything that points to a row that has ended.
--@seldom
local function gone(t, row)
  ended[row.id] = true
  gather('HDEL', P .. 'm', row.id)
  if (row.started or row.bad) and exists('a') then gather('HDEL', P .. 'a', row.id) end
  if exists('pg') then gather('HDEL', P .. 'pg', row.id) end
  if row.expires and not row.ran then gather('ZREM', P .. 'ex', row.id) end
  if row.unique and call('HGET', P .. 'u', row.unique) == row.id then gather('HDEL', P .. 'u', row.unique) end
end

-- `drafts` come after the end, which frees the unique text and the key that they may want, and before its groups are told.
--@seldom
local function succeeded(t, row, lease, result, ttl, drafts)
  counts(row)
  t.ok = t.ok + 1
  remove(t, row, lease)
  local kept = result and ttl_of(t, row, ttl) or 0
  if kept > 0 then
    keep(t, row, 'S', result, '', row.f + row.l + row.i + 1, kept)
  end
  if kept < MEMORY / 1000 then gather('HSET', recent(1), row.id, t.n) end
  gone(t, row)
  if drafts and drafts[1] then follow(drafts) end
  told(row.id, 'S')
end

--@seldom
local function cancelled(t, row, lease, ttl)
  counts(row)
  t.fl = t.fl + 1
  local attempt = row.f + row.l + row.i
  if lease and not row.given then attempt = attempt + 1 end
  remove(t, row, lease)
  local kept = max(MEMORY / 1000, ttl_of(t, row, ttl))
  if attempt == 0 and kept <= MEMORY / 1000 then
    gather('HSET', recent(1), row.id, 'C' .. t.n) -- a purge must not fill the memory that it frees
  else
    keep(t, row, 'C', nil, '', attempt, kept)
  end
  gone(t, row)
  told(row.id, 'C')
end
