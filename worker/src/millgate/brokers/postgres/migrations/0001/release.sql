-- Slots of keys are free (one for each element): the next parked messages of these keys take them, or the count sinks.
CREATE FUNCTION release_1(p_topics int[], p_adms text[], p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_adms IS NULL OR cardinality(p_adms) = 0 THEN
    RETURN;
  END IF;
  PERFORM 1 FROM keystate s JOIN (SELECT DISTINCT x.topic, x.adm FROM unnest(p_topics, p_adms) x(topic, adm)) f
    ON (s.topic, s.adm) BETWEEN (f.topic, f.adm) AND (f.topic, f.adm) ORDER BY f.topic, f.adm FOR UPDATE OF s;
  WITH f AS MATERIALIZED (
    SELECT x.topic, x.adm, count(*)::int AS n FROM unnest(p_topics, p_adms) x(topic, adm) GROUP BY x.topic, x.adm),
  g AS MATERIALIZED (
    SELECT f.topic, f.adm, f.n, q.at FROM f JOIN keystate s
        ON (s.topic, s.adm) BETWEEN (f.topic, f.adm) AND (f.topic, f.adm) JOIN topic t ON t.id = f.topic
      CROSS JOIN LATERAL (SELECT array(SELECT p.ctid FROM parked p WHERE p.topic = f.topic AND p.adm = f.adm
        ORDER BY p.topic, p.adm, p.rank, p.seq LIMIT greatest(0, coalesce(t.adm_lim, 2000000000) - s.n + f.n)) AS at) q),
  d AS (DELETE FROM parked WHERE ctid = ANY (array(SELECT unnest(at) FROM g)) RETURNING *),
  r AS (INSERT INTO ready SELECT (topic << 4) | rank, seq, p_now, failures, losses, interruptions, adm, failure, progress FROM d),
  u AS (UPDATE keystate s SET n = s.n - g.n + cardinality(g.at) FROM g
    WHERE (s.topic, s.adm) BETWEEN (g.topic, g.adm) AND (g.topic, g.adm) AND g.n <> cardinality(g.at))
  INSERT INTO delta (topic, ready, parked) SELECT topic, count(*), -count(*) FROM d GROUP BY topic;
  DELETE FROM keystate s USING (SELECT DISTINCT x.topic, x.adm FROM unnest(p_topics, p_adms) x(topic, adm)) f
    WHERE (s.topic, s.adm) BETWEEN (f.topic, f.adm) AND (f.topic, f.adm) AND s.n <= 0;
END $$;
