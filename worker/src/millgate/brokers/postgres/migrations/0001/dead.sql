-- Dead letters, newest first, from behind `p_after`; or the one of an id.
CREATE FUNCTION dead_1(
  p_topic text, p_limit int, p_after text, p_id text, OUT o_id text, OUT o_topic text, OUT o_reason text, OUT o_died float8,
  OUT o_attempt int, OUT o_failures int, OUT o_losses int, OUT o_interruptions int, OUT o_worker text,
  OUT o_failure bytea, OUT o_prio smallint, OUT o_key text, OUT o_ukey text, OUT o_ttl float8, OUT o_grp text, OUT o_record bytea
) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
  v_topic int;
  v_after bigint;
BEGIN
  PERFORM upkeep_1();
  PERFORM age_1(clock_timestamp());
  IF p_id IS NOT NULL THEN
    v_after := (SELECT d.no + 1 FROM msg m JOIN dead d ON d.seq = m.seq WHERE m.id = p_id);
    IF v_after IS NULL THEN
      RETURN;
    END IF;
    p_limit := 1;
  ELSIF p_after IS NOT NULL THEN
    v_after := (SELECT d.no FROM msg m JOIN dead d ON d.seq = m.seq WHERE m.id = p_after);
  END IF;
  v_after := coalesce(v_after, 9223372036854775807);
  v_topic := (SELECT id FROM topic WHERE name = p_topic);
  RETURN QUERY
    SELECT m.id, t.name, d.reason, date_part('epoch', d.died)::float8, d.attempt, d.failures, d.losses, d.interruptions, d.worker,
        d.failure, m.prio, m.key, m.ukey, m.ttl, m.grp, m.record
      FROM (
        SELECT * FROM (SELECT * FROM dead x WHERE p_topic IS NULL AND x.no < v_after ORDER BY x.no DESC LIMIT p_limit) a
        UNION ALL
        SELECT * FROM (SELECT * FROM dead x WHERE p_topic IS NOT NULL AND x.topic = v_topic AND x.no < v_after
          ORDER BY x.topic DESC, x.no DESC LIMIT p_limit) b) d
      JOIN msg m ON m.seq BETWEEN d.seq AND d.seq JOIN topic t ON t.id = d.topic ORDER BY d.no DESC;
END $$;

-- Let dead letters wait again under their ids, counts at zero, in a new place of the order; answers those that were there.
CREATE FUNCTION replay_1(p_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_seq bigint;
  v_done text[] := '{}';
  v_rows work[];
  d record;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  PERFORM 1 FROM dead x JOIN msg m ON m.seq = x.seq WHERE m.id = ANY (p_ids) ORDER BY x.seq FOR UPDATE OF x;
  PERFORM 1 FROM uniq u WHERE u.ukey IN (SELECT m.ukey FROM msg m WHERE m.id = ANY (p_ids)) ORDER BY u.ukey FOR UPDATE;
  FOR d IN SELECT m.* FROM unnest(p_ids) WITH ORDINALITY i(id, n) JOIN msg m ON m.id BETWEEN i.id AND i.id ORDER BY i.n LOOP
    DELETE FROM dead WHERE seq = d.seq;
    CONTINUE WHEN NOT FOUND;
    INSERT INTO delta (topic, dead, enq) VALUES (d.topic, -1, 1);
    DELETE FROM final WHERE id = d.id;
    WITH g AS (DELETE FROM grp WHERE buried AND (callback).id = d.id RETURNING id)
    DELETE FROM watch USING g WHERE watch.grp = g.id;
    v_seq := nextval('seq');
    UPDATE msg SET seq = v_seq, expires = NULL WHERE seq = d.seq;
    IF d.ukey IS NOT NULL THEN
      INSERT INTO uniq VALUES (d.ukey, d.id, NULL)
        ON CONFLICT (ukey) DO UPDATE SET id = excluded.id, until = NULL WHERE uniq.until <= v_now;
    END IF;
    PERFORM revived_1(d.id);
    v_rows := v_rows || (SELECT ROW (v_seq, d.topic, d.prio, CASE WHEN t.fifo THEN '' WHEN t.adm_lim IS NOT NULL THEN d.key END,
      v_now, 0, 0, 0, NULL, NULL)::work FROM topic t WHERE t.id = d.topic);
    v_done := v_done || d.id;
  END LOOP;
  IF v_rows IS NOT NULL THEN
    PERFORM enter_1(v_rows);
    PERFORM unstock_1();
  END IF;
  RETURN v_done;
END $$;

-- Let due messages wait, whether a key's slot is asked for or not.
CREATE FUNCTION enter_1(p_rows work[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_gated work[] := array(SELECT w FROM unnest(p_rows) w WHERE w.adm IS NOT NULL);
BEGIN
  WITH r AS (INSERT INTO ready SELECT (topic << 4) | (9 - prio), seq, since, failures, losses, interruptions, NULL, failure, progress
    FROM unnest(p_rows) WHERE adm IS NULL RETURNING lane >> 4 AS topic)
  INSERT INTO delta (topic, ready) SELECT topic, count(*) FROM r GROUP BY topic;
  IF cardinality(v_gated) > 0 THEN
    PERFORM admit_1(v_gated);
  END IF;
  PERFORM wake_1(array(SELECT DISTINCT topic FROM unnest(p_rows)), cardinality(p_rows));
END $$;

-- Forget a batch of dead letters: those named, or all of a topic, or all.
CREATE FUNCTION purge_dead_1(p_topic text, p_ids text[], p_most int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  RETURN bury_1(array(
    SELECT d.seq FROM dead d JOIN msg m ON m.seq BETWEEN d.seq AND d.seq
     WHERE (p_topic IS NULL OR d.topic = (SELECT id FROM topic WHERE name = p_topic)) AND (p_ids IS NULL OR m.id = ANY (p_ids))
     ORDER BY d.no LIMIT p_most));
END $$;

-- Dead letters on their way to another topic.
CREATE FUNCTION forwards_1(
  p_most int, OUT o_seq bigint, OUT o_id text, OUT o_topic text, OUT o_reason text, OUT o_attempt int, OUT o_failure bytea,
  OUT o_prio smallint, OUT o_key text, OUT o_ttl float8, OUT o_record bytea, OUT o_target text
) RETURNS SETOF record LANGUAGE sql AS $$
  SELECT d.seq, m.id, t.name, d.reason, d.attempt, d.failure, m.prio, m.key, m.ttl, m.record, t.dead_topic
    FROM dead d JOIN msg m ON m.seq BETWEEN d.seq AND d.seq JOIN topic t ON t.id = d.topic WHERE d.forward ORDER BY d.seq LIMIT p_most
$$;

-- Carry one over: the copy is published and the dead letter forgotten in one step. Without a copy (nobody can read the
-- record, or the topic does not forward any more) it stays as a dead letter.
CREATE FUNCTION forward_1(p_seq bigint, p_id text, p_topic text, p_prio smallint, p_record bytea, p_key text, p_ttl float8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  PERFORM 1 FROM dead WHERE seq = p_seq AND forward FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF p_id IS NULL THEN
    UPDATE dead SET forward = false WHERE seq = p_seq;
    PERFORM bound_1(array(SELECT topic FROM dead WHERE seq = p_seq));
    RETURN;
  END IF;
  PERFORM bury_1(ARRAY[p_seq]);
  PERFORM store_1(ARRAY[ROW (p_id, p_topic, p_prio, p_record, p_key, NULL, NULL, NULL, NULL, NULL, NULL, p_ttl, NULL)::draft], 0,
    clock_timestamp());
  PERFORM unstock_1();
END $$;
