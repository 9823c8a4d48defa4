-- Accept messages: what is known already, by its id or its unique text, is answered (position, holder) and not stored.
-- `o_stored` counts the new ones. A message that this very call stored before (its reply was lost) is neither.
CREATE FUNCTION store_1(
  p_drafts draft[], p_call bigint, p_now timestamptz, OUT o_at int[], OUT o_holder text[], OUT o_stored int
) LANGUAGE plpgsql AS $$
DECLARE
  v_names text[] := array(SELECT DISTINCT d.topic FROM unnest(p_drafts) d ORDER BY 1);
  v_ids int[] := topics_1(v_names);
  v_skip int[] := '{}';
  v_admit work[];
  v_topics int[];
  w record;
  v_holder text;
BEGIN
  o_at := '{}'; o_holder := '{}';
  PERFORM clear_1(array(SELECT d.id FROM unnest(p_drafts) d), p_now);
  FOR w IN
    SELECT d.n, d.id, k.call FROM unnest(p_drafts) WITH ORDINALITY
        d(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n)
      CROSS JOIN LATERAL (
        SELECT m.call FROM msg m WHERE m.id = d.id
        UNION ALL SELECT f.call FROM final f WHERE f.id = d.id AND f.until > p_now LIMIT 1) k
  LOOP
    v_skip := v_skip || w.n::int;
    IF w.call <> p_call THEN
      o_at := o_at || w.n::int; o_holder := o_holder || w.id;
    END IF;
  END LOOP;
  FOR w IN
    SELECT d.n, d.id, d.ukey, d.ufor FROM unnest(p_drafts) WITH ORDINALITY
        d(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n)
      WHERE d.ukey IS NOT NULL AND NOT d.n = ANY (v_skip) ORDER BY d.ukey COLLATE "C", d.n
  LOOP
    LOOP
      -- of a batch the first wins, however short its window
      INSERT INTO uniq VALUES (w.ukey, w.id, p_now + CASE WHEN w.ufor < 0.000001 THEN 0.000001 ELSE w.ufor END * interval '1 s')
        ON CONFLICT (ukey) DO UPDATE SET id = excluded.id, until = excluded.until WHERE uniq.until <= p_now;
      EXIT WHEN FOUND;
      SELECT u.id INTO v_holder FROM uniq u WHERE u.ukey = w.ukey;  -- a statement of its own: sees the winner
      IF FOUND THEN
        v_skip := v_skip || w.n::int; o_at := o_at || w.n::int; o_holder := o_holder || v_holder;
        EXIT;
      END IF;
    END LOOP;
  END LOOP;
  WITH d AS MATERIALIZED (
    SELECT nextval('seq') AS seq, x.*, t.id AS tid, t.fifo, t.adm_lim, t.expires_in AS texp,
        CASE WHEN x.at IS NOT NULL THEN to_timestamp(x.at) ELSE p_now + coalesce(x.delay, 0) * interval '1 s' END AS due
      FROM unnest(p_drafts) WITH ORDINALITY
        x(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n)
      JOIN topic t ON t.id = v_ids[array_position(v_names, x.topic)]
      WHERE NOT x.n = ANY (v_skip) ORDER BY x.n),
  m AS (
    INSERT INTO msg (seq, id, topic, prio, call, key, ukey, ttl, grp, expires, record)
      SELECT seq, id, tid, prio, p_call, key, ukey, ttl, grp,
          CASE WHEN expires_at IS NOT NULL THEN least(to_timestamp(expires_at), p_now + expires_in * interval '1 s')
               ELSE p_now + coalesce(expires_in, texp) * interval '1 s' END, record
        FROM d ORDER BY n
      ON CONFLICT (id) DO NOTHING RETURNING msg.seq),
  s AS MATERIALIZED (
    SELECT d.*, CASE WHEN d.fifo THEN '' WHEN d.adm_lim IS NOT NULL THEN d.key END AS adm, d.due > p_now AS late
      FROM d WHERE (d.seq IN (SELECT m.seq FROM m)) IS TRUE),  -- as a join each would read all
  l AS (INSERT INTO delayed (due, seq, topic, prio) SELECT due, seq, tid, prio FROM s WHERE late),
  r AS (INSERT INTO ready (lane, seq, since) SELECT (tid << 4) | (9 - prio), seq, p_now FROM s WHERE NOT late AND adm IS NULL),
  c AS (INSERT INTO delta (topic, ready, delayed, enq)
    SELECT tid, count(*) FILTER (WHERE NOT late AND adm IS NULL), count(*) FILTER (WHERE late), count(*) FROM s GROUP BY tid)
  SELECT count(*)::int,
      array_agg(ROW (seq, tid, prio, adm, p_now, 0, 0, 0, NULL, NULL)::work) FILTER (WHERE NOT late AND adm IS NOT NULL),
      array_agg(DISTINCT tid) FILTER (WHERE NOT late)
    INTO o_stored, v_admit, v_topics FROM s;
  IF o_stored < cardinality(p_drafts) - cardinality(v_skip) THEN  -- somebody else stored an id meanwhile
    SELECT o_at || array_agg(d.n::int), o_holder || array_agg(d.id) INTO o_at, o_holder
      FROM unnest(p_drafts) WITH ORDINALITY
        d(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n)
      JOIN msg m ON m.id BETWEEN d.id AND d.id WHERE NOT d.n = ANY (v_skip) AND m.call <> p_call;
    DELETE FROM uniq USING unnest(p_drafts) WITH ORDINALITY  -- nobody would give these texts back
        d(id, topic, prio, record, key, delay, at, expires_in, expires_at, ukey, ufor, ttl, grp, n)
      WHERE NOT d.n = ANY (v_skip) AND uniq.ukey BETWEEN d.ukey AND d.ukey AND uniq.id = d.id
        AND (SELECT m.ukey FROM msg m WHERE m.id = d.id) IS DISTINCT FROM d.ukey;
  END IF;
  IF EXISTS (SELECT 1 FROM unnest(p_drafts) d WHERE d.prio <> 5) THEN
    PERFORM prios_1(array(SELECT d.topic FROM unnest(p_drafts) d), array(SELECT d.prio FROM unnest(p_drafts) d));
  END IF;
  IF v_admit IS NOT NULL THEN
    PERFORM admit_1(v_admit);
  END IF;
  PERFORM wake_1(v_topics, o_stored);
END $$;

-- Note message priorities that a topic has not seen before: a claim looks only at those it has.
CREATE FUNCTION prios_1(p_names text[], p_prios smallint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE topic t SET prios = t.prios || array(SELECT f FROM unnest(x.fresh) f WHERE NOT f = ANY (t.prios))
    FROM (SELECT n.name, array_agg(DISTINCT n.prio) AS fresh
            FROM unnest(p_names, p_prios) n(name, prio) JOIN topic o ON o.name = n.name
           WHERE NOT n.prio = ANY (o.prios) GROUP BY n.name ORDER BY n.name) x
   WHERE t.name = x.name AND NOT x.fresh <@ t.prios;
END $$;

-- Refuse the call when the queue holds more than it may. Publishers share a stock of places; the exact count is taken
-- under the lock when the stock runs out.
CREATE FUNCTION room_1(p_count int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_most bigint := (SELECT max_waiting FROM queue);
  v_depth bigint;
BEGIN
  IF v_most IS NULL OR p_count = 0 THEN
    RETURN;
  END IF;
  UPDATE slot SET credit = credit - p_count WHERE topic = 0 AND credit >= p_count;
  IF FOUND THEN
    RETURN;
  END IF;
  PERFORM 1 FROM slot WHERE topic = 0 FOR UPDATE;
  SELECT coalesce(sum(ready + parked + delayed), 0) INTO v_depth
    FROM (SELECT ready, parked, delayed FROM counter UNION ALL SELECT ready, parked, delayed FROM delta) x;
  IF v_depth > v_most THEN
    RAISE EXCEPTION 'the queue holds % of at most % messages; % more do not fit, nothing of this call was stored',
      v_depth - p_count, v_most, p_count USING ERRCODE = 'MG003';
  END IF;
  UPDATE slot SET credit = least(v_most - v_depth, v_most / 10) WHERE topic = 0;
END $$;

-- That stock is void: something came to wait that nobody published, and the next publish counts it. Locks the queue's counter.
CREATE FUNCTION unstock_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT max_waiting FROM queue) IS NOT NULL THEN
    UPDATE slot SET credit = 0 WHERE topic = 0 AND credit > 0;
  END IF;
END $$;
