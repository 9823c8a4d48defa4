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
