-- purge: topic, waiting, delayed, batch, then what the call before answered: '' or the last number of publication that
-- counts, '' or where it ended. Looks at up to a batch, from the back. Answers how many were removed, that number (what an
-- end brings about, or others publish meanwhile, is not purged), and where it ended; '' when there is no more.
freeing()
queue()
tick()
local tn = call('HGET', P .. 'tn', ARGV[1])
if not tn then return { 0, '0', '' } end
local t, left, removed = topic(tonumber(tn)), tonumber(ARGV[4]), 0
local upto, from = tonumber(ARGV[5]) or G.seq, ARGV[6]

-- End those of a page that were there; which of those that stay is the last.
local function end_all(key, ids)
  local stays
  left = left - #ids
  fetch(ids)
  for k, id in ipairs(ids) do
    local row = row_of(id)
    if not row then
      call('ZREM', key, id) -- no message of ours
    elseif row.rank % SPAN <= upto then
      cancelled(t, row, nil, MEMORY / 1000)
      removed = removed + 1
    else
      stays = k
    end
  end
  return stays
end

local function waiting(key)
  for level = call('EXISTS', key) == 1 and 9 or -1, 0, -1 do
    local last, first = string.format('%.0f', level * SPAN + upto), string.format('%.0f', level * SPAN)
    while left > 0 do
      local ids = call('ZREVRANGEBYSCORE', key, last, first, 'LIMIT', 0, left)
      if not ids[1] then break end
      end_all(key, ids)
    end
  end
end

-- They stand by their times: those that were published since are passed by, each once. Answers whether there may be more.
local function delayed(key)
  local due, id = from:match('^(%S+) (.*)$')
  local rank, page = due and call('ZRANK', key, id), nil
  if rank then
    page = rank > 0 and call('ZRANGE', key, max(0, rank - left), rank - 1, 'WITHSCORES') or {}
  else -- the first page, or the one that stayed has gone since
    page = call('ZREVRANGEBYSCORE', key, due or '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, left)
  end
  local ids, times, many = {}, {}, #page / 2
  for k = 1, many do
    local at = rank and many + 1 - k or k -- the others ascend
    ids[k], times[k] = page[2 * at - 1], page[2 * at]
  end
  local more, stays = many == left, end_all(key, ids)
  if stays then from = times[stays] .. ' ' .. ids[stays] end
  return more
end

if ARGV[2] == '1' then
  for _, key in ipairs({ P .. 'z:' .. tn, P .. 'pz:' .. tn, t.q }) do waiting(key) end
end
local more = left == 0
if ARGV[3] == '1' and not more then more = delayed(P .. 'd:' .. tn) end
finish()
return { removed, string.format('%.0f', upto), more and (from == '' and '-' or from) or '' }
