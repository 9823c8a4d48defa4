-- What time alone brings about, done by whoever comes by, one at a time: messages expire, lose their lease, become due. Each
-- step takes a bounded batch and passes over what somebody else has. Answers how many messages moved.
CREATE FUNCTION upkeep_1() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_late bigint[];
  v_expired over[];
  v_count int;
  v record;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  IF NOT pg_try_advisory_xact_lock(gate_1(4)) THEN
    RETURN 0;
  END IF;
  v_now := clock_timestamp();
  SELECT * INTO v FROM reap_1(v_now, 1000);
  v_late := array(SELECT m.seq FROM msg m WHERE m.expires <= v_now ORDER BY m.expires LIMIT 500);
  IF cardinality(v_late) > 0 OR v.o_buried IS NOT NULL OR v.o_dropped IS NOT NULL THEN
    PERFORM ahead_1(v_late || array(SELECT e.seq FROM unnest(v.o_buried || v.o_dropped) e));
    v_expired := expire_1(v_late);
    PERFORM finish_1(v_expired || v.o_buried, 2::smallint, v_now);
    PERFORM finish_1(v.o_dropped, 3::smallint, v_now);
  END IF;
  v_count := coalesce(cardinality(v_expired), 0) + v.o_count + promote_1(v_now, 1000);
  IF v_count > 0 THEN
    PERFORM unstock_1();
    PERFORM uncount_1(v.o_counted);
  END IF;
  RETURN v_count;
END $$;

-- Lock what these messages leave behind when they end, each kind once and in order: unique texts, keys. Before their places:
-- what is parked moves only under the lock of its key.
CREATE FUNCTION ahead_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM uniq) THEN
    PERFORM 1 FROM uniq u WHERE u.ukey IN (SELECT m.ukey FROM msg m WHERE m.seq = ANY (p_seqs) AND m.ukey IS NOT NULL)
      ORDER BY u.ukey FOR UPDATE;
  END IF;
  IF EXISTS (SELECT 1 FROM keystate) THEN
    PERFORM lock_keys_1(array_agg(m.topic), array_agg(CASE WHEN t.fifo THEN '' ELSE m.key END))
      FROM msg m JOIN topic t ON t.id = m.topic
     WHERE m.seq = ANY (p_seqs) AND (t.fifo OR t.adm_lim IS NOT NULL AND m.key IS NOT NULL);
  END IF;
END $$;

-- Take messages that did not start in time from where they wait.
CREATE FUNCTION expire_1(p_seqs bigint[]) RETURNS over[] LANGUAGE plpgsql AS $$
DECLARE
  v_ended over[] := pull_1(p_seqs, 'Expired', NULL);
BEGIN
  UPDATE msg SET expires = NULL FROM unnest(v_ended) e WHERE msg.seq = e.seq;
  RETURN nullif(array(SELECT ROW (e.seq, e.topic, e.adm, e.attempt, e.failures, e.losses, e.interruptions,
    coalesce(e.failure, failure_1('millgate.Expired', 'it did not start before it expired')), e.progress, e.reason, e.worker,
    e.ttl)::over FROM unnest(v_ended) e), '{}');
END $$;

-- Take messages that wait (ready, parked or delayed) out of their places, counters of the places included; answers those
-- that were there and that nobody else has. What they leave behind is locked already (ahead_1).
CREATE FUNCTION pull_1(p_seqs bigint[], p_reason text, p_ttl float8) RETURNS over[] LANGUAGE plpgsql AS $$
DECLARE
  v_ended over[];
BEGIN
  WITH m AS MATERIALIZED (SELECT seq, topic, prio FROM msg WHERE seq = ANY (p_seqs)),
  r AS (DELETE FROM ready x WHERE x.ctid = ANY (array(SELECT y.ctid FROM m CROSS JOIN LATERAL (
      SELECT e.ctid FROM ready e WHERE e.lane = (m.topic << 4) | (9 - m.prio) AND e.seq = m.seq FOR UPDATE SKIP LOCKED) y))
    RETURNING x.seq, x.lane >> 4 AS topic, x.adm, x.failures, x.losses, x.interruptions, x.failure, x.progress),
  p AS (DELETE FROM parked x WHERE x.ctid = ANY (array(SELECT y.ctid FROM m JOIN parked y ON y.seq BETWEEN m.seq AND m.seq
      FOR UPDATE OF y SKIP LOCKED))
    RETURNING x.seq, x.topic, NULL::text AS adm, x.failures, x.losses, x.interruptions, x.failure, x.progress),
  d AS (DELETE FROM delayed x WHERE x.ctid = ANY (array(SELECT y.ctid FROM m JOIN delayed y ON y.seq BETWEEN m.seq AND m.seq
      FOR UPDATE OF y SKIP LOCKED))
    RETURNING x.seq, x.topic, x.adm, x.failures, x.losses, x.interruptions, x.failure, x.progress),
  a AS (SELECT *, 1 AS place FROM r UNION ALL SELECT *, 2 FROM p UNION ALL SELECT *, 3 FROM d),
  c AS (INSERT INTO delta (topic, ready, parked, delayed) SELECT topic, -count(*) FILTER (WHERE place = 1),
      -count(*) FILTER (WHERE place = 2), -count(*) FILTER (WHERE place = 3) FROM a GROUP BY topic)
  SELECT array_agg(ROW (seq, topic, adm, failures + losses + interruptions, failures, losses, interruptions, failure, progress,
    p_reason, NULL, p_ttl)::over) INTO v_ended FROM a;
  RETURN coalesce(v_ended, '{}');
END $$;

-- Let delayed messages wait whose time has come. Those whose key somebody else has at the moment are left for the next time:
-- this never waits.
CREATE FUNCTION promote_1(p_now timestamptz, p_most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v record;
  v_topics int[];
  v_adms text[];
BEGIN
  IF NOT EXISTS (SELECT 1 FROM delayed WHERE due <= p_now) THEN
    RETURN 0;
  END IF;
  IF EXISTS (SELECT 1 FROM topic WHERE adm_lim IS NOT NULL) THEN
    INSERT INTO keystate (topic, adm, n)  -- new ones are ours
      SELECT DISTINCT y.topic, y.gate, 0 FROM due_1(p_now, p_most) y WHERE y.gate IS NOT NULL AND NOT y.held
        ON CONFLICT DO NOTHING;
    SELECT array_agg(l.topic), array_agg(l.adm) INTO v_topics, v_adms FROM (
      SELECT k.* FROM (SELECT DISTINCT y.topic, y.gate FROM due_1(p_now, p_most) y WHERE y.gate IS NOT NULL) y CROSS JOIN LATERAL (
        SELECT s.topic, s.adm FROM keystate s WHERE s.topic = y.topic AND s.adm = y.gate FOR UPDATE SKIP LOCKED) k) l;
  END IF;
  WITH y AS MATERIALIZED (
    SELECT * FROM due_1(p_now, p_most) y WHERE y.gate IS NULL OR y.held
      OR (y.topic, y.gate) IN (SELECT l.topic, l.adm FROM unnest(v_topics, v_adms) l(topic, adm))),
  d AS MATERIALIZED (
    DELETE FROM delayed WHERE ctid = ANY (array(
      SELECT x.ctid FROM y JOIN delayed x ON x.seq BETWEEN y.seq AND y.seq FOR UPDATE OF x SKIP LOCKED)) RETURNING *),
  g AS MATERIALIZED (
    SELECT d.*, CASE WHEN d.adm IS NOT NULL THEN d.adm WHEN t.fifo THEN ''  -- as due_1 says; joined with it each would read all
        WHEN t.adm_lim IS NOT NULL THEN (SELECT m.key FROM msg m WHERE m.seq = d.seq) END AS gate, d.adm IS NOT NULL AS held
      FROM d JOIN topic t ON t.id = d.topic),
  r AS (INSERT INTO ready SELECT (topic << 4) | (9 - prio), seq, due, failures, losses, interruptions, gate, failure, progress
    FROM g WHERE held OR gate IS NULL),
  c AS (INSERT INTO delta (topic, delayed, ready) SELECT topic, -count(*), count(*) FILTER (WHERE held OR gate IS NULL)
    FROM g GROUP BY topic)
  SELECT count(*)::int AS n, array_agg(DISTINCT topic) AS topics,
      array_agg(ROW (seq, topic, prio, gate, due, failures, losses, interruptions, failure, progress)::work)
        FILTER (WHERE NOT held AND gate IS NOT NULL) AS gated
    INTO v FROM g;
  IF v.gated IS NOT NULL THEN
    PERFORM admit_1(v.gated);
  END IF;
  PERFORM wake_1(v.topics, v.n);
  RETURN v.n;
END $$;

-- The delayed messages that are due, the key whose slot each needs, and whether it has it already.
CREATE FUNCTION due_1(p_now timestamptz, p_most int, OUT seq bigint, OUT topic int, OUT gate text, OUT held boolean)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY
  SELECT d.seq, d.topic, CASE WHEN d.adm IS NOT NULL THEN d.adm WHEN t.fifo THEN ''
      WHEN t.adm_lim IS NOT NULL THEN (SELECT m.key FROM msg m WHERE m.seq = d.seq) END, d.adm IS NOT NULL
    FROM (SELECT x.seq, x.topic, x.adm FROM delayed x WHERE x.due <= p_now ORDER BY x.due, x.seq LIMIT p_most) d
    JOIN topic t ON t.id = d.topic;
END $$;

-- End leases whose time is over: a loss each. One too many is handed back to be buried, the others wait again at once, in
-- their old place.
-- Leases are written with an end in the future, so looking from where the last look stopped misses none but those whose
-- transaction was slower than two seconds; a look from the beginning finds these.
CREATE FUNCTION reap_1(
  p_now timestamptz, p_most int, OUT o_count int, OUT o_counted int[], OUT o_buried over[], OUT o_dropped over[]
) LANGUAGE plpgsql AS $$
DECLARE
  v record;
  u record;
  v_from timestamptz;
BEGIN
  SELECT reaped, swept < p_now - interval '30 s' AS whole INTO u FROM upkeep;
  v_from := CASE WHEN u.whole THEN '-infinity' ELSE u.reaped - interval '2 s' END;
  WITH l AS MATERIALIZED (
    DELETE FROM lease WHERE seq = ANY (array(
      SELECT l.seq FROM worker w CROSS JOIN LATERAL (SELECT e.seq FROM lease e WHERE e.worker = w.id
        AND e.until >= v_from AND e.until <= p_now ORDER BY e.worker, e.until LIMIT p_most FOR UPDATE SKIP LOCKED) l LIMIT p_most))
    RETURNING *),
  s AS MATERIALIZED (
    SELECT l.*, l.losses + 1 AS lost, w.name AS holder,
        CASE WHEN l.cancelled THEN 3 WHEN l.losses + 1 > t.losses THEN 2 ELSE 1 END AS kind
      FROM l JOIN topic t ON t.id = l.topic LEFT JOIN worker w ON w.id = l.worker),
  r AS (INSERT INTO ready SELECT (topic << 4) | (9 - prio), seq, until, failures, lost, interruptions, adm, failure, progress
    FROM s WHERE kind = 1),
  c AS (INSERT INTO delta (topic, leased, ready) SELECT topic, -count(*), count(*) FILTER (WHERE kind = 1) FROM s GROUP BY topic)
  SELECT count(*)::int AS n, array_agg(topic) FILTER (WHERE counted) AS counted,
      array_agg(DISTINCT topic) FILTER (WHERE kind = 1) AS back, max(until) AS until,
      array_agg(topic) FILTER (WHERE adm IS NOT NULL AND kind = 1) AS btopics,
      array_agg(adm) FILTER (WHERE adm IS NOT NULL AND kind = 1) AS badms,
      array_agg(ROW (seq, topic, adm, failures + lost + interruptions, failures, lost, interruptions, failure_1(
        'millgate.errors.LeaseLost', format('lost %s times; last held by %L, whose lease ended', lost, coalesce(holder, ''))),
        progress, 'Lost', holder, NULL)::over) FILTER (WHERE kind = 2) AS buried,
      array_agg(ROW (seq, topic, adm, failures + lost + interruptions, failures, lost, interruptions, failure, progress, NULL,
        holder, NULL)::over) FILTER (WHERE kind = 3) AS dropped
    INTO v FROM s;
  o_count := v.n; o_counted := v.counted; o_buried := v.buried; o_dropped := v.dropped;
  IF v.back IS NOT NULL THEN
    PERFORM returned_1(v.btopics, v.badms);
    PERFORM wake_1(v.back, v.n);
  END IF;
  IF v.n < p_most AND (u.whole OR u.reaped < p_now - interval '1 s') THEN
    UPDATE upkeep SET reaped = p_now, swept = CASE WHEN u.whole THEN p_now ELSE swept END
      WHERE ctid = ANY (array(SELECT ctid FROM upkeep FOR UPDATE SKIP LOCKED));
  END IF;
END $$;

-- The same by a client that claims, ten times a second, and a portion of what is to be forgotten: all of a second's at once
-- would hold up the claim that it falls to.
CREATE FUNCTION keep_1() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_count int := upkeep_1();
  v_now timestamptz := clock_timestamp();
BEGIN
  IF pg_try_advisory_xact_lock(gate_1(3)) THEN
    WHILE forget_1(v_now, (SELECT cleared FROM upkeep), 200) LOOP
      EXIT WHEN clock_timestamp() > v_now + interval '3 ms';
    END LOOP;
  END IF;
  RETURN v_count;
END $$;

-- Once a second by every client: upkeep, sum up counters, forget what is over. Answers whether something is left that takes
-- calls of its own: a dead letter on its way elsewhere, a topic that is shut.
CREATE FUNCTION tend_1() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
BEGIN
  PERFORM upkeep_1();
  v_now := clock_timestamp();
  IF (SELECT pruned FROM upkeep) < v_now - interval '1 s' THEN
    PERFORM fold_1();
    PERFORM prune_1(v_now);
  END IF;
  RETURN EXISTS (SELECT 1 FROM dead WHERE forward) OR EXISTS (SELECT 1 FROM topic WHERE shut > 0);
END $$;

-- The same by a client that has nothing to do: it is told whether anything may be claimable for these topics, the seconds
-- until time alone changes that, and whether word was left that this listener sleeps. (Looking passes over all that is dead
-- before the first live row, which is much while an old transaction is open; who claims knows better where to look.)
CREATE FUNCTION tick_1(p_listener bigint, p_topics int[], OUT o_claimable boolean, OUT o_next float8, OUT o_forward boolean, OUT o_topics bigint,
  OUT o_left boolean)
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
BEGIN
  o_forward := tend_1();
  v_now := clock_timestamp();
  -- Word is left anew only when it is old: a publisher passes over a word that is being written at that moment. Who left it
  -- looks again a little later, when those who could not see it have committed.
  o_left := p_listener IS NOT NULL AND NOT EXISTS (SELECT 1 FROM idle
    WHERE listener = p_listener AND topics IS NOT DISTINCT FROM p_topics AND at > v_now - interval '3 s');
  IF o_left THEN
    INSERT INTO idle VALUES (p_listener, p_topics, v_now)
      ON CONFLICT (listener) DO UPDATE SET topics = excluded.topics, at = excluded.at;
  END IF;
  SELECT * INTO o_claimable, o_next FROM look_1(p_topics, v_now);
  o_topics := (SELECT topics FROM queue);
END $$;

-- Whether a claim of these topics would be given something, and the seconds until time alone may change that.
CREATE FUNCTION look_1(p_topics int[], p_now timestamptz, OUT o_claimable boolean, OUT o_next float8) LANGUAGE plpgsql AS $$
DECLARE
  q record;
  v_room int;
BEGIN
  SELECT lim, suspended INTO q FROM queue;
  IF q.lim IS NOT NULL THEN
    v_room := q.lim - (SELECT inflight FROM slot WHERE topic = 0)
      - (SELECT coalesce(sum(greatest(0, x.reserve - z.inflight)), 0) FROM topic x JOIN slot z ON z.topic = x.id WHERE x.reserve > 0);
  END IF;
  SELECT coalesce(bool_or(a.free > 0 AND a.tokens >= 1 - 1e-9), false) AND NOT q.suspended,
      min((1 - a.tokens) / a.rate) FILTER (WHERE a.free > 0 AND a.tokens < 1 - 1e-9) INTO o_claimable, o_next
    FROM (
      SELECT t.rate, least(CASE WHEN t.lim IS NULL THEN 1 ELSE t.lim - s.inflight END,
            CASE WHEN v_room IS NULL THEN 1 ELSE v_room + greatest(0, t.reserve - coalesce(s.inflight, 0)) END) AS free,
          CASE WHEN t.rate IS NULL THEN 1 ELSE least(t.burst, coalesce(s.tokens + t.rate * greatest(0, date_part('epoch', p_now - s.at)),
            t.burst)) END AS tokens
        FROM topic t LEFT JOIN slot s ON s.topic = t.id AND t.counted
       WHERE NOT t.paused AND NOT t.held AND t.shut = 0 AND (p_topics IS NULL OR t.id = ANY (p_topics))
         AND EXISTS (SELECT 1 FROM unnest(t.prios) p(prio) CROSS JOIN LATERAL (
           SELECT 1 FROM ready r WHERE r.lane = (t.id << 4) | (9 - p.prio) ORDER BY r.lane, r.seq LIMIT 1) h)) a;
  o_next := least(o_next, next_1(p_now, p_topics));
END $$;

-- Add what calls have counted to the totals; one at a time.
CREATE FUNCTION fold_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(gate_1(2)) THEN
    RETURN;
  END IF;
  WITH d AS (DELETE FROM delta RETURNING *),
  g AS (SELECT topic, sum(ready) AS ready, sum(parked) AS parked, sum(delayed) AS delayed, sum(leased) AS leased, sum(dead) AS dead,
      sum(enq) AS enq, sum(started) AS started, sum(done) AS done, sum(failed) AS failed, sum(dropped) AS dropped
    FROM d GROUP BY topic ORDER BY topic)
  INSERT INTO counter SELECT * FROM g ON CONFLICT (topic) DO UPDATE SET
    ready = counter.ready + excluded.ready, parked = counter.parked + excluded.parked, delayed = counter.delayed + excluded.delayed,
    leased = counter.leased + excluded.leased, dead = counter.dead + excluded.dead, enq = counter.enq + excluded.enq,
    started = counter.started + excluded.started, done = counter.done + excluded.done, failed = counter.failed + excluded.failed,
    dropped = counter.dropped + excluded.dropped;
END $$;

-- Forget what is over: ends that were kept long enough, lapsed unique texts and locks, silent workers, old dead letters,
-- sleepers that died. In batches; one at a time.
CREATE FUNCTION prune_1(p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  u upkeep;
  v_whole boolean;             -- from the beginning: twice a minute, for those that a slow transaction stored late
  v_more boolean := true;
BEGIN
  IF NOT pg_try_advisory_xact_lock(gate_1(3)) THEN
    RETURN;
  END IF;
  SELECT * INTO u FROM upkeep;
  v_whole := u.swept > p_now - interval '2 s';
  WHILE v_more AND clock_timestamp() < p_now + interval '200 ms' LOOP
    v_more := forget_1(p_now, CASE WHEN v_whole THEN '-infinity' ELSE u.cleared END, 2000);
  END LOOP;
  DELETE FROM uniq WHERE ukey = ANY (array(
    SELECT ukey FROM uniq WHERE until <= p_now ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED));
  DELETE FROM lck WHERE until <= p_now;
  IF v_whole THEN  -- it reads all keys, for the few that nobody took
    DELETE FROM keystate WHERE ctid = ANY (array(SELECT ctid FROM keystate WHERE n = 0 LIMIT 1000 FOR UPDATE SKIP LOCKED));
  END IF;
  DELETE FROM idle WHERE at < p_now - interval '60 s';
  DELETE FROM awaited WHERE ctid = ANY (array(
    SELECT ctid FROM awaited WHERE at < p_now - interval '1 h' ORDER BY at LIMIT 1000 FOR UPDATE SKIP LOCKED));
  PERFORM age_1(p_now);
  UPDATE worker SET gone = true WHERE NOT gone AND seen < p_now - interval '90 s' AND (fenced IS NULL OR fenced <= p_now);
  DELETE FROM worker w WHERE w.gone AND w.seen < p_now - interval '10 min'
    AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.worker = w.id);
  UPDATE upkeep SET pruned = p_now, cleared = CASE WHEN v_more THEN cleared ELSE p_now END;
END $$;

-- Forget dead letters that are older than their topic keeps them.
CREATE FUNCTION age_1(p_now timestamptz) RETURNS void LANGUAGE sql AS $$
  SELECT bury_1(array_agg(d.seq), true) FROM topic t CROSS JOIN LATERAL (
    SELECT x.seq, x.died FROM dead x WHERE x.topic = t.id ORDER BY x.topic, x.no LIMIT 1000) d
   WHERE d.died < p_now - t.retention * interval '1 s' HAVING count(*) > 0
$$;
