-- Store policies under a new revision when they differ; the revision, and whether a topic is shut (regate_1 has to be
-- called). No other verb runs meanwhile, so that a limit never changes inside a claim.
CREATE FUNCTION configure_1(p_topics jsonb, p_queue jsonb, p_replace boolean, OUT o_revision bigint, OUT o_shut boolean)
LANGUAGE plpgsql AS $$
DECLARE
  q queue;
  v_names text[] := array(SELECT jsonb_object_keys(p_topics) ORDER BY 1);
  v_changed boolean;
  v_reserved bigint;
  v_few int := 10000;          -- so many messages may pass new gates in this step
  v_waiting int;
  t record;
BEGIN
  PERFORM pg_advisory_xact_lock(gate_1(1));
  SELECT * INTO q FROM queue FOR UPDATE;
  v_changed := p_queue IS NOT NULL AND p_queue IS DISTINCT FROM q.policy
    OR EXISTS (SELECT 1 FROM unnest(v_names) n LEFT JOIN topic x ON x.name = n WHERE x.policy IS DISTINCT FROM p_topics->n)
    OR p_replace AND EXISTS (SELECT 1 FROM topic x WHERE x.policy IS NOT NULL AND NOT x.name = ANY (v_names));
  o_revision := q.revision;
  o_shut := EXISTS (SELECT 1 FROM topic WHERE shut > 0);
  IF NOT v_changed THEN
    RETURN;
  END IF;
  PERFORM topics_1(v_names);
  UPDATE topic SET policy = p_topics->name WHERE name = ANY (v_names);
  IF p_replace THEN
    UPDATE topic SET policy = NULL WHERE NOT name = ANY (v_names);
  END IF;
  UPDATE queue SET policy = coalesce(p_queue, policy), revision = revision + 1, topics = topics + 1;
  UPDATE queue SET lim = (policy->>'limit')::int, max_waiting = (policy->>'max_waiting')::bigint,
    suspended = coalesce((policy->>'suspended')::boolean, false), reject = coalesce(policy->>'undeclared' = 'Reject', false)
    RETURNING * INTO q;
  SELECT coalesce(sum((policy->>'reserve')::int), 0) INTO v_reserved FROM topic WHERE policy IS NOT NULL;
  IF q.lim < v_reserved THEN
    RAISE EXCEPTION 'topics reserve % slots, the queue''s limit is %; raise it, or reserve fewer', v_reserved, q.lim
      USING ERRCODE = 'MG004';
  END IF;
  FOR t IN SELECT x.id, x.fifo, x.sticky, x.adm_lim, x.rate, x.burst, x.shut FROM topic x ORDER BY x.id LOOP
    PERFORM obey_1(ARRAY[t.id]);
    PERFORM 1 FROM topic x WHERE x.id = t.id AND (x.rate, x.burst) IS DISTINCT FROM (t.rate, t.burst);
    IF FOUND THEN
      UPDATE slot SET tokens = NULL WHERE topic = t.id;
    END IF;
    PERFORM 1 FROM topic x WHERE x.id = t.id
      AND (t.shut = 1 OR (x.fifo, x.sticky, x.adm_lim) IS DISTINCT FROM (t.fifo, t.sticky, t.adm_lim));
    IF FOUND THEN
      PERFORM shut_1(t.id);
      v_waiting := waiting_1(t.id, v_few);
      IF v_waiting < v_few THEN
        v_few := v_few - v_waiting;
        WHILE pass_1(t.id, 10000) LOOP
        END LOOP;
      END IF;
    END IF;
  END LOOP;
  PERFORM recount_1();
  UPDATE slot SET credit = 0 WHERE topic = 0;
  PERFORM bound_1(array(SELECT id FROM topic));
  PERFORM age_1(clock_timestamp());
  PERFORM wake_1(NULL, 1000000);
  o_revision := q.revision;
  o_shut := EXISTS (SELECT 1 FROM topic WHERE shut > 0);
END $$;

-- Count what runs anew. Only while no other verb runs.
CREATE FUNCTION recount_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE lease l SET counted = t.counted FROM topic t WHERE t.id = l.topic AND l.counted <> t.counted;
  INSERT INTO slot (topic) SELECT id FROM topic WHERE counted ORDER BY id ON CONFLICT DO NOTHING;
  UPDATE slot s SET inflight = coalesce(x.n, 0)
    FROM slot o LEFT JOIN (SELECT l.topic, count(*)::int AS n FROM lease l GROUP BY l.topic
      UNION ALL SELECT 0, count(*)::int FROM lease) x ON x.topic = o.topic
   WHERE s.topic = o.topic AND s.inflight <> coalesce(x.n, 0);
END $$;

-- What is stored: the queue's policy and the topics', and which topics there are.
CREATE FUNCTION configuration_1(OUT o_id int, OUT o_name text, OUT o_policy jsonb, OUT o_level int, OUT o_revision bigint, OUT o_topics bigint)
RETURNS SETOF record LANGUAGE sql AS $$
  SELECT 0, NULL::text, q.policy, 0, q.revision, q.topics FROM queue q
  UNION ALL SELECT t.id, t.name, t.policy, t.level, NULL, NULL FROM topic t
$$;
