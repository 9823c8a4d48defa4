-- Rows: what is stored of a message, and of its returns.

-- A row: flag, topic, rank, enqueued; then, when the flag is 1: expiry, result's time, key, unique text, group; body.
--@seldom
local function build(tn, rank, enqueued, body, expires, ttl, key, unique, group)
  if not (expires or ttl or key or unique or group) then
    return spack('>BI4dd', 0, tn, rank, enqueued) .. body
  end
  key, unique, group = key or '', unique or '', group or ''
  return spack('>BI4ddddHHH', 1, tn, rank, enqueued, expires or -1, ttl or -1, #key, #unique, #group)
    .. key .. unique .. group .. body
end

-- nil for what is not a row of ours.
local function read(id, rec)
  if #rec < 21 then return nil end
  local flag, tn, rank, enqueued = sunpack('>BI4dd', rec)
  local row = { id = id, tn = tn, rank = rank, enqueued = enqueued, rec = rec, at = 22 }
  if not (rank >= 0 and rank < 10 * SPAN) then return nil end
  if flag == 0 then return row end
  if flag ~= 1 or #rec < 43 then return nil end
  local expires, ttl, k, u, g, at = sunpack('>ddHHH', rec, 22)
  if #rec < at + k + u + g - 1 then return nil end
  if expires >= 0 then row.expires = expires end
  if ttl >= 0 then row.ttl = ttl end
  if k > 0 then row.key = rec:sub(at, at + k - 1) end
  if u > 0 then row.unique = rec:sub(at + k, at + k + u - 1) end
  if g > 0 then row.group = rec:sub(at + k + u, at + k + u + g - 1) end
  row.at = at + k + u + g
  return row
end

--@seldom
local function row_of(id)
  if ended[id] then return nil end
  local rec = rows_known[id]
  if rec == nil then rec = call('HGET', P .. 'm', id) end
  if not rec then return nil end
  local row = read(id, rec)
  return row and topic(row.tn) and row
end

-- Failures, losses, interruptions and the last failure of a row; zeros before the first return.
local function counts(row, packed)
  if row.counted then return end
  row.counted = true
  if packed == nil then packed = counts_known[row.id] end
  if packed == nil then packed = exists('a') and call('HGET', P .. 'a', row.id) end
  if packed and packed ~= '' then
    row.f, row.l, row.i = sunpack('>I4I4I4', packed)
    row.failure = packed:sub(13)
    row.started = true
  else
    row.f, row.l, row.i, row.failure, row.started = 0, 0, 0, '', false
  end
end

--@seldom
local function count_up(row, kind, failure)
  counts(row)
  row[kind] = row[kind] + 1
  if failure and failure ~= '' then row.failure = failure end
end

--@seldom
local function save_counts(row)
  counts_known[row.id] = nil
  gather('HSET', P .. 'a', row.id, spack('>I4I4I4', row.f, row.l, row.i) .. row.failure)
  there.a = true
end
