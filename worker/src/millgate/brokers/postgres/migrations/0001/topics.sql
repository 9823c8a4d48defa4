-- The ids of topics by name, in order; topics that nobody used before appear here.
CREATE FUNCTION topics_1(p_names text[]) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  v_ids int[];
BEGIN
  SELECT array_agg(t.id ORDER BY n.o) INTO v_ids
    FROM unnest(p_names) WITH ORDINALITY n(name, o) JOIN topic t ON t.name = n.name;
  IF coalesce(cardinality(v_ids), 0) = cardinality(p_names) THEN
    RETURN v_ids;
  END IF;
  INSERT INTO topic (name) SELECT DISTINCT n FROM unnest(p_names) n
    WHERE NOT EXISTS (SELECT 1 FROM topic t WHERE t.name = n) ORDER BY n ON CONFLICT DO NOTHING;
  PERFORM obey_1(array(SELECT t.id FROM topic t JOIN unnest(p_names) n ON n = t.name WHERE t.policy IS NULL AND t.shut = 0));
  INSERT INTO slot (topic) SELECT t.id FROM topic t JOIN unnest(p_names) n ON n = t.name
    WHERE t.counted ORDER BY t.id ON CONFLICT DO NOTHING;
  UPDATE queue SET topics = topics + 1;
  SELECT array_agg(t.id ORDER BY n.o) INTO v_ids
    FROM unnest(p_names) WITH ORDINALITY n(name, o) JOIN topic t ON t.name = n.name;
  IF cardinality(v_ids) IS DISTINCT FROM cardinality(p_names) THEN
    RAISE EXCEPTION 'a topic was added by a transaction that this one cannot see' USING ERRCODE = '40001';
  END IF;
  RETURN v_ids;
END $$;

-- Write what the policy in force says into the columns of these topics.
CREATE FUNCTION obey_1(p_ids int[]) RETURNS void LANGUAGE sql AS $$
  UPDATE topic t SET
    paused = (p->>'paused')::boolean,
    level = (p->>'priority')::int,
    weight = (p->>'weight')::float8,
    boost = (p->>'boost_after')::float8,
    lim = CASE WHEN p->>'ordering' = 'FIFO' THEN NULL ELSE (p->>'limit')::int END,
    reserve = CASE WHEN t.policy IS NULL THEN 0 ELSE (p->>'reserve')::int END,  -- any number may be undeclared
    adm_lim = CASE WHEN p->>'ordering' IN ('FIFO', 'PerKey') THEN 1 ELSE (p->>'key_limit')::int END,
    fifo = p->>'ordering' = 'FIFO',
    sticky = p->>'ordering' IN ('FIFO', 'PerKey'),
    rate = (p->'rate'->>'count')::float8 / (p->'rate'->>'per')::float8,
    burst = coalesce((p->'rate'->>'burst')::float8, (p->'rate'->>'count')::float8),
    counted = (p->>'ordering' <> 'FIFO' AND p->>'limit' IS NOT NULL) OR p->'rate'->>'count' IS NOT NULL
      OR (p->>'reserve')::int > 0 OR c.lim IS NOT NULL,
    lease = (p->>'lease')::float8,
    losses = (p->'retry'->>'losses')::int,
    dead = CASE p->>'dead' WHEN 'Drop' THEN 1 WHEN 'Forward' THEN 2 ELSE 0 END,
    dead_topic = p->>'dead_topic',
    retention = (p->>'dead_retention')::float8,
    dead_max = (p->>'dead_max')::int,
    expires_in = (p->>'expires_in')::float8,
    result_ttl = (p->>'result_ttl')::float8,
    payload_max = (p->>'payload_max')::int
  FROM (SELECT o.id, coalesce(o.policy, q.policy->'defaults') AS p, q.lim FROM topic o, queue q WHERE o.id = ANY (p_ids)) c
  WHERE t.id = c.id AND c.p IS NOT NULL
$$;
