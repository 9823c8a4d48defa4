-- Batches that are one step and take several calls. `batch` has the one that is being carried out: its kind, call, how many
-- parts it has and how many are done, when it began, and what its end needs; `part:<call>` the parts, by number.

-- Begin one. From here on it is certain: whoever comes carries it on.
--@seldom
local function begin(kind, this, parts, ...)
  call('HSET', P .. 'batch', 'kind', kind, 'call', this, 'parts', parts, 'at', 0, 'now', NOW, 'news', '', 'known', G.topics, ...)
  call('PEXPIRE', P .. 'part:' .. this, '31536000000')
end
