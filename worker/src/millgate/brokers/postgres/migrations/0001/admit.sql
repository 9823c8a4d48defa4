-- Let due messages of keys into ready, or park them when their key has no free slot. Among those of a key that wait, the
-- best (priority, then order of publication) are the ones in ready. Every way into ready but a kept slot comes here.
CREATE FUNCTION admit_1(p_rows work[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_key record;
  v_best parked;
  v_worst ready;
BEGIN
  PERFORM keys_1(array_agg(w.topic), array_agg(w.adm)) FROM unnest(p_rows) w;
  WITH x AS MATERIALIZED (
    SELECT w.*, row_number() OVER (PARTITION BY w.topic, w.adm ORDER BY w.prio DESC, w.seq) <= t.adm_lim - k.n AS free
      FROM unnest(p_rows) w JOIN topic t ON t.id = w.topic JOIN keystate k ON k.topic = w.topic AND k.adm = w.adm),
  u AS (UPDATE keystate s SET n = s.n + c.n
    FROM (SELECT topic, adm, count(*)::int AS n FROM x WHERE free GROUP BY topic, adm) c WHERE s.topic = c.topic AND s.adm = c.adm),
  r AS (INSERT INTO ready SELECT (topic << 4) | (9 - prio), seq, since, failures, losses, interruptions, adm, failure, progress
    FROM x WHERE free),
  p AS (INSERT INTO parked SELECT topic, adm, 9 - prio, seq, since, failures, losses, interruptions, failure, progress
    FROM x WHERE NOT free)
  INSERT INTO delta (topic, ready, parked)
    SELECT topic, count(*) FILTER (WHERE free), count(*) FILTER (WHERE NOT free) FROM x GROUP BY topic;
  FOR v_key IN SELECT DISTINCT w.topic, w.adm, t.sticky FROM unnest(p_rows) w JOIN topic t ON t.id = w.topic
      ORDER BY w.topic, w.adm LOOP
    LOOP  -- a better one may have been parked behind one in ready: they change places
      SELECT * INTO v_best FROM parked WHERE topic = v_key.topic AND adm = v_key.adm ORDER BY topic, adm, rank, seq LIMIT 1;
      EXIT WHEN NOT FOUND;
      SELECT * INTO v_worst FROM ready WHERE adm = v_key.adm AND lane BETWEEN v_key.topic << 4 AND (v_key.topic << 4) | 15
          AND NOT (v_key.sticky AND failures + losses + interruptions > 0)  -- one that has started keeps its place
        ORDER BY adm DESC, lane DESC, seq DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
      EXIT WHEN NOT FOUND OR (v_worst.lane & 15, v_worst.seq) < (v_best.rank::int, v_best.seq);
      DELETE FROM ready WHERE lane = v_worst.lane AND seq = v_worst.seq;
      DELETE FROM parked WHERE topic = v_key.topic AND adm = v_key.adm AND rank = v_best.rank AND seq = v_best.seq;
      INSERT INTO ready VALUES ((v_key.topic << 4) | v_best.rank, v_best.seq, v_best.since, v_best.failures, v_best.losses,
        v_best.interruptions, v_key.adm, v_best.failure, v_best.progress);
      INSERT INTO parked VALUES (v_key.topic, v_key.adm, v_worst.lane & 15, v_worst.seq, v_worst.since, v_worst.failures,
        v_worst.losses, v_worst.interruptions, v_worst.failure, v_worst.progress);
    END LOOP;
  END LOOP;
END $$;
