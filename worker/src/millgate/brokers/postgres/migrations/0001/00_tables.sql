-- What one queue stores. A message's row (msg) never changes while it waits and runs; what moves between ready, parked,
-- delayed, lease and dead is a small row that carries its counts. `seq` is the order of publication and names a message
-- in here for life, so that ready and msg are found from each other without an index on ids.
--
-- Functions find the rows of what is at hand by `x BETWEEN y AND y` instead of `x = y`. Connections keep their plans, and
-- one that was made while a table was empty would read it whole when it is full: an equality lets the planner turn the join
-- round and walk the table's index from end to end, a range does not. A condition that must not choose the index is written
-- as a difference for the same reason (`until - now > '0'`). A row of two columns is found by a LATERAL query of its own: a
-- range of pairs begins at the right place, but is read until the first column changes. Rows of two lists are never joined,
-- since without hash joins each of one is compared with each of the other; `(x IN (SELECT …)) IS TRUE` makes a table of one.
-- Whether there is a row for each of a list is asked by its value (`(SELECT …) IS NULL`): NOT EXISTS would be a join, too.

CREATE TABLE meta (version int NOT NULL);

CREATE SEQUENCE seq INCREMENT 1024 MINVALUE 1024; -- messages; a call takes one number for up to 1024 of them
CREATE SEQUENCE dead_no;    -- dead letters in the order of their burial
CREATE SEQUENCE fence_no;   -- grants of locks

-- The configuration: one row for the queue, one for each topic that was declared or used.
CREATE TABLE queue (
  policy      jsonb NOT NULL,
  revision    bigint NOT NULL DEFAULT 0,
  topics      bigint NOT NULL DEFAULT 0,     -- grows when a topic appears or its policy changes
  lim         int,
  max_waiting bigint,
  suspended   boolean NOT NULL DEFAULT false,
  reject      boolean NOT NULL DEFAULT false, -- undeclared topics
  reserved    boolean NOT NULL DEFAULT false  -- whether any topic has a reserve
);

CREATE TABLE topic (
  id         int GENERATED ALWAYS AS IDENTITY (MINVALUE 1) PRIMARY KEY,
  name       text COLLATE "C" NOT NULL UNIQUE,
  policy     jsonb,                           -- NULL: undeclared, the queue's defaults hold
  held       boolean NOT NULL DEFAULT false,  -- paused by hand
  prios      smallint[] NOT NULL DEFAULT '{5}', -- message priorities that were ever used, in any order
  -- what the policy in force says, as columns:
  paused     boolean NOT NULL DEFAULT false,
  level      int NOT NULL DEFAULT 5,
  weight     float8 NOT NULL DEFAULT 10,
  boost      float8 NOT NULL DEFAULT 600,
  lim        int,
  reserve    int NOT NULL DEFAULT 0,
  adm_lim    int,                             -- slots of each key; NULL: keys do not matter
  fifo       boolean NOT NULL DEFAULT false,  -- the whole topic is one key
  sticky     boolean NOT NULL DEFAULT false,  -- a key's slot is kept over retries
  shut       smallint NOT NULL DEFAULT 0,     -- 1, 2, 3: what waits is passing new gates
  rate       float8,                          -- tokens per second
  burst      float8,
  counted    boolean NOT NULL DEFAULT false,  -- slot.inflight is kept for it
  lease      float8 NOT NULL DEFAULT 60,
  losses     int NOT NULL DEFAULT 5,
  dead       smallint NOT NULL DEFAULT 0,     -- 0 keep, 1 drop, 2 forward
  dead_topic text,
  retention  float8 NOT NULL DEFAULT 1209600,
  dead_max   int NOT NULL DEFAULT 100000,
  expires_in float8,
  result_ttl float8 NOT NULL DEFAULT 86400,
  payload_max int NOT NULL DEFAULT 262144
);

-- Counters that limits are decided by, locked in the order of their topics; topic 0 is the queue. Many versions of a
-- row fit on its page.
CREATE TABLE slot (
  topic    int PRIMARY KEY,
  inflight int NOT NULL DEFAULT 0,
  tokens   float8,                            -- NULL: nobody has drawn yet, the bucket is full
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  credit   bigint NOT NULL DEFAULT 0          -- of topic 0: messages that may be published before counting again
) WITH (fillfactor = 10);

CREATE TABLE msg (
  seq     bigint PRIMARY KEY,
  id      text COLLATE "C" NOT NULL UNIQUE,
  topic   int NOT NULL,
  prio    smallint NOT NULL,
  call    bigint NOT NULL,                    -- the publish that stored it: tells a repeat from a duplicate
  key     text COLLATE "C",
  ukey    text COLLATE "C",
  ttl     float8,
  grp     text COLLATE "C",
  expires timestamptz,                        -- NULL from the first start on
  record  bytea NOT NULL
);
CREATE INDEX msg_expires ON msg (expires) WHERE expires IS NOT NULL;
ALTER TABLE msg ALTER record SET STORAGE EXTERNAL; -- records are packed, or too small to gain

-- May start as far as time and its key are concerned. lane = topic * 16 + 9 - priority.
CREATE TABLE ready (
  lane          int NOT NULL,
  seq           bigint NOT NULL,
  since         timestamptz NOT NULL,
  failures      int NOT NULL DEFAULT 0,
  losses        int NOT NULL DEFAULT 0,
  interruptions int NOT NULL DEFAULT 0,
  adm           text COLLATE "C",             -- the key whose slot it occupies
  failure       bytea,
  progress      bytea,
  PRIMARY KEY (lane, seq)
);
CREATE INDEX ready_adm ON ready (adm, lane, seq) WHERE adm IS NOT NULL;

-- Due, but its key has no free slot.
CREATE TABLE parked (
  topic         int NOT NULL,
  adm           text COLLATE "C" NOT NULL,
  rank          smallint NOT NULL,            -- 9 - priority
  seq           bigint NOT NULL,
  since         timestamptz NOT NULL,
  failures      int NOT NULL DEFAULT 0,
  losses        int NOT NULL DEFAULT 0,
  interruptions int NOT NULL DEFAULT 0,
  failure       bytea,
  progress      bytea,
  PRIMARY KEY (topic, adm, rank, seq)
);
CREATE INDEX parked_seq ON parked (seq);

CREATE TABLE delayed (
  due           timestamptz NOT NULL,
  seq           bigint NOT NULL,
  topic         int NOT NULL,
  prio          smallint NOT NULL,
  failures      int NOT NULL DEFAULT 0,
  losses        int NOT NULL DEFAULT 0,
  interruptions int NOT NULL DEFAULT 0,
  adm           text COLLATE "C",             -- a slot that is kept meanwhile (strict order)
  failure       bytea,
  progress      bytea,
  PRIMARY KEY (due, seq)
);
CREATE INDEX delayed_seq ON delayed (seq);

CREATE TABLE lease (
  seq           bigint PRIMARY KEY,
  token         bigint NOT NULL,              -- the number of the claim call
  topic         int NOT NULL,
  prio          smallint NOT NULL,
  worker        int NOT NULL,
  until         timestamptz NOT NULL,
  since         timestamptz NOT NULL,
  failures      int NOT NULL,
  losses        int NOT NULL,
  interruptions int NOT NULL,
  counted       boolean NOT NULL,
  cancelled     boolean NOT NULL DEFAULT false,
  adm           text COLLATE "C",
  failure       bytea,
  progress      bytea,
  light         boolean NOT NULL DEFAULT false -- its message may lie for a minute after a good end without a result
);
CREATE INDEX lease_worker ON lease (worker, until); -- what ends first is looked for worker by worker

-- How many of a key are in ready, lease, or delayed with their slot kept.
CREATE TABLE keystate (
  topic int NOT NULL,
  adm   text COLLATE "C" NOT NULL,
  n     int NOT NULL,
  PRIMARY KEY (topic, adm)
) WITH (fillfactor = 60);

-- Dead letters; their msg rows stay.
CREATE TABLE dead (
  seq           bigint PRIMARY KEY,
  no            bigint NOT NULL DEFAULT nextval('dead_no'),
  topic         int NOT NULL,
  died          timestamptz NOT NULL,
  reason        text NOT NULL,
  attempt       int NOT NULL,
  failures      int NOT NULL,
  losses        int NOT NULL,
  interruptions int NOT NULL,
  worker        text NOT NULL,
  forward       boolean NOT NULL,             -- on its way to the topic's dead_topic
  failure       bytea,
  progress      bytea
);
CREATE INDEX dead_no_key ON dead (no);
CREATE INDEX dead_topic ON dead (topic, no);
CREATE INDEX dead_forward ON dead (seq) WHERE forward;

-- Good ends without a result: one row for each settlement. Their messages stay until then, in no place any more, so that
-- their ids are known; all that happens at the end is that the lease goes.
CREATE TABLE ended (until timestamptz NOT NULL, seqs bigint[] NOT NULL);
CREATE INDEX ended_until ON ended (until);
ALTER TABLE ended ALTER seqs SET STORAGE EXTERNAL;

-- All other ends that are remembered: results, failures, and for a minute the ids of what was large or unique.
CREATE TABLE final (
  id       text COLLATE "C" PRIMARY KEY,
  state    smallint NOT NULL,                 -- 1 succeeded, 2 failed, 3 cancelled
  topic    int NOT NULL,
  until    timestamptz NOT NULL,
  shown    timestamptz,                       -- body and the rest are told until then; NULL: nothing is
  call     bigint NOT NULL,
  attempt  int NOT NULL,
  reason   text NOT NULL DEFAULT '',
  body     bytea,
  failure  bytea,
  progress bytea
);
CREATE INDEX final_until ON final (until);
ALTER TABLE final ALTER body SET STORAGE EXTERNAL;

CREATE TABLE uniq (
  ukey  text COLLATE "C" PRIMARY KEY,
  id    text COLLATE "C" NOT NULL,
  until timestamptz                           -- NULL: until the message has ended
);
CREATE INDEX uniq_until ON uniq (until) WHERE until IS NOT NULL;

-- One start of one worker; a name's older rows are gone, and stay while leases refer to them.
CREATE TABLE worker (
  id     int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name   text COLLATE "C" NOT NULL,
  inc    text COLLATE "C" NOT NULL,
  gone   boolean NOT NULL DEFAULT false,
  seen   timestamptz NOT NULL,
  fenced timestamptz,
  info   jsonb NOT NULL,
  beat   jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX worker_name ON worker (name) WHERE NOT gone;

-- Exact counts without counting: every call adds what it changed, one folder sums it up now and then.
CREATE TABLE delta (
  topic   int NOT NULL,
  ready   int NOT NULL DEFAULT 0,
  parked  int NOT NULL DEFAULT 0,
  delayed int NOT NULL DEFAULT 0,
  leased  int NOT NULL DEFAULT 0,
  dead    int NOT NULL DEFAULT 0,
  enq     int NOT NULL DEFAULT 0,
  started int NOT NULL DEFAULT 0,
  done    int NOT NULL DEFAULT 0,
  failed  int NOT NULL DEFAULT 0,
  dropped int NOT NULL DEFAULT 0
);
CREATE TABLE counter (
  topic   int PRIMARY KEY,
  ready   bigint NOT NULL,
  parked  bigint NOT NULL,
  delayed bigint NOT NULL,
  leased  bigint NOT NULL,
  dead    bigint NOT NULL,
  enq     bigint NOT NULL,
  started bigint NOT NULL,
  done    bigint NOT NULL,
  failed  bigint NOT NULL,
  dropped bigint NOT NULL
) WITH (fillfactor = 20);

-- A message that is not stored yet.
CREATE TYPE draft AS (
  id text, topic text, prio smallint, record bytea, key text, delay float8, at float8, expires_in float8,
  expires_at float8, ukey text, ufor float8, ttl float8, grp text
);
-- A message between two places.
CREATE TYPE work AS (
  seq bigint, topic int, prio smallint, adm text, since timestamptz, failures int, losses int,
  interruptions int, failure bytea, progress bytea
);
-- A message that has ended.
CREATE TYPE over AS (
  seq bigint, topic int, adm text, attempt int, failures int, losses int, interruptions int,
  failure bytea, progress bytea, reason text, worker text, ttl float8
);
-- A lane that a claim may be served from.
CREATE TYPE entrant AS (
  topic int, lane int, level int, pass float8, weight float8, hint bigint, counted boolean, lim int, reserve int,
  rate float8, burst float8, lease float8, shared boolean
);

-- Groups whose members are awaited. A watch is the id of a member or of an earlier step of its chain.
CREATE TABLE grp (
  id          text COLLATE "C" PRIMARY KEY,
  callback    draft NOT NULL,
  require_all boolean NOT NULL,
  pending     int NOT NULL,
  buried      boolean NOT NULL DEFAULT false
);
CREATE TABLE watch (
  id     text COLLATE "C" NOT NULL,
  grp    text COLLATE "C" NOT NULL,
  member text COLLATE "C" NOT NULL,
  place  int NOT NULL,                        -- of the member in its group
  step   int NOT NULL,                        -- of the id in the chain that leads to the member, from 1
  state  smallint NOT NULL DEFAULT 0,         -- of the row whose id is the member: 0 pending, 1 succeeded, 2 not
  PRIMARY KEY (id, grp, member)
);
CREATE INDEX watch_grp ON watch (grp, place);

CREATE TABLE schedule (name text COLLATE "C" PRIMARY KEY, slot float8 NOT NULL, call bigint NOT NULL);
CREATE TABLE lck (
  name   text COLLATE "C" PRIMARY KEY,
  holder text COLLATE "C" NOT NULL,
  fence  bigint NOT NULL,
  until  timestamptz NOT NULL
);

-- Who sleeps and wants to be woken; a crash may empty these, the sleepers look once a second anyway.
CREATE UNLOGGED TABLE idle (listener bigint PRIMARY KEY, topics int[], at timestamptz NOT NULL);
CREATE UNLOGGED TABLE awaited (
  id text COLLATE "C" NOT NULL, listener bigint NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (id, listener)
);
CREATE INDEX awaited_at ON awaited (at);

-- How far upkeep has come; one row.
CREATE TABLE upkeep (
  reaped  timestamptz NOT NULL,               -- no lease lapsed before that is still here
  swept   timestamptz NOT NULL,               -- when leases and ends were looked through from the beginning
  pruned  timestamptz NOT NULL,
  cleared timestamptz NOT NULL                -- no end that was to be forgotten before that is still here
) WITH (fillfactor = 10);

INSERT INTO queue (policy) VALUES ('{}');
INSERT INTO slot (topic) VALUES (0);
INSERT INTO upkeep VALUES (clock_timestamp(), clock_timestamp(), clock_timestamp(), clock_timestamp());
