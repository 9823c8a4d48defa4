-- Begin to wait for the members of a group. `p_ids` are watched, each for the member at that place; a member that was a
-- duplicate is watched under the id that it duplicates. Members that have ended already are noted at once.
CREATE FUNCTION gather_1(
  p_group text, p_callback draft, p_require boolean, p_ids text[], p_members text[], p_places int[], p_steps int[],
  p_now timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM grp WHERE id = p_group AND (callback).id <> p_callback.id) THEN
    RAISE EXCEPTION 'group % exists with another callback; give this one an id of its own', quote_literal(p_group)
      USING ERRCODE = 'MG005';
  END IF;
  IF EXISTS (SELECT 1 FROM msg WHERE id = p_callback.id)
    OR EXISTS (SELECT 1 FROM final WHERE id = p_callback.id AND until > p_now) THEN
    RETURN;
  END IF;
  INSERT INTO grp (id, callback, require_all, pending)
    SELECT p_group, p_callback, p_require, count(DISTINCT m) FROM unnest(p_members) m ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  INSERT INTO watch (id, grp, member, place, step) SELECT w.id, p_group, w.member, w.place, w.step
    FROM unnest(p_ids, p_members, p_places, p_steps) w(id, member, place, step) ON CONFLICT DO NOTHING;
  PERFORM trace_1(p_group, w.place, CASE WHEN ending_1(w.member, p_now) > 0 THEN w.step ELSE 1 END, p_now)
    FROM watch w WHERE w.grp = p_group AND w.id = w.member;
  PERFORM complete_1(p_group, p_now);
END $$;

-- How a message stands: 0 it is still to end, 1 it succeeded, 2 it did not, NULL: nothing is known of it. STABLE: all places
-- at one moment.
CREATE FUNCTION ending_1(p_id text, p_now timestamptz) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
  m record;
BEGIN
  SELECT x.seq, x.topic, x.prio INTO m FROM msg x WHERE x.id = p_id;
  IF NOT FOUND THEN
    RETURN (SELECT CASE WHEN f.state = 1 THEN 1 ELSE 2 END FROM final f WHERE f.id = p_id AND f.until > p_now);
  END IF;
  RETURN CASE WHEN EXISTS (SELECT 1 FROM dead d WHERE d.seq = m.seq) THEN 2 WHEN ended_1(m.seq, m.topic, m.prio) THEN 1 ELSE 0 END;
END $$;

-- Note what is known of the member at this place already, going along its way from a step on to the one that is under way. A
-- step that was stored under its id before, or not at all since its text was taken, brings no other with it.
CREATE FUNCTION trace_1(p_group text, p_place int, p_step int, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  w record;
  v_state int;
BEGIN
  FOR w IN SELECT id, member FROM watch WHERE grp = p_group AND place = p_place AND step >= p_step ORDER BY step LOOP
    v_state := ending_1(w.id, p_now);
    IF v_state = 0 THEN
      RETURN;
    END IF;
    IF v_state IS DISTINCT FROM 1 OR w.id = w.member THEN
      PERFORM note_1(p_group, w.member, coalesce(v_state = 1, false));
      RETURN;
    END IF;
  END LOOP;
END $$;

-- Tell groups that these messages have ended. What follows one that succeeded is stored by then.
CREATE FUNCTION told_1(p_ids text[], p_well boolean, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  w record;
  v_last text;
BEGIN
  IF p_ids IS NULL OR NOT EXISTS (SELECT 1 FROM grp) THEN
    RETURN;
  END IF;
  PERFORM 1 FROM grp g WHERE g.id = ANY (array(SELECT DISTINCT grp FROM watch WHERE id = ANY (p_ids))) ORDER BY g.id FOR UPDATE;
  FOR w IN SELECT id, grp, member, place, step FROM watch WHERE id = ANY (p_ids) ORDER BY grp, place, step LOOP
    IF v_last <> w.grp THEN
      PERFORM complete_1(v_last, p_now);
    END IF;
    v_last := w.grp;
    IF w.id = w.member THEN
      PERFORM note_1(w.grp, w.member, p_well);
    ELSIF EXISTS (SELECT 1 FROM watch x WHERE x.grp = w.grp AND x.place = w.place AND x.step < w.step AND ending_1(x.id, p_now) = 0) THEN
      CONTINUE;  -- it is another's, and may be forgotten when this chain comes to it
    ELSIF p_well THEN
      PERFORM trace_1(w.grp, w.place, w.step + 1, p_now);
    ELSE
      PERFORM note_1(w.grp, w.member, false);
    END IF;
  END LOOP;
  IF v_last IS NOT NULL THEN
    PERFORM complete_1(v_last, p_now);
  END IF;
END $$;

CREATE FUNCTION note_1(p_group text, p_member text, p_well boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  WITH o AS (SELECT state FROM watch WHERE id = p_member AND grp = p_group AND member = p_member),
  w AS (UPDATE watch SET state = CASE WHEN p_well AND state <> 2 THEN 1 ELSE 2 END
    WHERE id = p_member AND grp = p_group AND member = p_member)
  UPDATE grp SET pending = pending - 1 WHERE id = p_group AND EXISTS (SELECT 1 FROM o WHERE state = 0);
END $$;

-- Publish the callback of a group whose members have all ended, or bury it when a member failed that must not.
CREATE FUNCTION complete_1(p_group text, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  g grp;
  v_failed text[];
  v_topic int;
  v_seq bigint;
  v_said text;
BEGIN
  SELECT * INTO g FROM grp WHERE id = p_group AND pending <= 0 AND NOT buried FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  v_failed := array(SELECT member FROM watch WHERE grp = p_group AND id = member AND state = 2 ORDER BY place);
  IF NOT g.require_all OR cardinality(v_failed) = 0 OR EXISTS (SELECT 1 FROM msg WHERE id = (g.callback).id)
    OR EXISTS (SELECT 1 FROM final WHERE id = (g.callback).id AND until > p_now) THEN  -- or somebody has taken the id
    DELETE FROM watch WHERE grp = p_group;
    DELETE FROM grp WHERE id = p_group;
    PERFORM store_1(ARRAY[g.callback], 0, p_now);
    RETURN;
  END IF;
  v_topic := (topics_1(ARRAY[(g.callback).topic]))[1];
  INSERT INTO msg (seq, id, topic, prio, call, key, ukey, ttl, grp, record)
    VALUES (nextval('seq'), (g.callback).id, v_topic, (g.callback).prio, 0, (g.callback).key, (g.callback).ukey,
      (g.callback).ttl, (g.callback).grp, (g.callback).record) RETURNING seq INTO v_seq;
  UPDATE grp SET buried = true WHERE id = p_group;
  INSERT INTO delta (topic, enq) VALUES (v_topic, 1);
  v_said := format('members of group %L did not succeed: %s%s', p_group, array_to_string(v_failed[1:20], ', '),
    CASE WHEN cardinality(v_failed) > 20 THEN format(' and %s more', cardinality(v_failed) - 20) ELSE '' END);
  PERFORM finish_1(ARRAY[ROW (v_seq, v_topic, NULL, 0, 0, 0, 0, failure_1('millgate.errors.TaskFailed', v_said), NULL,
    'MemberFailed', '', NULL)::over], 2::smallint, p_now);
  IF NOT EXISTS (SELECT 1 FROM dead WHERE seq = v_seq) THEN
    DELETE FROM watch WHERE grp = p_group;
    DELETE FROM grp WHERE id = p_group;
  END IF;
END $$;

-- A dead member waits again: so does its group, and a callback that was buried for it is taken back.
CREATE FUNCTION revived_1(p_id text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  w record;
BEGIN
  FOR w IN SELECT o.grp, o.member, g.buried, (g.callback).id AS callback FROM watch o JOIN grp g ON g.id = o.grp
      WHERE o.id = p_id ORDER BY o.grp FOR UPDATE OF g LOOP
    UPDATE grp SET pending = pending + (SELECT (state <> 0)::int FROM watch x
        WHERE x.id = w.member AND x.grp = w.grp AND x.member = w.member), buried = false WHERE id = w.grp;
    UPDATE watch SET state = 0 WHERE id = w.member AND grp = w.grp AND member = w.member;
    IF w.buried THEN
      PERFORM bury_1(array(SELECT d.seq FROM msg m JOIN dead d ON d.seq = m.seq WHERE m.id = w.callback));
      DELETE FROM final WHERE id = w.callback;
    END IF;
  END LOOP;
END $$;

-- An error that the broker itself found, in the form in which workers report theirs.
CREATE FUNCTION failure_1(p_error text, p_said text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT convert_to(json_build_array(p_error, p_said, '')::text, 'UTF8')
$$;
