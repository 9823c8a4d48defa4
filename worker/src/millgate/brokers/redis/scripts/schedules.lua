-- schedules: answers names and their last slots.
return call('HGETALL', P .. 'cron')
