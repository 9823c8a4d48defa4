-- Store one message that is due at once and needs neither a slot of a key nor a unique text: what most sends are, at half
-- the price. Answers as publish_1, which has the last word on everything that is not plain.
CREATE FUNCTION post_1(
  p_call bigint, p_name text, p_id text, p_prio int, p_record bytea, p_key text, p_expires_in float8, p_expires_at float8,
  p_ttl float8, p_grp text, OUT o_at int[], OUT o_holder text[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_seq bigint;
  t record;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  SELECT x.id, x.expires_in, x.payload_max INTO t FROM queue q CROSS JOIN topic x
    WHERE x.name = p_name AND x.adm_lim IS NULL AND NOT q.reject AND q.max_waiting IS NULL;
  IF FOUND AND p_prio = 5 AND octet_length(p_record) <= t.payload_max THEN
    INSERT INTO msg (seq, id, topic, prio, call, key, ttl, grp, expires, record)
      VALUES (nextval('seq'), p_id, t.id, p_prio::smallint, p_call, p_key, p_ttl, p_grp,
        CASE WHEN p_expires_at IS NOT NULL THEN least(to_timestamp(p_expires_at), v_now + p_expires_in * interval '1 s')
             ELSE v_now + coalesce(p_expires_in, t.expires_in) * interval '1 s' END, p_record)
      ON CONFLICT (id) DO NOTHING RETURNING seq INTO v_seq;
    -- asked after: had it been before, the first one of this id could have ended in between
    IF v_seq IS NOT NULL AND EXISTS (SELECT 1 FROM final f WHERE f.id = p_id AND f.until > v_now) THEN
      DELETE FROM msg WHERE seq = v_seq;
      v_seq := NULL;
    END IF;
  END IF;
  IF v_seq IS NULL THEN
    SELECT x.o_at, x.o_holder INTO o_at, o_holder FROM publish_1(p_call, ARRAY[p_name], ARRAY[1], ARRAY[p_id], ARRAY[p_prio::smallint],
      ARRAY[p_record], ARRAY[p_key], NULL, NULL, ARRAY[p_expires_in], ARRAY[p_expires_at], NULL, NULL, ARRAY[p_ttl], ARRAY[p_grp],
      '{}') x;
    RETURN;
  END IF;
  INSERT INTO ready (lane, seq, since) VALUES ((t.id << 4) | (9 - p_prio), v_seq, v_now);
  INSERT INTO delta (topic, ready, enq) VALUES (t.id, 1, 1);
  IF EXISTS (SELECT 1 FROM idle) THEN
    PERFORM wake_1(ARRAY[t.id], 1);
  END IF;
END $$;
