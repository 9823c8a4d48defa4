-- Let due messages of keys into ready, or park them when their key has no free slot. Among those of a key that wait, the
-- best (priority, then order of publication) are the ones in ready. Every way into ready but a kept slot comes here, or,
-- for what comes back from a worker and has its slot, to returned_1.
CREATE FUNCTION admit_1(p_rows work[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM keys_1(array_agg(w.topic), array_agg(w.adm)) FROM unnest(p_rows) w;
  WITH x AS MATERIALIZED (
    SELECT w.*, row_number() OVER (PARTITION BY w.topic, w.adm ORDER BY w.prio DESC, w.seq) <= t.adm_lim - k.n AS free
      FROM unnest(p_rows) w JOIN topic t ON t.id = w.topic
        CROSS JOIN LATERAL (SELECT s.n FROM keystate s WHERE s.topic = w.topic AND s.adm = w.adm LIMIT 1) k),
  u AS (INSERT INTO keystate AS s (topic, adm, n) SELECT topic, adm, count(*) FROM x WHERE free GROUP BY topic, adm
    ON CONFLICT (topic, adm) DO UPDATE SET n = s.n + excluded.n),
  r AS (INSERT INTO ready SELECT (topic << 4) | (9 - prio), seq, since, failures, losses, interruptions, adm, failure, progress
    FROM x WHERE free),
  p AS (INSERT INTO parked SELECT topic, adm, 9 - prio, seq, since, failures, losses, interruptions, failure, progress
    FROM x WHERE NOT free)
  INSERT INTO delta (topic, ready, parked)
    SELECT topic, count(*) FILTER (WHERE free), count(*) FILTER (WHERE NOT free) FROM x GROUP BY topic;
  PERFORM exchange_1(array(SELECT w.topic FROM unnest(p_rows) w), array(SELECT w.adm FROM unnest(p_rows) w));
END $$;
