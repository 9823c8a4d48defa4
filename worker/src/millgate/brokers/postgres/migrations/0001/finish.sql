-- Messages have ended, not well: 2 buried, 3 cancelled. They are in no place any more when this is called; the counters
-- of the place that they left are the caller's. Frees their unique texts and key slots, remembers the end, tells groups.
CREATE FUNCTION finish_1(p_rows over[], p_state smallint, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[];
  v_topics int[];
BEGIN
  IF p_rows IS NULL OR cardinality(p_rows) = 0 THEN
    RETURN;
  END IF;
  WITH e AS MATERIALIZED (
    SELECT r.*, m.id, m.ukey, m.call, greatest(60, coalesce(r.ttl, m.ttl, t.result_ttl)) AS keep,
        t.dead AS fate, p_state = 2 AND t.dead <> 1 AS kept
      FROM unnest(p_rows) r JOIN msg m ON m.seq BETWEEN r.seq AND r.seq JOIN topic t ON t.id = r.topic),
  f AS (
    INSERT INTO final (id, state, topic, until, shown, call, attempt, reason, failure, progress)
      SELECT id, p_state, topic, p_now + keep * interval '1 s', p_now + keep * interval '1 s', call, attempt,
          coalesce(reason, ''), failure, progress FROM e
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, topic = excluded.topic, until = excluded.until,
        shown = excluded.shown, call = excluded.call, attempt = excluded.attempt, reason = excluded.reason,
        body = NULL, failure = excluded.failure, progress = excluded.progress),
  d AS (
    INSERT INTO dead (seq, topic, died, reason, attempt, failures, losses, interruptions, worker, forward, failure, progress)
      SELECT seq, topic, p_now, reason, attempt, failures, losses, interruptions, coalesce(worker, ''), fate = 2, failure,
          progress FROM e WHERE kept),
  g AS (DELETE FROM msg USING e WHERE msg.seq BETWEEN e.seq AND e.seq AND NOT e.kept),
  u AS (DELETE FROM uniq USING e WHERE uniq.ukey BETWEEN e.ukey AND e.ukey AND uniq.id = e.id AND uniq.until IS NULL),
  c AS (INSERT INTO delta (topic, dead, failed) SELECT topic, count(*) FILTER (WHERE kept), count(*) FROM e GROUP BY topic)
  SELECT array_agg(id), array_agg(DISTINCT topic) FILTER (WHERE kept) INTO v_ids, v_topics FROM e;
  PERFORM release_1(array_agg(r.topic), array_agg(r.adm), p_now) FROM unnest(p_rows) r WHERE r.adm IS NOT NULL;
  PERFORM told_1(v_ids, false, p_now);
  PERFORM tell_1(v_ids);
  IF v_topics IS NOT NULL THEN
    PERFORM bound_1(v_topics);
  END IF;
END $$;

-- Forget the oldest dead letters of topics that have more than they may.
CREATE FUNCTION bound_1(p_topics int[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  t record;
  v_all int := 0;
BEGIN
  FOR t IN
    SELECT x.topic, (sum(x.dead) - o.dead_max)::int AS excess
      FROM (SELECT c.topic, c.dead FROM counter c WHERE c.topic = ANY (p_topics)
            UNION ALL SELECT d.topic, d.dead FROM delta d WHERE d.topic = ANY (p_topics)) x
      JOIN topic o ON o.id = x.topic AND o.dead_max > 0
     GROUP BY x.topic, o.dead_max HAVING sum(x.dead) > o.dead_max ORDER BY x.topic
  LOOP
    v_all := v_all + bury_1(array(SELECT d.seq FROM dead d WHERE d.topic = t.topic AND NOT d.forward
      ORDER BY d.topic, d.no LIMIT t.excess FOR UPDATE SKIP LOCKED), true);
  END LOOP;
  RETURN v_all;
END $$;

-- Forget these dead letters; what is known of their end stays as long as it would. `p_bound`: by their topic's bounds, which is
-- counted. Answers how many there were.
CREATE FUNCTION bury_1(p_seqs bigint[], p_bound boolean DEFAULT false) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_count int;
  v_ids text[];
BEGIN
  WITH d AS (DELETE FROM dead WHERE seq = ANY (p_seqs) RETURNING seq, topic),
  m AS (DELETE FROM msg USING d WHERE msg.seq BETWEEN d.seq AND d.seq RETURNING msg.id),
  c AS (INSERT INTO delta (topic, dead, dropped) SELECT topic, -count(*), CASE WHEN p_bound THEN count(*) ELSE 0 END FROM d GROUP BY topic)
  SELECT count(*)::int, array_agg(id) INTO v_count, v_ids FROM m;
  IF v_count > 0 AND EXISTS (SELECT 1 FROM grp) THEN  -- a callback that nobody can replay any more: its group is over
    WITH g AS (DELETE FROM grp WHERE buried AND (callback).id = ANY (v_ids) RETURNING id)
    DELETE FROM watch USING g WHERE watch.grp = g.id;
  END IF;
  RETURN v_count;
END $$;
