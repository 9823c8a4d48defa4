-- configuration: answers revision, topics' version, the queue's policy, policies by name, numbers by name.
queue()
return { G.rev, G.topics, call('HGET', P .. 'g', 'cq') or '', call('HGETALL', P .. 'cf'), call('HGETALL', P .. 'tn') }
