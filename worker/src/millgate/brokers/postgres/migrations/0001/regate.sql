-- New gates for what waits: a topic whose key limit or order changed lets all of it pass again, in steps, shut meanwhile.
-- First everything is taken out of ready and from behind the old keys, and parked behind the empty key, which no message
-- has; whoever comes is parked there too, since the topic acts like one strict order without a slot (shut = 1). Then the new
-- gates stand. What has started takes the slots that it would hold (2), and the rest passes in order (3).

-- Begin. Only while no other verb runs.
CREATE FUNCTION shut_1(p_topic int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE topic SET shut = 1, fifo = true, sticky = false, adm_lim = 0 WHERE id = p_topic;
  UPDATE lease SET adm = NULL WHERE topic = p_topic AND adm IS NOT NULL;
  UPDATE delayed SET adm = NULL WHERE topic = p_topic AND adm IS NOT NULL;
  DELETE FROM keystate WHERE topic = p_topic;
END $$;

-- How many wait in a topic; `p_most` when it is that many or more.
CREATE FUNCTION waiting_1(p_topic int, p_most int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  RETURN least(p_most, (SELECT count(*) FROM (SELECT 1 FROM ready WHERE lane BETWEEN p_topic << 4 AND (p_topic << 4) | 15 LIMIT p_most) a)
    + (SELECT count(*) FROM (SELECT 1 FROM parked WHERE topic = p_topic LIMIT p_most) b));
END $$;

-- Steps of all topics that are shut, as verbs take them: others run between two. Answers whether there is more to do.
CREATE FUNCTION regate_1(p_most int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_topic int;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM topic WHERE shut > 0) THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(gate_1(1));
  v_topic := (SELECT id FROM topic WHERE shut > 0 ORDER BY id LIMIT 1);
  IF v_topic IS NOT NULL THEN
    PERFORM pass_1(v_topic, p_most);
  END IF;
  RETURN EXISTS (SELECT 1 FROM topic WHERE shut > 0);
END $$;

-- One step of one topic, of at most so many messages; false: it is open again. Only while no other verb runs.
CREATE FUNCTION pass_1(p_topic int, p_most int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  t topic;
  v_count int;
BEGIN
  SELECT * INTO t FROM topic WHERE id = p_topic;
  IF t.shut = 1 THEN
    IF takeout_1(p_topic, p_most) = 0 THEN
      PERFORM stand_1(p_topic);
    END IF;
  ELSIF t.shut = 2 THEN
    IF NOT t.sticky OR resume_1(t, p_most) = 0 THEN
      UPDATE topic SET shut = 3 WHERE id = p_topic;
    END IF;
  ELSIF t.shut = 3 THEN
    v_count := letin_1(t, CASE WHEN t.fifo THEN 1 ELSE p_most END);
    IF v_count = 0 OR t.fifo THEN  -- behind a strict order's only slot the others are where they belong
      UPDATE topic SET shut = 0 WHERE id = p_topic;
      PERFORM wake_1(ARRAY[p_topic], 1000000);
    END IF;
  END IF;
  RETURN EXISTS (SELECT 1 FROM topic WHERE id = p_topic AND shut > 0);
END $$;

-- Park a batch behind the empty key; how many. What a key held back could not have run before: its age begins.
CREATE FUNCTION takeout_1(p_topic int, p_most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_count int;
BEGIN
  WITH r AS (DELETE FROM ready WHERE ctid = ANY (array(
      SELECT x.ctid FROM ready x WHERE x.lane BETWEEN p_topic << 4 AND (p_topic << 4) | 15 ORDER BY x.lane, x.seq LIMIT p_most)) RETURNING *),
  p AS (DELETE FROM parked WHERE ctid = ANY (array(
      SELECT x.ctid FROM parked x WHERE x.topic = p_topic AND x.adm > '' ORDER BY x.topic, x.adm LIMIT p_most)) RETURNING *),
  a AS (INSERT INTO parked
      SELECT p_topic, '', lane & 15, seq, since, failures, losses, interruptions, failure, progress FROM r
      UNION ALL SELECT p_topic, '', rank, seq, clock_timestamp(), failures, losses, interruptions, failure, progress FROM p RETURNING 1),
  c AS (INSERT INTO delta (topic, ready, parked) SELECT p_topic, -count(*), count(*) FROM r HAVING count(*) > 0)
  SELECT count(*) INTO v_count FROM a;
  RETURN v_count;
END $$;

-- Set up the gates of the policy in force, with the slots that are held by what runs, and of a key of which nothing runs by
-- the best of its delayed retries.
CREATE FUNCTION stand_1(p_topic int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  t topic;
BEGIN
  PERFORM obey_1(ARRAY[p_topic]);
  UPDATE topic SET shut = 2 WHERE id = p_topic RETURNING * INTO t;
  DELETE FROM keystate WHERE topic = p_topic;
  UPDATE lease l SET adm = CASE WHEN t.fifo THEN '' WHEN t.adm_lim IS NOT NULL THEN m.key END
    FROM msg m WHERE l.topic = p_topic AND m.seq = l.seq;
  INSERT INTO keystate SELECT p_topic, adm, count(*)::int FROM lease WHERE topic = p_topic AND adm IS NOT NULL GROUP BY adm;
  WITH x AS MATERIALIZED (
    SELECT DISTINCT ON (y.gate) y.seq, y.gate FROM (
        SELECT d.seq, d.prio, CASE WHEN t.fifo THEN '' ELSE m.key END AS gate FROM delayed d JOIN msg m ON m.seq BETWEEN d.seq AND d.seq
         WHERE t.sticky AND d.topic = p_topic AND d.failures + d.losses + d.interruptions > 0) y
     WHERE y.gate IS NOT NULL AND (SELECT s.n FROM keystate s WHERE s.topic = p_topic AND s.adm = y.gate) IS NULL
     ORDER BY y.gate, y.prio DESC, y.seq),
  u AS (UPDATE delayed d SET adm = x.gate FROM x WHERE d.seq BETWEEN x.seq AND x.seq)
  INSERT INTO keystate SELECT p_topic, gate, 1 FROM x;
END $$;

-- Let the best of a key's due retries wait in the slot that it keeps, of a batch of keys that have no other; how many.
CREATE FUNCTION resume_1(t topic, p_most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_count int;
BEGIN
  WITH s AS MATERIALIZED (
    SELECT y.* FROM (
        SELECT p.ctid AS at, p.rank, p.seq, CASE WHEN t.fifo THEN '' ELSE m.key END AS gate FROM parked p JOIN msg m ON m.seq BETWEEN p.seq AND p.seq
         WHERE p.topic = t.id AND p.adm = '' AND p.failures + p.losses + p.interruptions > 0) y
     WHERE y.gate IS NOT NULL AND (SELECT k.n FROM keystate k WHERE k.topic = t.id AND k.adm = y.gate) IS NULL
     ORDER BY y.rank, y.seq LIMIT p_most),
  p AS (DELETE FROM parked x WHERE x.ctid = ANY (array(SELECT DISTINCT ON (s.gate) s.at FROM s ORDER BY s.gate, s.rank, s.seq)) RETURNING x.*),
  g AS MATERIALIZED (SELECT p.*, CASE WHEN t.fifo THEN '' ELSE (SELECT m.key FROM msg m WHERE m.seq = p.seq) END AS gate FROM p),
  r AS (INSERT INTO ready SELECT (t.id << 4) | rank, seq, since, failures, losses, interruptions, gate, failure, progress FROM g),
  k AS (INSERT INTO keystate AS k (topic, adm, n) SELECT t.id, gate, count(*) FROM g GROUP BY gate
    ON CONFLICT (topic, adm) DO UPDATE SET n = k.n + excluded.n),
  c AS (INSERT INTO delta (topic, ready, parked) SELECT t.id, count(*), -count(*) FROM g HAVING count(*) > 0)
  SELECT count(*) INTO v_count FROM g;
  RETURN v_count;
END $$;

-- Let a batch pass, the best first; how many.
CREATE FUNCTION letin_1(t topic, p_most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_rows work[];
BEGIN
  WITH p AS (DELETE FROM parked WHERE ctid = ANY (array(
      SELECT x.ctid FROM parked x WHERE x.topic = t.id AND x.adm = '' ORDER BY x.topic, x.adm, x.rank, x.seq LIMIT p_most)) RETURNING *),
  c AS (INSERT INTO delta (topic, parked) SELECT t.id, -count(*) FROM p HAVING count(*) > 0)
  SELECT array_agg(ROW (p.seq, t.id, 9 - p.rank, CASE WHEN t.fifo THEN ''
      WHEN t.adm_lim IS NOT NULL THEN (SELECT m.key FROM msg m WHERE m.seq = p.seq) END, p.since, p.failures, p.losses, p.interruptions,
      p.failure, p.progress)::work ORDER BY p.rank, p.seq) INTO v_rows FROM p;
  IF v_rows IS NOT NULL THEN
    PERFORM enter_1(v_rows);
  END IF;
  RETURN coalesce(cardinality(v_rows), 0);
END $$;
