-- Let the best of those of a key that wait be the ones in ready: where a better one is parked behind one in ready, they change
-- places. One pair of topic and key an element.
CREATE FUNCTION exchange_1(p_topics int[], p_adms text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_key record;
  v_best parked;
  v_worst ready;
BEGIN
  IF p_adms IS NULL OR NOT EXISTS (SELECT 1 FROM parked) THEN
    RETURN;
  END IF;
  FOR v_key IN SELECT k.*, t.sticky FROM (SELECT DISTINCT topic, adm COLLATE "C" AS adm FROM unnest(p_topics, p_adms) x(topic, adm) ORDER BY 1, 2) x
      CROSS JOIN LATERAL (SELECT s.topic, s.adm FROM keystate s WHERE s.topic = x.topic AND s.adm = x.adm FOR UPDATE) k
      JOIN topic t ON t.id = k.topic LOOP
    LOOP
      SELECT * INTO v_best FROM parked WHERE topic = v_key.topic AND adm = v_key.adm ORDER BY topic, adm, rank, seq LIMIT 1;
      EXIT WHEN NOT FOUND;
      SELECT * INTO v_worst FROM ready WHERE adm = v_key.adm AND lane BETWEEN v_key.topic << 4 AND (v_key.topic << 4) | 15
          AND NOT (v_key.sticky AND failures + losses + interruptions > 0)  -- one that has started keeps its place
        ORDER BY adm DESC, lane DESC, seq DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
      EXIT WHEN NOT FOUND OR (v_worst.lane & 15, v_worst.seq) < (v_best.rank::int, v_best.seq);
      DELETE FROM ready WHERE lane = v_worst.lane AND seq = v_worst.seq;
      DELETE FROM parked WHERE topic = v_key.topic AND adm = v_key.adm AND rank = v_best.rank AND seq = v_best.seq;
      -- since the slot is free: it is better than one that stood there, so it came later, or that one comes from a worker
      INSERT INTO ready VALUES ((v_key.topic << 4) | v_best.rank, v_best.seq, greatest(v_best.since, v_worst.since), v_best.failures, v_best.losses,
        v_best.interruptions, v_key.adm, v_best.failure, v_best.progress);
      INSERT INTO parked VALUES (v_key.topic, v_key.adm, v_worst.lane & 15, v_worst.seq, v_worst.since, v_worst.failures,
        v_worst.losses, v_worst.interruptions, v_worst.failure, v_worst.progress);
    END LOOP;
  END LOOP;
END $$;

-- The same for what came back from workers into ready with its slot. Of what ran when a limit sank, or an order came, more may
-- come back than their key has slots by now: these are parked.
CREATE FUNCTION returned_1(p_topics int[], p_adms text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_key record;
BEGIN
  IF p_adms IS NULL THEN
    RETURN;
  END IF;
  FOR v_key IN SELECT k.*, t.sticky, t.adm_lim
      FROM (SELECT DISTINCT topic, adm COLLATE "C" AS adm FROM unnest(p_topics, p_adms) x(topic, adm) ORDER BY 1, 2) x
      JOIN topic t ON t.id = x.topic CROSS JOIN LATERAL (
        SELECT s.topic, s.adm, s.n FROM keystate s WHERE s.topic = x.topic AND s.adm = x.adm AND s.n > t.adm_lim FOR UPDATE) k LOOP
    WITH r AS (DELETE FROM ready WHERE ctid = ANY (array(
        SELECT y.ctid FROM ready y WHERE y.adm = v_key.adm AND y.lane BETWEEN v_key.topic << 4 AND (v_key.topic << 4) | 15
          ORDER BY v_key.sticky AND y.failures + y.losses + y.interruptions > 0, y.lane DESC, y.seq DESC
          LIMIT v_key.n - v_key.adm_lim FOR UPDATE SKIP LOCKED)) RETURNING *),
    p AS (INSERT INTO parked SELECT v_key.topic, adm, lane & 15, seq, since, failures, losses, interruptions, failure, progress FROM r),
    u AS (UPDATE keystate SET n = n - (SELECT count(*) FROM r) WHERE topic = v_key.topic AND adm = v_key.adm)
    INSERT INTO delta (topic, ready, parked) SELECT v_key.topic, -count(*), count(*) FROM r HAVING count(*) > 0;
  END LOOP;
  PERFORM exchange_1(p_topics, p_adms);
END $$;
