-- Store messages inside a transaction that is not ours: nothing but rows of our own is locked, however long it lasts.
-- They are due at once (or at their time) and enter the queue after the commit, through promotion.
CREATE FUNCTION send_1(
  p_call bigint, p_names text[], p_topic int[], p_id text[], p_prio smallint[], p_record bytea[],
  p_key text[], p_delay float8[], p_at float8[], p_expires_in float8[], p_expires_at float8[], p_ukey text[], p_ufor float8[],
  p_ttl float8[], p_grp text[], OUT o_at int[], OUT o_holder text[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_ids int[];
  v_skip int[] := '{}';
  v_known text[];
  v_taken text[] := '{}';
  v_late bigint[];
  w record;
  v_holder text;
BEGIN
  PERFORM refuse_1(p_names, p_topic, p_id, p_record, '{}');
  v_ids := topics_1(p_names);
  PERFORM clear_1(p_id, v_now);
  o_at := '{}'; o_holder := '{}';
  v_known := array(SELECT i FROM unnest(p_id) i WHERE (SELECT m.seq FROM msg m WHERE m.id = i) IS NOT NULL
    OR (SELECT f.until FROM final f WHERE f.id = i) > v_now);
  FOR w IN SELECT x.n::int, x.id, x.ukey, x.ufor FROM unnest(p_id, p_ukey, p_ufor) WITH ORDINALITY x(id, ukey, ufor, n)
      WHERE x.ukey IS NOT NULL AND NOT x.id = ANY (v_known) ORDER BY x.ukey COLLATE "C", x.n LOOP
    LOOP
      INSERT INTO uniq VALUES (w.ukey, w.id, v_now + CASE WHEN w.ufor < 0.000001 THEN 0.000001 ELSE w.ufor END * interval '1 s')
        ON CONFLICT (ukey) DO UPDATE SET id = excluded.id, until = excluded.until WHERE uniq.until <= v_now;
      IF FOUND THEN
        v_taken := v_taken || w.ukey;
        EXIT;
      END IF;
      SELECT u.id INTO v_holder FROM uniq u WHERE u.ukey = w.ukey;
      IF FOUND THEN
        v_skip := v_skip || w.n; o_at := o_at || w.n; o_holder := o_holder || v_holder;
        EXIT;
      END IF;
    END LOOP;
  END LOOP;
  WITH d AS MATERIALIZED (
    SELECT nextval('seq') AS seq, x.*, t.id AS tid, t.expires_in AS texp,
        greatest(v_now, CASE WHEN x.at IS NOT NULL THEN to_timestamp(x.at) ELSE v_now + coalesce(x.delay, 0) * interval '1 s' END) AS due
      FROM unnest(p_id, p_topic, p_prio, p_record, p_key, p_delay, p_at, p_expires_in, p_expires_at, p_ukey, p_ttl, p_grp)
        WITH ORDINALITY x(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ttl, grp, n)
      JOIN topic t ON t.id = v_ids[x.topic]
      WHERE NOT x.n = ANY (v_skip) AND ((SELECT f.until FROM final f WHERE f.id = x.id) > v_now) IS NOT TRUE ORDER BY x.n),
  m AS (
    INSERT INTO msg (seq, id, topic, prio, call, key, ukey, ttl, grp, expires, record)
      SELECT seq, id, tid, prio, p_call, key, ukey, ttl, grp,
          CASE WHEN expires_at IS NOT NULL THEN least(to_timestamp(expires_at), v_now + expires_in * interval '1 s')
               ELSE v_now + coalesce(expires_in, texp) * interval '1 s' END, record
        FROM d ORDER BY n
      ON CONFLICT (id) DO NOTHING RETURNING seq),
  s AS MATERIALIZED (SELECT * FROM d WHERE (d.seq IN (SELECT m.seq FROM m)) IS TRUE),  -- as a join each would read all
  l AS (INSERT INTO delayed (due, seq, topic, prio) SELECT due, seq, tid, prio FROM s),
  c AS (INSERT INTO delta (topic, delayed, enq) SELECT tid, count(*), count(*) FROM s GROUP BY tid)
  SELECT o_at || coalesce(array_agg(x.n::int), '{}'), o_holder || coalesce(array_agg(x.id), '{}') INTO o_at, o_holder
    FROM unnest(p_id) WITH ORDINALITY x(id, n) WHERE NOT x.n = ANY (v_skip) AND (x.n IN (SELECT s.n FROM s)) IS NOT TRUE;
  v_late := array(SELECT m.seq FROM msg m WHERE m.id = ANY (p_id) AND m.call = p_call
    AND (SELECT f.until FROM final f WHERE f.id = m.id) > v_now);
  IF cardinality(v_late) > 0 THEN  -- the first ones of these ids ended while this waited for them
    WITH m AS (DELETE FROM msg WHERE seq = ANY (v_late) RETURNING id, topic),
    l AS (DELETE FROM delayed WHERE seq = ANY (v_late)),
    c AS (INSERT INTO delta (topic, delayed, enq) SELECT topic, -count(*), -count(*) FROM m GROUP BY topic)
    SELECT o_at || array_agg(x.n::int), o_holder || array_agg(x.id) INTO o_at, o_holder
      FROM unnest(p_id) WITH ORDINALITY x(id, n) WHERE (x.id IN (SELECT m.id FROM m)) IS TRUE;
  END IF;
  IF cardinality(v_taken) > 0 THEN  -- what is not stored would never give its text back
    DELETE FROM uniq WHERE ukey = ANY (v_taken) AND (SELECT m.call FROM msg m WHERE m.id = uniq.id) IS DISTINCT FROM p_call;
  END IF;
  IF EXISTS (SELECT 1 FROM unnest(p_prio) p WHERE p <> 5) THEN
    PERFORM prios_1(array(SELECT p_names[t] FROM unnest(p_topic) t), p_prio);
  END IF;
  PERFORM pg_notify('millgate_' || ('queue'::regclass::oid)::text, '');
END $$;

-- Let topics and priorities appear before a transaction of the caller's uses them.
CREATE FUNCTION ensure_1(p_names text[], p_prios smallint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  PERFORM refuse_1(p_names, '{}', '{}', '{}', '{}');
  PERFORM topics_1(array(SELECT DISTINCT n FROM unnest(p_names) n ORDER BY 1));
  PERFORM prios_1(p_names, p_prios);
END $$;
