-- Slots of keys are free (one for each element): the next parked messages of these keys take them, or the count sinks.
CREATE FUNCTION release_1(p_topics int[], p_adms text[], p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_adms IS NULL OR cardinality(p_adms) = 0 THEN
    RETURN;
  END IF;
  PERFORM lock_keys_1(p_topics, p_adms);
  WITH f AS MATERIALIZED (
    SELECT x.topic, x.adm, count(*)::int AS n FROM unnest(p_topics, p_adms) x(topic, adm) GROUP BY x.topic, x.adm),
  g AS MATERIALIZED (
    SELECT f.topic, f.adm, f.n, q.at FROM f JOIN topic t ON t.id = f.topic
      CROSS JOIN LATERAL (SELECT k.n FROM keystate k WHERE k.topic = f.topic AND k.adm = f.adm LIMIT 1) s
      CROSS JOIN LATERAL (SELECT array(SELECT p.ctid FROM parked p WHERE p.topic = f.topic AND p.adm = f.adm
        ORDER BY p.topic, p.adm, p.rank, p.seq LIMIT greatest(0, coalesce(t.adm_lim, 2000000000) - s.n + f.n)) AS at) q),
  d AS (DELETE FROM parked WHERE ctid = ANY (array(SELECT unnest(at) FROM g)) RETURNING *),
  r AS (INSERT INTO ready SELECT (topic << 4) | rank, seq, p_now, failures, losses, interruptions, adm, failure, progress FROM d),
  u AS (INSERT INTO keystate AS s (topic, adm, n) SELECT topic, adm, cardinality(at) - n FROM g WHERE n <> cardinality(at)
    ON CONFLICT (topic, adm) DO UPDATE SET n = s.n + excluded.n)
  INSERT INTO delta (topic, ready, parked) SELECT topic, count(*), -count(*) FROM d GROUP BY topic;
  DELETE FROM keystate WHERE ctid = ANY (array(
    SELECT k.ctid FROM (SELECT DISTINCT x.topic, x.adm FROM unnest(p_topics, p_adms) x(topic, adm)) f
      CROSS JOIN LATERAL (SELECT s.ctid FROM keystate s WHERE s.topic = f.topic AND s.adm = f.adm AND s.n <= 0 LIMIT 1) k));
END $$;

-- Lock those of these keys that are in use, in order.
CREATE FUNCTION lock_keys_1(p_topics int[], p_adms text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM (SELECT DISTINCT x.topic, x.adm COLLATE "C" AS adm FROM unnest(p_topics, p_adms) x(topic, adm) ORDER BY 1, 2) f
    CROSS JOIN LATERAL (SELECT 1 FROM keystate s WHERE s.topic = f.topic AND s.adm = f.adm FOR UPDATE) k;
END $$;
