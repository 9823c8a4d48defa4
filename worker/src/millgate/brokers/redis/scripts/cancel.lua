-- cancel: ids. Answers one word each.
freeing()
queue()
tick()
local out = {}
fetch(ARGV)
for k = 1, #ARGV do
  local id = ARGV[k]
  local row = row_of(id)
  if not row then
    out[k] = state_of(id) and 'finished' or 'unknown'
  elseif call('HEXISTS', P .. 'L', id) == 1 then
    call('SADD', P .. 'cx', id)
    there.cx = true
    out[k] = 'signalled'
  else
    cancelled(topic(row.tn), row, nil)
    out[k] = 'removed'
  end
end
finish()
return out
