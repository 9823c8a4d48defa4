-- Store messages, all or none. Columns are arrays; those that nobody set are NULL. Answers positions and holders of the
-- duplicates only.
CREATE FUNCTION publish_1(
  p_call bigint, p_names text[], p_topic int[], p_id text[], p_prio smallint[], p_record bytea[],
  p_key text[], p_delay float8[], p_at float8[], p_expires_in float8[], p_expires_at float8[], p_ukey text[], p_ufor float8[],
  p_ttl float8[], p_grp text[], p_chained text[], OUT o_at int[], OUT o_holder text[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_count int := cardinality(p_id);
  v_ids int[];                 -- of the topics, as the next one typed, so that each row finds its element at once
  v_expiry float8[];
  v_due timestamptz[];         -- NULL: all are due
  v_seq bigint;
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
  IF q.reject OR t.known < cardinality(p_names)
      OR t.payload < (SELECT max(octet_length(p_record[n])) FROM generate_series(1, v_count) n) THEN
    PERFORM refuse_1(p_names, p_topic, p_id, p_record, p_chained);
    PERFORM topics_1(p_names);
    SELECT array_agg(x.id ORDER BY n.o) AS ids, array_agg(x.expires_in ORDER BY n.o) AS expiry,
        bool_or(x.adm_lim IS NOT NULL) AS gated
      INTO t FROM unnest(p_names) WITH ORDINALITY n(name, o) JOIN topic x ON x.name = n.name;
  END IF;
  IF NOT t.gated AND p_ukey IS NULL AND v_count <= 1024 AND fresh_1(p_id) THEN  -- the straight way in
    v_ids := t.ids; v_expiry := t.expiry; v_seq := nextval('seq') - 1;
    IF p_delay IS NOT NULL OR p_at IS NOT NULL THEN
      v_due := array(SELECT CASE WHEN p_at[n] IS NOT NULL THEN to_timestamp(p_at[n]) ELSE v_now + coalesce(p_delay[n], 0) * interval '1 s' END
        FROM generate_series(1, v_count) n);
    END IF;
    BEGIN
      INSERT INTO msg (seq, id, topic, prio, call, key, ttl, grp, expires, record)
        SELECT v_seq + n, p_id[n], v_ids[p_topic[n]], p_prio[n], p_call, p_key[n], p_ttl[n], p_grp[n],
            CASE WHEN p_expires_at[n] IS NOT NULL THEN least(to_timestamp(p_expires_at[n]), v_now + p_expires_in[n] * interval '1 s')
                 ELSE v_now + coalesce(p_expires_in[n], v_expiry[p_topic[n]]) * interval '1 s' END, p_record[n]
          FROM generate_series(1, v_count) n;
      INSERT INTO ready (lane, seq, since) SELECT (v_ids[p_topic[n]] << 4) | (9 - p_prio[n]), v_seq + n, v_now
        FROM generate_series(1, v_count) n WHERE (v_due[n] > v_now) IS NOT TRUE;
      IF v_due IS NOT NULL THEN
        INSERT INTO delayed (due, seq, topic, prio) SELECT v_due[n], v_seq + n, v_ids[p_topic[n]], p_prio[n]
          FROM generate_series(1, v_count) n WHERE v_due[n] > v_now;
      END IF;
      INSERT INTO delta (topic, ready, delayed, enq)
        SELECT v_ids[p_topic[n]], count(*) FILTER (WHERE (v_due[n] > v_now) IS NOT TRUE), count(*) FILTER (WHERE v_due[n] > v_now), count(*)
          FROM generate_series(1, v_count) n GROUP BY 1;
      v_stored := v_count;
    EXCEPTION WHEN unique_violation THEN  -- somebody has stored one of these ids meanwhile
      v_stored := NULL;
    END;
  END IF;
  IF v_stored IS NULL THEN
    SELECT * INTO o_at, o_holder, v_stored FROM store_1(array(
      SELECT ROW (x.id, p_names[x.topic], x.prio, x.record, x.key, x.delay, x.at, x.expires_in, x.expires_at, x.ukey, x.ufor,
          x.ttl, x.grp)::draft
        FROM unnest(p_id, p_topic, p_prio, p_record, p_key, p_delay, p_at, p_expires_in, p_expires_at, p_ukey, p_ufor, p_ttl,
          p_grp) WITH ORDINALITY
          x(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n) ORDER BY x.n), p_call, v_now);
  ELSE
    IF NOT 5 = ALL (p_prio) THEN
      PERFORM prios_1(array_agg(p_names[x.topic]), array_agg(x.prio))
        FROM (SELECT DISTINCT p_topic[n] AS topic, p_prio[n] AS prio FROM generate_series(1, v_count) n) x;
    END IF;
    IF EXISTS (SELECT 1 FROM idle) THEN  -- for what is late as well: a sleeper must know until when
      PERFORM wake_1(v_ids, v_stored);
    END IF;
  END IF;
  IF q.max_waiting IS NOT NULL THEN
    PERFORM room_1(v_stored);
  END IF;
END $$;

-- Whether none of these ids is known, found out by one look instead of one for each. Ids that this program makes begin with
-- the time: those of one batch are of one moment, and few others lie between them. No: they have to be looked for one by one.
-- (Between any others there may be all that the queue ever stored, and all that is dead of it.)
CREATE FUNCTION fresh_1(p_ids text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_form text := '^[0-9a-f]{12}7[0-9a-f]{19}$';
  v_between text[];
  x record;
BEGIN
  SELECT min(i COLLATE "C") AS first, max(i COLLATE "C") AS last INTO x FROM unnest(p_ids) i;
  IF NOT (x.first ~ v_form AND x.last ~ v_form AND left(x.first, 10) = left(x.last, 10)) THEN  -- of a quarter of a second
    RETURN false;
  END IF;
  v_between := array(SELECT m.id FROM msg m WHERE m.id BETWEEN x.first AND x.last LIMIT 101)
    || array(SELECT f.id FROM final f WHERE f.id BETWEEN x.first AND x.last LIMIT 101);
  RETURN cardinality(v_between) <= 100 AND NOT p_ids && v_between;
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

-- Let nobody end these messages before this transaction does: who ends them then sees what it has stored of them.
CREATE FUNCTION hold_1(p_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM msg m CROSS JOIN LATERAL (SELECT 1 FROM ready r WHERE r.lane = (m.topic << 4) | (9 - m.prio) AND r.seq = m.seq
    FOR KEY SHARE) r WHERE m.id = ANY (p_ids);
  PERFORM 1 FROM msg m CROSS JOIN LATERAL (SELECT 1 FROM parked p WHERE p.seq = m.seq FOR KEY SHARE) p WHERE m.id = ANY (p_ids);
  PERFORM 1 FROM msg m CROSS JOIN LATERAL (SELECT 1 FROM delayed d WHERE d.seq = m.seq FOR KEY SHARE) d WHERE m.id = ANY (p_ids);
  PERFORM 1 FROM msg m CROSS JOIN LATERAL (SELECT 1 FROM lease l WHERE l.seq = m.seq FOR KEY SHARE) l WHERE m.id = ANY (p_ids);
END $$;

-- Begin to wait for a group, in the transaction that published its members; `p_old` are those that may have been there
-- already. The callback's columns are its draft's.
CREATE FUNCTION group_1(
  p_group text, p_require boolean, p_old text[], p_watch text[], p_member text[], p_place int[], p_step int[],
  c_topic text, c_id text, c_prio smallint, c_record bytea, c_key text, c_delay float8, c_at float8, c_expires_in float8,
  c_expires_at float8, c_ukey text, c_ufor float8, c_ttl float8, c_grp text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  PERFORM refuse_1(ARRAY[c_topic], ARRAY[1], ARRAY[c_id], ARRAY[c_record], '{}');
  IF p_old IS NOT NULL THEN
    PERFORM hold_1(p_old);
  END IF;
  PERFORM gather_1(p_group, ROW (c_id, c_topic, c_prio, c_record, c_key, c_delay, c_at, c_expires_in, c_expires_at, c_ukey, c_ufor,
    c_ttl, c_grp)::draft, p_require, p_watch, p_member, p_place, p_step, clock_timestamp());
  PERFORM unstock_1();  -- a group of none has brought its callback
END $$;
