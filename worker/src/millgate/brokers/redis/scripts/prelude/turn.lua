-- A batch that is carried out in several calls is one step all the same: until it is whole nobody looks or changes
-- anything. Whoever comes is refused, carries it on by a step, and comes again.
if call('EXISTS', P .. 'batch') == 1 then
  return redis.error_reply('MGBATCH a large batch is being carried out')
end
