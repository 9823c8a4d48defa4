-- Store messages, all or none. Columns are arrays; those that nobody set are NULL. Answers positions and holders of the
-- duplicates only.
CREATE FUNCTION publish_1(
  p_call bigint, p_names text[], p_topic int[], p_id text[], p_prio smallint[], p_record bytea[],
  p_key text[], p_delay float8[], p_at float8[], p_expires_in float8[], p_expires_at float8[], p_ukey text[], p_ufor float8[],
  p_ttl float8[], p_grp text[], p_chained text[], OUT o_at int[], OUT o_holder text[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_stored int;
  q record;
  t record;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  SELECT reject, max_waiting INTO q FROM queue;
  SELECT count(*) AS known, array_agg(x.id ORDER BY n.o) AS ids, array_agg(x.expires_in ORDER BY n.o) AS expiry,
      bool_or(x.adm_lim IS NOT NULL) AS gated, min(x.payload_max) AS payload
    INTO t FROM unnest(p_names) WITH ORDINALITY n(name, o) JOIN topic x ON x.name = n.name;
  IF q.reject OR t.known < cardinality(p_names) OR t.payload < (SELECT max(octet_length(r)) FROM unnest(p_record) r) THEN
    PERFORM refuse_1(p_names, p_topic, p_id, p_record, p_chained);
    PERFORM topics_1(p_names);
    SELECT array_agg(x.id ORDER BY n.o) AS ids, array_agg(x.expires_in ORDER BY n.o) AS expiry,
        bool_or(x.adm_lim IS NOT NULL) AS gated
      INTO t FROM unnest(p_names) WITH ORDINALITY n(name, o) JOIN topic x ON x.name = n.name;
  END IF;
  IF t.gated OR p_delay IS NOT NULL OR p_at IS NOT NULL OR p_ukey IS NOT NULL THEN
    SELECT * INTO o_at, o_holder, v_stored FROM store_1(array(
      SELECT ROW (x.id, p_names[x.topic], x.prio, x.record, x.key, x.delay, x.at, x.expires_in, x.expires_at, x.ukey, x.ufor,
          x.ttl, x.grp)::draft
        FROM unnest(p_id, p_topic, p_prio, p_record, p_key, p_delay, p_at, p_expires_in, p_expires_at, p_ukey, p_ufor, p_ttl,
          p_grp) WITH ORDINALITY
          x(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n) ORDER BY x.n), p_call, v_now);
  ELSE  -- the straight way in
    PERFORM clear_1(p_id, v_now);
    WITH u AS MATERIALIZED (
      SELECT nextval('seq') AS seq, t.ids[x.t] AS tid, x.*,
          CASE WHEN x.eat IS NOT NULL THEN least(to_timestamp(x.eat), v_now + x.ein * interval '1 s')
               ELSE v_now + coalesce(x.ein, t.expiry[x.t]) * interval '1 s' END AS expires
        FROM unnest(p_id, p_topic, p_prio, p_record, p_key, p_expires_in, p_expires_at, p_ttl, p_grp) WITH ORDINALITY
          x(id, t, prio, record, key, ein, eat, ttl, grp, n)
        WHERE NOT EXISTS (SELECT 1 FROM final f WHERE f.id = x.id AND f.until > v_now)),
    m AS (
      INSERT INTO msg (seq, id, topic, prio, call, key, ttl, grp, expires, record)
        SELECT seq, id, tid, prio, p_call, key, ttl, grp, expires, record FROM u
        ON CONFLICT (id) DO NOTHING RETURNING seq, topic, prio),
    r AS (INSERT INTO ready (lane, seq, since) SELECT (topic << 4) | (9 - prio), seq, v_now FROM m),
    c AS (INSERT INTO delta (topic, ready, enq) SELECT topic, count(*), count(*) FROM m GROUP BY topic)
    SELECT count(*)::int INTO v_stored FROM m;
    IF v_stored < cardinality(p_id) THEN
      SELECT array_agg(x.n::int), array_agg(x.id) INTO o_at, o_holder
        FROM unnest(p_id) WITH ORDINALITY x(id, n) CROSS JOIN LATERAL (
          SELECT m.call FROM msg m WHERE m.id = x.id
          UNION ALL SELECT f.call FROM final f WHERE f.id = x.id AND f.until > v_now LIMIT 1) k
       WHERE k.call <> p_call;
    END IF;
    IF EXISTS (SELECT 1 FROM unnest(p_prio) p WHERE p <> 5) THEN
      PERFORM prios_1(array(SELECT p_names[i] FROM unnest(p_topic) i), p_prio);
    END IF;
    IF EXISTS (SELECT 1 FROM idle) THEN
      PERFORM wake_1(t.ids, v_stored);
    END IF;
  END IF;
  IF q.max_waiting IS NOT NULL THEN
    PERFORM room_1(v_stored);
  END IF;
END $$;

-- Raise for what may not be stored: topics that are not declared where they must be, records that are too large.
CREATE FUNCTION refuse_1(p_names text[], p_topic int[], p_id text[], p_record bytea[], p_chained text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  x record;
BEGIN
  IF (SELECT reject FROM queue) THEN
    SELECT n.name INTO x FROM unnest(p_names || p_chained) n(name)
      WHERE NOT EXISTS (SELECT 1 FROM topic t WHERE t.name = n.name AND t.policy IS NOT NULL) LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'topic %: not declared in this queue; declared are: %', quote_literal(x.name), coalesce((SELECT
        string_agg(name, ', ' ORDER BY name) FROM (SELECT name FROM topic WHERE policy IS NOT NULL ORDER BY name LIMIT 10) d), 'none')
        USING ERRCODE = 'MG002';
    END IF;
  END IF;
  IF (SELECT max(octet_length(r)) FROM unnest(p_record) r) > (SELECT least(
      coalesce(min(t.payload_max), 262144), coalesce((SELECT (policy->'defaults'->>'payload_max')::int FROM queue), 262144))
      FROM topic t WHERE t.name = ANY (p_names)) THEN
    PERFORM oversize_1(array(SELECT p_names[t] FROM unnest(p_topic) t), p_id, p_record);
  END IF;
END $$;

-- Begin to wait for a group, in the transaction that published its members. The callback's columns are its draft's.
CREATE FUNCTION group_1(
  p_group text, p_require boolean, p_watch text[], p_member text[], p_place int[],
  c_topic text, c_id text, c_prio smallint, c_record bytea, c_key text, c_delay float8, c_at float8, c_expires_in float8,
  c_expires_at float8, c_ukey text, c_ufor float8, c_ttl float8, c_grp text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  PERFORM refuse_1(ARRAY[c_topic], ARRAY[1], ARRAY[c_id], ARRAY[c_record], '{}');
  PERFORM gather_1(p_group, ROW (c_id, c_topic, c_prio, c_record, c_key, c_delay, c_at, c_expires_in, c_expires_at, c_ukey, c_ufor,
    c_ttl, c_grp)::draft, p_require, p_watch, p_member, p_place, clock_timestamp());
END $$;
