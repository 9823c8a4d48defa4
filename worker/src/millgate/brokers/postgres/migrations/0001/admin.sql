-- Remove what has not started, mark what runs. One word for each id, in order.
CREATE FUNCTION cancel_1(p_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_left bigint[];
  v_marked bigint[];
  v_ended over[];
  v_signalled bigint[] := '{}';
  v_removed text[] := '{}';
  v_signals text[];
  v_known text[];              -- a callback that the end of one brings about was not there to be cancelled
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  v_known := array(SELECT i FROM unnest(p_ids) i WHERE (SELECT true FROM msg m WHERE m.id = i)
    OR (SELECT f.until FROM final f WHERE f.id = i) > v_now);
  v_left := array(SELECT m.seq FROM msg m WHERE m.id = ANY (p_ids) AND (SELECT d.seq FROM dead d WHERE d.seq = m.seq) IS NULL
    AND NOT ended_1(m.seq, m.topic, m.prio));
  FOR try IN 1 .. 20 LOOP  -- one may be on its way from a place to the next
    EXIT WHEN cardinality(v_left) = 0;
    WITH l AS (UPDATE lease SET cancelled = true WHERE seq = ANY (array(
      SELECT seq FROM lease WHERE seq = ANY (v_left) AND until > v_now ORDER BY seq FOR UPDATE SKIP LOCKED)) RETURNING seq)
    SELECT array_agg(seq) INTO v_marked FROM l;
    v_signalled := v_signalled || v_marked;
    IF try = 1 THEN
      PERFORM ahead_1(v_left);
    END IF;
    v_ended := v_ended || pull_1(array(SELECT s FROM unnest(v_left) s WHERE NOT s = ANY (v_signalled)), NULL, NULL);
    v_left := array(SELECT m.seq FROM msg m WHERE m.seq = ANY (v_left) AND NOT m.seq = ANY (v_signalled)
      AND NOT EXISTS (SELECT 1 FROM unnest(v_ended) e WHERE e.seq = m.seq)
      AND (SELECT d.seq FROM dead d WHERE d.seq = m.seq) IS NULL AND NOT ended_1(m.seq, m.topic, m.prio));
    IF cardinality(v_left) > 0 THEN
      PERFORM pg_sleep(0.002);
    END IF;
  END LOOP;
  v_signals := array(SELECT m.id FROM msg m WHERE m.seq = ANY (v_signalled));
  IF cardinality(v_left) > 0 THEN
    RAISE EXCEPTION 'a message is being moved; try again' USING ERRCODE = '40001';
  END IF;
  IF cardinality(v_ended) > 0 THEN
    v_removed := array(SELECT m.id FROM unnest(v_ended) e JOIN msg m ON m.seq BETWEEN e.seq AND e.seq);
    PERFORM finish_1(v_ended, 3::smallint, v_now);
    PERFORM unstock_1();
  END IF;
  RETURN array(SELECT CASE WHEN i.id = ANY (v_removed) AND array_position(p_ids, i.id) = i.n THEN 'removed' WHEN i.id = ANY (v_signals) THEN 'signalled'
      WHEN i.id = ANY (v_known) THEN 'finished' ELSE 'unknown' END
    FROM unnest(p_ids) WITH ORDINALITY i(id, n) ORDER BY i.n);
END $$;

-- Take running messages from their holders; answers the ids of those that were running.
CREATE FUNCTION requeue_1(p_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_seqs bigint[];
  v_names text[];
  v_back bigint[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  -- named before: what was to be cancelled has ended afterwards
  SELECT coalesce(array_agg(m.seq ORDER BY m.seq), '{}'), array_agg(m.id ORDER BY m.seq) INTO v_seqs, v_names
    FROM msg m WHERE m.id = ANY (p_ids);
  v_back := putback_1(v_seqs, clock_timestamp());
  RETURN array(SELECT x.name FROM unnest(v_seqs, v_names) x(seq, name) WHERE x.seq = ANY (v_back));
END $$;

-- Remove a batch of a topic's waiting or delayed messages, from the back, so that nobody moves up; answers how many.
-- `p_upto` is what the first batch answered: what was published since then (callbacks that the purge brings about) stays.
CREATE FUNCTION purge_1(
  p_topic text, p_waiting boolean, p_delayed boolean, p_most int, p_upto bigint, OUT o_count int, OUT o_upto bigint
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  t record;
  v_seqs bigint[] := '{}';
  v_ended over[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  o_count := 0;
  o_upto := coalesce(p_upto, (SELECT last_value + 1023 FROM seq));
  SELECT id, prios INTO t FROM topic WHERE name = p_topic;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF p_waiting THEN
    v_seqs := array(SELECT p.seq FROM parked p WHERE p.topic = t.id AND p.seq <= o_upto ORDER BY p.topic DESC, p.adm DESC, p.rank DESC, p.seq DESC LIMIT p_most);
    IF cardinality(v_seqs) = 0 THEN
      v_seqs := array(SELECT x.seq FROM unnest(t.prios) p(prio) CROSS JOIN LATERAL (SELECT r.seq FROM ready r
        WHERE r.lane = (t.id << 4) | (9 - p.prio) AND r.seq <= o_upto ORDER BY r.lane DESC, r.seq DESC LIMIT p_most) x LIMIT p_most);
    END IF;
  END IF;
  IF p_delayed AND cardinality(v_seqs) < p_most THEN
    v_seqs := v_seqs || array(SELECT d.seq FROM delayed d WHERE d.topic = t.id AND d.seq <= o_upto LIMIT p_most - cardinality(v_seqs));
  END IF;
  PERFORM ahead_1(v_seqs);
  v_ended := pull_1(v_seqs, NULL, 60);
  IF cardinality(v_ended) > 0 THEN
    PERFORM finish_1(v_ended, 3::smallint, v_now);
    PERFORM unstock_1();
  END IF;
  o_count := cardinality(v_ended);
END $$;

-- Stop or resume a topic by hand. No other verb runs meanwhile: a claim that has looked already would follow a pause.
CREATE FUNCTION pause_1(p_topic text, p_held boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids int[];
BEGIN
  PERFORM pg_advisory_xact_lock(gate_1(1));
  v_ids := topics_1(ARRAY[p_topic]);  -- a statement of its own: the next one sees a new topic
  UPDATE topic SET held = p_held WHERE id = v_ids[1];
  PERFORM wake_1(NULL, 1000000);
END $$;
