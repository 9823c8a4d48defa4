-- Remove what has not started, mark what runs. One word for each id, in order.
CREATE FUNCTION cancel_1(p_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_seq bigint;
  v_ended ended[];
  v_words text[] := '{}';
  v_word text;
  i text;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  PERFORM upkeep_1(v_now);
  FOREACH i IN ARRAY p_ids LOOP
    v_word := NULL;
    FOR try IN 1 .. 5 LOOP  -- it may move between two looks, each of which sees one place only
      SELECT seq INTO v_seq FROM msg WHERE id = i;
      IF NOT FOUND THEN
        v_word := CASE WHEN EXISTS (SELECT 1 FROM final WHERE id = i AND until > v_now) THEN 'finished' ELSE 'unknown' END;
        EXIT;
      END IF;
      UPDATE lease SET cancelled = true WHERE seq = v_seq;
      IF FOUND THEN
        v_word := 'signalled';
        EXIT;
      END IF;
      v_ended := pull_1(ARRAY[v_seq], NULL, NULL);
      IF cardinality(v_ended) > 0 THEN
        PERFORM finish_1(v_ended, 3::smallint, v_now);
        v_word := 'removed';
        EXIT;
      END IF;
      IF EXISTS (SELECT 1 FROM dead WHERE seq = v_seq) THEN
        v_word := 'finished';
        EXIT;
      END IF;
    END LOOP;
    v_words := v_words || coalesce(v_word, 'unknown');
  END LOOP;
  RETURN v_words;
END $$;

-- Take running messages from their holders; answers the ids of those that were running.
CREATE FUNCTION requeue_1(p_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_seqs bigint[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  PERFORM upkeep_1(clock_timestamp());
  v_seqs := putback_1(array(SELECT m.seq FROM msg m WHERE m.id = ANY (p_ids) ORDER BY m.seq), clock_timestamp());
  RETURN array(SELECT m.id FROM msg m WHERE m.seq = ANY (v_seqs)
    UNION ALL SELECT f.id FROM final f WHERE f.id = ANY (p_ids) AND f.until > clock_timestamp() AND f.state = 3 AND EXISTS (
      SELECT 1 FROM unnest(v_seqs) s WHERE NOT EXISTS (SELECT 1 FROM msg m WHERE m.seq = s)));
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
  v_ended ended[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  PERFORM upkeep_1(v_now);
  o_count := 0;
  o_upto := coalesce(p_upto, (SELECT last_value FROM seq));
  SELECT id, prios INTO t FROM topic WHERE name = p_topic;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF p_waiting THEN
    v_seqs := array(SELECT p.seq FROM parked p WHERE p.topic = t.id AND p.seq <= o_upto ORDER BY p.topic DESC, p.adm DESC, p.rank DESC, p.seq DESC LIMIT p_most);
    IF cardinality(v_seqs) = 0 THEN
      v_seqs := array(SELECT x.seq FROM unnest(t.prios) p(prio) CROSS JOIN LATERAL (SELECT r.seq FROM ready r
        WHERE r.lane = (t.id << 4) | (9 - p.prio) AND r.seq <= o_upto ORDER BY r.lane DESC, r.seq DESC LIMIT p_most FOR UPDATE SKIP LOCKED) x LIMIT p_most);
    END IF;
  END IF;
  IF p_delayed AND cardinality(v_seqs) < p_most THEN
    v_seqs := v_seqs || array(SELECT d.seq FROM delayed d WHERE d.topic = t.id AND d.seq <= o_upto LIMIT p_most - cardinality(v_seqs) FOR UPDATE SKIP LOCKED);
  END IF;
  v_ended := pull_1(v_seqs, NULL, 60);
  PERFORM finish_1(v_ended, 3::smallint, v_now);
  o_count := cardinality(v_ended);
END $$;

-- Stop or resume a topic by hand.
CREATE FUNCTION pause_1(p_topic text, p_held boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids int[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_ids := topics_1(ARRAY[p_topic]);  -- a statement of its own: the next one sees a new topic
  UPDATE topic SET held = p_held WHERE id = v_ids[1];
  PERFORM wake_1(NULL, 1000000);
END $$;
