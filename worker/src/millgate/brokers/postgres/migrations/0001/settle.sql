-- Carry out settlements of claims (seq, token). Acks come as arrays of their own; the rest has a kind: 1 later, 2 bury,
-- 3 drop; charges: 0 failure, 1 loss, 2 nothing; `p_turn` says of each how many acks come before it (NULL: all). Messages that
-- acks publish name their parent. Answers the seqs that were carried out; the others' tokens are stale.
CREATE FUNCTION settle_1(
  p_call bigint, a_seq bigint[], a_tok bigint[], a_body bytea[], a_ttl float8[],
  s_seq bigint[], s_tok bigint[], s_kind smallint[], s_delay float8[], s_charge smallint[], s_failure bytea[], s_reason text[],
  p_turn int[], f_parent bigint[], f_topic text[], f_id text[], f_prio smallint[], f_record bytea[], f_key text[], f_delay float8[],
  f_at float8[], f_expires_in float8[], f_expires_at float8[], f_ukey text[], f_ufor float8[], f_ttl float8[], f_grp text[],
  OUT o_done bigint[], OUT o_forward boolean
) LANGUAGE plpgsql AS $$
DECLARE
  v_topics int[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  SELECT * INTO o_done, v_topics FROM carry_1(
    p_call, a_seq, a_tok, a_body, a_ttl, s_seq, s_tok, s_kind, s_delay, s_charge, s_failure, s_reason, p_turn, f_parent, f_topic,
    f_id, f_prio, f_record, f_key, f_delay, f_at, f_expires_in, f_expires_at, f_ukey, f_ufor, f_ttl, f_grp, clock_timestamp());
  PERFORM uncount_1(v_topics);
  PERFORM wake_1(NULL, cardinality(v_topics));
  o_forward := s_seq IS NOT NULL AND EXISTS (SELECT 1 FROM dead WHERE forward);
END $$;

-- The same without locks on limits; answers the topics whose counters have to sink, once per claim.
CREATE FUNCTION carry_1(
  p_call bigint, a_seq bigint[], a_tok bigint[], a_body bytea[], a_ttl float8[],
  s_seq bigint[], s_tok bigint[], s_kind smallint[], s_delay float8[], s_charge smallint[], s_failure bytea[], s_reason text[],
  p_turn int[], f_parent bigint[], f_topic text[], f_id text[], f_prio smallint[], f_record bytea[], f_key text[], f_delay float8[],
  f_at float8[], f_expires_in float8[], f_expires_at float8[], f_ukey text[], f_ufor float8[], f_ttl float8[], f_grp text[],
  p_now timestamptz, OUT o_done bigint[], OUT o_topics int[]
) LANGUAGE plpgsql AS $$
DECLARE
  t record;
  v record;
  v_next int := 1;             -- the first ack that is still to be carried out
  v_brings boolean := s_seq IS NOT NULL OR f_parent IS NOT NULL OR EXISTS (SELECT 1 FROM grp);
BEGIN
  PERFORM prelock_1(a_seq || s_seq, array(SELECT f_topic[n] FROM generate_subscripts(f_topic, 1) n),
    array(SELECT f_key[n] FROM generate_subscripts(f_topic, 1) n), array(SELECT f_ukey[n] FROM generate_subscripts(f_topic, 1) n));
  -- in portions only where it shows: something ends that is no ack, and what ends brings messages
  IF p_turn IS NOT NULL AND (f_parent IS NOT NULL OR EXISTS (SELECT 1 FROM grp))
      AND (s_kind && '{2,3}' OR EXISTS (SELECT 1 FROM lease WHERE seq = ANY (s_seq) AND cancelled)) THEN
    FOR t IN SELECT x.turn, min(x.n)::int AS first, max(x.n)::int AS last FROM unnest(p_turn) WITH ORDINALITY x(turn, n)
        GROUP BY x.turn ORDER BY x.turn LOOP
      SELECT y.o_done AS done, y.o_topics AS topics INTO v FROM portion_1(
        p_call, a_seq[v_next:t.turn], a_tok[v_next:t.turn], a_body[v_next:t.turn], a_ttl[v_next:t.turn], s_seq[t.first:t.last],
        s_tok[t.first:t.last], s_kind[t.first:t.last], s_delay[t.first:t.last], s_charge[t.first:t.last], s_failure[t.first:t.last],
        s_reason[t.first:t.last], f_parent, f_topic, f_id, f_prio, f_record, f_key, f_delay, f_at, f_expires_in, f_expires_at, f_ukey,
        f_ufor, f_ttl, f_grp, p_now) y;
      o_done := o_done || v.done;
      o_topics := o_topics || v.topics;
      v_next := t.turn + 1;
    END LOOP;
    s_seq := NULL;
  END IF;
  SELECT y.o_done AS done, y.o_topics AS topics INTO v FROM portion_1(
    p_call, a_seq[v_next:], a_tok[v_next:], a_body[v_next:], a_ttl[v_next:], s_seq, s_tok, s_kind, s_delay, s_charge, s_failure, s_reason,
    f_parent, f_topic, f_id, f_prio, f_record, f_key, f_delay, f_at, f_expires_in, f_expires_at, f_ukey, f_ufor, f_ttl, f_grp, p_now) y;
  o_done := o_done || v.done;
  o_topics := o_topics || v.topics;
  IF v_brings THEN
    PERFORM unstock_1();
  END IF;
END $$;

-- Acks, what follows them, then the others.
CREATE FUNCTION portion_1(
  p_call bigint, a_seq bigint[], a_tok bigint[], a_body bytea[], a_ttl float8[],
  s_seq bigint[], s_tok bigint[], s_kind smallint[], s_delay float8[], s_charge smallint[], s_failure bytea[], s_reason text[],
  f_parent bigint[], f_topic text[], f_id text[], f_prio smallint[], f_record bytea[], f_key text[], f_delay float8[],
  f_at float8[], f_expires_in float8[], f_expires_at float8[], f_ukey text[], f_ufor float8[], f_ttl float8[], f_grp text[],
  p_now timestamptz, OUT o_done bigint[], OUT o_topics int[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[];
  v_done bigint[];
  v_topics int[];
BEGIN
  IF cardinality(a_seq) > 0 THEN
    SELECT * INTO o_done, o_topics, v_ids FROM ack_1(a_seq, a_tok, a_body, a_ttl, p_now);
    IF f_parent IS NOT NULL THEN  -- after the acks: they free the unique texts and keys that these may want
      PERFORM oversize_1(f_topic, f_id, f_record);
      PERFORM store_1(array(
        SELECT ROW (x.id, x.topic, x.prio, x.record, x.key, x.delay, x.at, x.expires_in, x.expires_at, x.ukey, x.ufor, x.ttl,
            x.grp)::draft
          FROM unnest(f_parent, f_id, f_topic, f_prio, f_record, f_key, f_delay, f_at, f_expires_in, f_expires_at, f_ukey, f_ufor,
            f_ttl, f_grp) WITH ORDINALITY
            x(parent, id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n)
         WHERE x.parent = ANY (o_done) ORDER BY x.n), p_call, p_now);
    END IF;
    PERFORM told_1(v_ids, true, p_now);
  END IF;
  IF s_seq IS NOT NULL THEN
    SELECT * INTO v_done, v_topics FROM giveback_1(s_seq, s_tok, s_kind, s_delay, s_charge, s_failure, s_reason, p_now);
    o_done := o_done || v_done;
    o_topics := o_topics || v_topics;
  END IF;
END $$;

-- Done, with or without a result that is kept. What is light and keeps none is only noted: see `ended`.
CREATE FUNCTION ack_1(
  p_seq bigint[], p_tok bigint[], p_body bytea[], p_ttl float8[], p_now timestamptz, OUT o_done bigint[], OUT o_topics int[],
  OUT o_ids text[]             -- whom a group may wait for
) LANGUAGE plpgsql AS $$
DECLARE
  v record;
  v_grouped boolean;
  v_awaited boolean;
BEGIN
  WITH u AS MATERIALIZED (SELECT * FROM unnest(p_seq, p_tok, p_body, p_ttl) u(seq, tok, body, ttl)),
  s AS (DELETE FROM lease l USING u WHERE l.seq BETWEEN u.seq AND u.seq AND l.token = u.tok AND l.until - p_now > '0'
    RETURNING l.seq, l.topic, l.counted, l.adm, l.failures + l.losses + l.interruptions + 1 AS attempt, l.progress, u.body, u.ttl,
      l.light AND u.body IS NULL AS light),
  e AS (INSERT INTO ended SELECT p_now + interval '60 s', array_agg(s.seq) FROM s WHERE s.light HAVING count(*) > 0),
  m AS (DELETE FROM msg USING s WHERE msg.seq BETWEEN s.seq AND s.seq AND NOT s.light
    RETURNING msg.id, msg.ukey, msg.ttl AS own, msg.call, s.topic, s.attempt, s.progress, s.body, s.ttl),
  f AS (
    INSERT INTO final (id, state, topic, until, shown, call, attempt, body, progress)
      SELECT k.id, 1, k.topic, p_now + greatest(60, k.keep) * interval '1 s', p_now + k.keep * interval '1 s', k.call, k.attempt,
          k.body, k.progress
        FROM (SELECT m.*, CASE WHEN m.body IS NOT NULL THEN nullif(greatest(0, coalesce(m.ttl, m.own, t.result_ttl)), 0) END AS keep
                FROM m JOIN topic t ON t.id = m.topic) k
      ON CONFLICT (id) DO UPDATE SET state = 1, topic = excluded.topic, until = excluded.until, shown = excluded.shown,
        call = excluded.call, attempt = excluded.attempt, reason = '', body = excluded.body, failure = NULL,
        progress = excluded.progress),
  c AS (INSERT INTO delta (topic, leased, done) SELECT topic, -count(*), count(*) FROM s GROUP BY topic)
  SELECT (SELECT array_agg(s.seq) FROM s) AS done, (SELECT array_agg(s.topic) FROM s WHERE s.counted) AS topics,
      (SELECT array_agg(s.topic) FROM s WHERE s.adm IS NOT NULL) AS atopics,
      (SELECT array_agg(s.adm) FROM s WHERE s.adm IS NOT NULL) AS adms,
      (SELECT array_agg(s.seq) FROM s WHERE s.light) AS light, array_agg(m.id) AS ids, array_agg(m.id) FILTER (WHERE m.ukey IS NOT NULL) AS uids,
      array_agg(m.ukey) FILTER (WHERE m.ukey IS NOT NULL) AS ukeys
    INTO v FROM m;
  o_done := v.done;
  o_topics := v.topics;
  IF v.ukeys IS NOT NULL THEN
    DELETE FROM uniq USING unnest(v.ukeys, v.uids) x(ukey, id) WHERE uniq.ukey BETWEEN x.ukey AND x.ukey AND uniq.id = x.id AND uniq.until IS NULL;
  END IF;
  IF v.adms IS NOT NULL THEN
    PERFORM release_1(v.atopics, v.adms, p_now);
  END IF;
  v_grouped := EXISTS (SELECT 1 FROM grp);
  v_awaited := EXISTS (SELECT 1 FROM awaited);
  IF v_grouped OR v_awaited THEN
    o_ids := v.ids || array(SELECT m.id FROM msg m WHERE m.seq = ANY (v.light));
  END IF;
  IF v_awaited THEN
    PERFORM tell_1(o_ids);
  END IF;
END $$;

-- Later, buried or dropped. What was cancelled while it ran ends as cancelled, whatever its worker says.
CREATE FUNCTION giveback_1(
  p_seq bigint[], p_tok bigint[], p_kind smallint[], p_delay float8[], p_charge smallint[], p_failure bytea[], p_reason text[],
  p_now timestamptz, OUT o_done bigint[], OUT o_topics int[]
) LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  WITH u AS MATERIALIZED (
    SELECT * FROM unnest(p_seq, p_tok, p_kind, p_delay, p_charge, p_failure, p_reason)
      u(seq, tok, kind, delay, charge, failure, reason)),
  s AS (DELETE FROM lease l USING u WHERE l.seq BETWEEN u.seq AND u.seq AND l.token = u.tok AND l.until - p_now > '0'
    RETURNING l.seq, l.topic, l.prio, l.counted, l.adm, l.progress, l.worker, l.since, u.delay, u.reason,
      CASE WHEN l.cancelled THEN 3 ELSE u.kind END AS kind,
      coalesce(u.failure, l.failure) AS failure, l.failures + l.losses + l.interruptions + 1 AS attempt,
      (l.failures + (u.kind = 2 OR u.kind = 1 AND u.charge = 0)::int) AS failures,
      (l.losses + (u.kind = 1 AND u.charge = 1)::int) AS losses,
      (l.interruptions + (u.kind = 1 AND u.charge = 2)::int) AS interruptions),
  k AS MATERIALIZED (  -- who keeps a slot of a strict order meanwhile: not those that are more than it has, since it came late
    SELECT x.seq FROM (
      SELECT s.seq, row_number() OVER (PARTITION BY s.topic, s.adm ORDER BY s.prio, s.seq DESC) > z.n - t.adm_lim AS keeps
        FROM s JOIN topic t ON t.id = s.topic
          CROSS JOIN LATERAL (SELECT y.n FROM keystate y WHERE y.topic = s.topic AND y.adm = s.adm LIMIT 1) z
       WHERE t.sticky AND s.kind = 1 AND s.delay > 0 AND s.adm IS NOT NULL) x WHERE x.keeps),
  r AS (INSERT INTO ready SELECT (topic << 4) | (9 - prio), seq, p_now, failures, losses, interruptions, adm, failure, progress
    FROM s WHERE kind = 1 AND delay <= 0),
  l AS (INSERT INTO delayed SELECT p_now + s.delay * interval '1 s', s.seq, s.topic, s.prio, s.failures, s.losses, s.interruptions,
      CASE WHEN s.seq IN (SELECT k.seq FROM k) THEN s.adm END, s.failure, s.progress
    FROM s WHERE s.kind = 1 AND s.delay > 0),
  c AS (INSERT INTO delta (topic, leased, ready, delayed) SELECT topic, -count(*), count(*) FILTER (WHERE kind = 1 AND delay <= 0),
      count(*) FILTER (WHERE kind = 1 AND delay > 0) FROM s GROUP BY topic)
  SELECT array_agg(s.seq) AS done, array_agg(s.topic) FILTER (WHERE s.counted) AS topics,
      array_agg(s.topic) FILTER (WHERE s.adm IS NOT NULL AND s.kind = 1 AND s.delay > 0 AND s.seq NOT IN (SELECT k.seq FROM k)) AS atopics,
      array_agg(s.adm) FILTER (WHERE s.adm IS NOT NULL AND s.kind = 1 AND s.delay > 0 AND s.seq NOT IN (SELECT k.seq FROM k)) AS adms,
      array_agg(ROW (s.seq, s.topic, s.adm, s.attempt, s.failures, s.losses, s.interruptions, s.failure, s.progress, s.reason, w.name,
        NULL)::over) FILTER (WHERE s.kind = 2) AS buried,
      array_agg(ROW (s.seq, s.topic, s.adm, s.attempt, s.failures, s.losses, s.interruptions, s.failure, s.progress, NULL, w.name,
        NULL)::over) FILTER (WHERE s.kind = 3) AS dropped,
      array_agg(s.topic) FILTER (WHERE s.adm IS NOT NULL AND s.kind = 1 AND s.delay <= 0) AS btopics,
      array_agg(s.adm) FILTER (WHERE s.adm IS NOT NULL AND s.kind = 1 AND s.delay <= 0) AS badms,
      array_agg(DISTINCT s.topic) FILTER (WHERE s.kind = 1 AND s.delay <= 0) AS back,
      count(*) FILTER (WHERE s.kind = 1 AND s.delay <= 0)::int AS backs
    INTO v FROM s LEFT JOIN worker w ON w.id = s.worker;
  o_done := v.done;
  o_topics := v.topics;
  PERFORM release_1(v.atopics, v.adms, p_now);
  PERFORM returned_1(v.btopics, v.badms);
  PERFORM finish_1(v.buried, 2::smallint, p_now);
  PERFORM finish_1(v.dropped, 3::smallint, p_now);
  IF v.back IS NOT NULL THEN
    PERFORM wake_1(v.back, v.backs);
  END IF;
END $$;

-- Let the counters of limits sink, once for each element.
CREATE FUNCTION uncount_1(p_topics int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_topics IS NULL OR cardinality(p_topics) = 0 THEN
    RETURN;
  END IF;
  PERFORM net_1(p_topics, array_fill(-1, ARRAY[cardinality(p_topics)]));
END $$;

-- Change the counters of limits by the sums of what is given; what adds up to nothing is not written.
CREATE FUNCTION net_1(p_topics int[], p_by int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  x record;
BEGIN
  IF p_topics IS NULL THEN
    RETURN;
  END IF;
  FOR x IN
    WITH n AS (SELECT t, sum(b)::int AS b FROM unnest(p_topics, p_by) z(t, b) GROUP BY t),
    a AS (SELECT 0 AS t, sum(b)::int AS b FROM n HAVING (SELECT lim IS NOT NULL FROM queue) UNION ALL SELECT t, b FROM n)
    SELECT t, b FROM a WHERE b <> 0 ORDER BY t
  LOOP
    UPDATE slot SET inflight = inflight + x.b WHERE topic = x.t;
  END LOOP;
END $$;

-- Raise for records that their topic does not take.
CREATE FUNCTION oversize_1(p_topic text[], p_id text[], p_record bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  x record;
BEGIN
  SELECT u.id, u.topic, octet_length(u.record) AS size, coalesce(t.payload_max, (q.policy->'defaults'->>'payload_max')::int, 262144) AS most
    INTO x FROM unnest(p_topic, p_id, p_record) u(topic, id, record) CROSS JOIN queue q LEFT JOIN topic t ON t.name = u.topic
   WHERE octet_length(u.record) > coalesce(t.payload_max, (q.policy->'defaults'->>'payload_max')::int, 262144) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '%: % bytes, topic % takes %; send a reference instead of the data', x.id, x.size, quote_literal(x.topic),
      x.most USING ERRCODE = 'MG001';
  END IF;
END $$;

-- Lock what a settlement will touch, each kind once and in order: leases, unique texts, keys. What follows may then take
-- them in any order. Costs nothing where neither unique texts nor keys are in use and all settlements are of one kind.
CREATE FUNCTION prelock_1(p_seqs bigint[], p_topics text[], p_keys text[], p_ukeys text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_unique boolean := EXISTS (SELECT 1 FROM uniq);
  v_keyed boolean := EXISTS (SELECT 1 FROM keystate);
BEGIN
  IF v_unique OR v_keyed THEN
    PERFORM 1 FROM lease WHERE seq = ANY (p_seqs) ORDER BY seq FOR UPDATE;
  END IF;
  IF v_unique THEN
    PERFORM 1 FROM uniq WHERE ukey = ANY (p_ukeys || array(SELECT m.ukey FROM msg m WHERE m.seq = ANY (p_seqs) AND m.ukey IS NOT NULL))
      ORDER BY ukey FOR UPDATE;
  END IF;
  IF v_keyed THEN
    PERFORM keys_1(x.topics, x.adms) FROM (SELECT array_agg(y.topic) AS topics, array_agg(y.adm) AS adms FROM (
      SELECT l.topic, l.adm FROM lease l WHERE l.seq = ANY (p_seqs) AND l.adm IS NOT NULL
      UNION SELECT t.id, CASE WHEN t.fifo THEN '' ELSE k.key END FROM unnest(p_topics, p_keys) k(name, key)
        JOIN topic t ON t.name = k.name WHERE t.fifo OR t.adm_lim IS NOT NULL AND k.key IS NOT NULL) y) x
      WHERE x.topics IS NOT NULL;
  END IF;
END $$;

-- Lock keys in order; those that nobody uses yet appear.
CREATE FUNCTION keys_1(p_topics int[], p_adms text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO keystate (topic, adm, n)
    SELECT DISTINCT x.topic, x.adm COLLATE "C", 0 FROM unnest(p_topics, p_adms) x(topic, adm) ORDER BY 1, 2
    ON CONFLICT (topic, adm) DO UPDATE SET n = 0 WHERE false;  -- locks without writing
END $$;
