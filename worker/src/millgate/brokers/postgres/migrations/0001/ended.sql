-- Whether a message has ended: it is in no place. STABLE: it sees all places as the statement does that asks, at one moment.
CREATE FUNCTION ended_1(p_seq bigint, p_topic int, p_prio smallint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN NOT EXISTS (SELECT 1 FROM lease l WHERE l.seq = p_seq)
    AND NOT EXISTS (SELECT 1 FROM ready r WHERE r.lane = (p_topic << 4) | (9 - p_prio) AND r.seq = p_seq)
    AND NOT EXISTS (SELECT 1 FROM delayed d WHERE d.seq = p_seq)
    AND NOT EXISTS (SELECT 1 FROM parked p WHERE p.seq = p_seq)
    AND NOT EXISTS (SELECT 1 FROM dead d WHERE d.seq = p_seq);
END $$;

-- Let those of these ids be free whose messages have ended long enough ago, though nobody has come by to forget them.
CREATE FUNCTION clear_1(p_ids text[], p_now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM ended WHERE until <= p_now) THEN
    RETURN false;
  END IF;
  DELETE FROM msg WHERE seq = ANY (array(
    SELECT m.seq FROM msg m WHERE m.id = ANY (p_ids) AND ended_1(m.seq, m.topic, m.prio)
        AND EXISTS (SELECT 1 FROM ended e WHERE e.until <= p_now AND m.seq = ANY (e.seqs))
      FOR UPDATE OF m SKIP LOCKED));
  RETURN FOUND;
END $$;

-- Forget ends that are due from `p_from` on, and with them the messages that lie until then: a batch, of about so many of
-- each kind. Answers whether there may be more. What somebody else has at the moment is left for the next time.
CREATE FUNCTION forget_1(p_now timestamptz, p_from timestamptz, p_most int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_rows tid[];
  v_seqs bigint[];
  v_count int;
  v_more boolean;
BEGIN
  DELETE FROM final WHERE ctid = ANY (array(
    SELECT ctid FROM final WHERE until >= p_from AND until <= p_now ORDER BY until LIMIT p_most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_count = ROW_COUNT;
  v_more := v_count = p_most;
  SELECT array_agg(e.at), array_agg(e.seq) INTO v_rows, v_seqs FROM (
    SELECT x.ctid AS at, unnest(x.seqs) AS seq FROM (
      SELECT y.ctid, y.seqs, sum(cardinality(y.seqs)) OVER (ORDER BY y.until, y.ctid) - cardinality(y.seqs) AS before FROM (
        SELECT ctid, until, seqs FROM ended WHERE until >= p_from AND until <= p_now ORDER BY until LIMIT 20) y) x
     WHERE x.before < p_most) e;
  IF v_seqs IS NULL THEN
    RETURN v_more;
  END IF;
  DELETE FROM msg WHERE ctid = ANY (array(SELECT m.ctid FROM msg m WHERE m.seq = ANY (v_seqs) FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_count = ROW_COUNT;
  DELETE FROM ended e WHERE e.ctid = ANY (v_rows)
    AND (v_count = cardinality(v_seqs) OR NOT EXISTS (SELECT 1 FROM msg m WHERE m.seq = ANY (e.seqs)));
  RETURN v_more OR FOUND;
END $$;
