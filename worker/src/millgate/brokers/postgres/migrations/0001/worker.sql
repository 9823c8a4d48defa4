-- Enter the registry, or renew. Another incarnation takes the name over; the older one's claims stay until they lapse.
CREATE FUNCTION register_1(p_name text, p_inc text, p_info jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  LOOP
    UPDATE worker SET info = p_info, seen = clock_timestamp() WHERE name = p_name AND NOT gone AND inc = p_inc;
    EXIT WHEN FOUND;
    UPDATE worker SET gone = true, seen = clock_timestamp() WHERE name = p_name AND NOT gone;
    BEGIN
      -- a start that was forgotten while its leases ran on has them still
      UPDATE worker SET gone = false, fenced = NULL, info = p_info, beat = '{}', seen = clock_timestamp()
        WHERE id = (SELECT max(id) FROM worker WHERE name = p_name AND inc = p_inc);
      EXIT WHEN FOUND;
    EXCEPTION WHEN unique_violation THEN
      CONTINUE; -- another start was quicker
    END;
    INSERT INTO worker (name, inc, seen, info) VALUES (p_name, p_inc, clock_timestamp(), p_info) ON CONFLICT DO NOTHING;
    EXIT WHEN FOUND;
  END LOOP;
END $$;

-- Leave the registry; what is still held goes back, charged to nobody.
CREATE FUNCTION unregister_1(p_name text, p_inc text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_id int;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  UPDATE worker SET gone = true, seen = clock_timestamp() WHERE name = p_name AND NOT gone AND inc = p_inc RETURNING id INTO v_id;
  IF FOUND THEN
    PERFORM putback_1(array(SELECT seq FROM lease WHERE worker = v_id AND until > clock_timestamp() ORDER BY seq), clock_timestamp());
  END IF;
END $$;

-- Take running messages from their holders: they wait again in their old place, charged to nobody. What was cancelled ends.
CREATE FUNCTION putback_1(p_seqs bigint[], p_now timestamptz) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  WITH s AS MATERIALIZED (
    DELETE FROM lease WHERE seq = ANY (array(SELECT seq FROM lease WHERE seq = ANY (p_seqs) AND until - p_now > '0' ORDER BY seq FOR UPDATE)) RETURNING *),
  r AS (INSERT INTO ready SELECT (topic << 4) | (9 - prio), seq, p_now, failures, losses, interruptions + 1, adm, failure, progress
    FROM s WHERE NOT cancelled),
  c AS (INSERT INTO delta (topic, leased, ready) SELECT topic, -count(*), count(*) FILTER (WHERE NOT cancelled) FROM s GROUP BY topic)
  SELECT array_agg(s.seq) AS seqs, array_agg(s.topic) FILTER (WHERE s.counted) AS counted, count(*)::int AS n,
      array_agg(DISTINCT s.topic) AS topics, array_agg(s.topic) FILTER (WHERE s.adm IS NOT NULL AND NOT s.cancelled) AS btopics,
      array_agg(s.adm) FILTER (WHERE s.adm IS NOT NULL AND NOT s.cancelled) AS badms,
      array_agg(ROW (s.seq, s.topic, s.adm, s.failures + s.losses + s.interruptions + 1, s.failures, s.losses, s.interruptions + 1,
        s.failure, s.progress, NULL, w.name, NULL)::over) FILTER (WHERE s.cancelled) AS dropped
    INTO v FROM s LEFT JOIN worker w ON w.id = s.worker;
  IF v.n > 0 THEN
    IF v.dropped IS NOT NULL THEN
      PERFORM ahead_1(array(SELECT e.seq FROM unnest(v.dropped) e));
      PERFORM finish_1(v.dropped, 3::smallint, p_now);
    END IF;
    PERFORM returned_1(v.btopics, v.badms);
    PERFORM unstock_1();
    PERFORM uncount_1(v.counted);
    PERFORM wake_1(v.topics, v.n);
  END IF;
  RETURN v.seqs;
END $$;

-- Renew leases, each by its topic's length, and the worker's row. Answers the seqs that are still held and their tokens, which
-- of them are to stop, the state and the revision.
CREATE FUNCTION extend_1(
  p_name text, p_inc text, p_beat jsonb, p_seq bigint[], p_tok bigint[],
  OUT o_held bigint[], OUT o_tokens bigint[], OUT o_cancelled bigint[], OUT o_state smallint, OUT o_revision bigint
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  v_now := clock_timestamp();
  UPDATE worker SET seen = v_now, beat = p_beat
    WHERE name = p_name AND NOT gone AND inc = p_inc AND (seen > v_now - interval '90 s' OR fenced > v_now)
    RETURNING CASE WHEN fenced > v_now THEN 2 ELSE 1 END INTO o_state;
  o_state := coalesce(o_state, 0);
  IF p_seq IS NOT NULL THEN
    WITH u AS MATERIALIZED (SELECT u.seq, u.tok FROM unnest(p_seq, p_tok) u(seq, tok) ORDER BY u.seq),
    x AS (UPDATE lease l SET until = v_now + t.lease * interval '1 s' FROM u, topic t
      WHERE l.seq BETWEEN u.seq AND u.seq AND l.token = u.tok AND l.until - v_now > '0' AND t.id = l.topic RETURNING l.seq, l.token, l.cancelled)
    SELECT array_agg(x.seq), array_agg(x.token), array_agg(x.seq) FILTER (WHERE x.cancelled) INTO o_held, o_tokens, o_cancelled FROM x;
  END IF;
  o_revision := (SELECT revision FROM queue);
END $$;

-- Note the progress of a run; false: the token is stale.
CREATE FUNCTION progress_1(p_seq bigint, p_tok bigint, p_value bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE lease SET progress = p_value WHERE seq = p_seq AND token = p_tok AND until > clock_timestamp();
  RETURN FOUND;
END $$;

-- Forbid a worker to claim. Waits for a claim of its that is under way, so that none follows when this returns.
CREATE FUNCTION fence_1(p_name text, p_ttl float8, OUT o_known boolean, OUT o_leased int) LANGUAGE plpgsql AS $$
DECLARE
  v_id int;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  UPDATE worker SET fenced = clock_timestamp() + p_ttl * interval '1 s' WHERE name = p_name AND NOT gone
    AND (seen > clock_timestamp() - interval '90 s' OR fenced > clock_timestamp()) RETURNING id INTO v_id;
  o_known := FOUND;
  IF FOUND THEN
    o_leased := (SELECT count(*) FROM lease WHERE worker = v_id AND until > clock_timestamp());
  END IF;
END $$;

CREATE FUNCTION unfence_1(p_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_fenced boolean;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  UPDATE worker w SET fenced = NULL, seen = clock_timestamp()
    FROM (SELECT id, coalesce(fenced > clock_timestamp(), false) AS fenced FROM worker WHERE name = p_name AND NOT gone FOR UPDATE) o
    WHERE w.id = o.id RETURNING o.fenced INTO v_fenced;
  IF v_fenced THEN
    PERFORM wake_1(NULL, 1000000);
  END IF;
  RETURN coalesce(v_fenced, false);
END $$;
