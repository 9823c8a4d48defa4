-- Topics and workers at one moment, from one statement: exact counts from the totals and what calls have added since, then
-- the registry (rows with an incarnation), then the queue's revision and next due time (a row without a name).
CREATE FUNCTION stats_1(
  OUT o_name text, OUT o_waiting bigint, OUT o_claimable bigint, OUT o_delayed bigint, OUT o_leased bigint, OUT o_dead bigint,
  OUT o_oldest float8, OUT o_enq bigint, OUT o_started bigint, OUT o_done bigint, OUT o_failed bigint, OUT o_declared boolean,
  OUT o_paused boolean, OUT o_dropped bigint,
  OUT o_inc text, OUT o_seen float8, OUT o_fence float8, OUT o_held int, OUT o_info jsonb, OUT o_beat jsonb,
  OUT o_revision bigint, OUT o_next float8
) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz;
  v_room bigint;
  q record;
BEGIN
  PERFORM upkeep_1();
  v_now := clock_timestamp();
  PERFORM age_1(v_now);
  SELECT lim, suspended INTO q FROM queue;
  RETURN QUERY
    WITH z AS MATERIALIZED (
      SELECT a.topic, sum(a.ready)::bigint AS ready, sum(a.parked)::bigint AS parked, sum(a.delayed)::bigint AS delayed,
          sum(a.leased)::bigint AS leased, sum(a.dead)::bigint AS dead, sum(a.enq)::bigint AS enq, sum(a.started)::bigint AS started,
          sum(a.done)::bigint AS done, sum(a.failed)::bigint AS failed, sum(a.dropped)::bigint AS dropped
        FROM (SELECT * FROM counter UNION ALL SELECT topic, ready, parked, delayed, leased, dead, enq, started, done, failed, dropped FROM delta) a
       GROUP BY a.topic),
    x AS MATERIALIZED (
      SELECT t.*, coalesce(z.ready, 0) AS z_ready, coalesce(z.parked, 0) AS z_parked, coalesce(z.delayed, 0) AS z_delayed,
          coalesce(z.leased, 0) AS z_leased, coalesce(z.dead, 0) AS z_dead, coalesce(z.enq, 0) AS z_enq,
          coalesce(z.started, 0) AS z_started, coalesce(z.done, 0) AS z_done, coalesce(z.failed, 0) AS z_failed, coalesce(z.dropped, 0) AS z_dropped,
          CASE WHEN t.rate IS NULL THEN NULL ELSE floor(1e-9 + least(t.burst, coalesce(s.tokens
            + t.rate * greatest(0, date_part('epoch', v_now - s.at)), t.burst)))::bigint END AS z_tokens
        FROM topic t LEFT JOIN z ON z.topic = t.id LEFT JOIN slot s ON s.topic = t.id),
    r AS (SELECT q.lim - sum(x.z_leased) - sum(CASE WHEN x.policy IS NOT NULL THEN greatest(0, x.reserve - x.z_leased) ELSE 0 END) AS room FROM x),
    y AS (
      SELECT x.*, CASE WHEN q.suspended OR x.paused OR x.held OR x.shut > 0 THEN 0 ELSE greatest(0, least(x.z_ready, x.lim - x.z_leased, x.z_tokens,
          r.room + greatest(0, x.reserve - x.z_leased))) END::bigint AS claimable FROM x, r)
    SELECT y.name, y.z_ready + y.z_parked, y.claimable, y.z_delayed, y.z_leased, y.z_dead,
        CASE WHEN y.claimable > 0 THEN (SELECT date_part('epoch', v_now - least(v_now, min(h.since)))::float8
          FROM unnest(y.prios) p(prio) CROSS JOIN LATERAL (SELECT e.since FROM ready e WHERE e.lane = (y.id << 4) | (9 - p.prio)
            ORDER BY e.lane, e.seq LIMIT 20) h) END,
        y.z_enq, y.z_started, y.z_done, y.z_failed, y.policy IS NOT NULL, y.paused OR y.held, y.z_dropped,
        NULL::text, NULL::float8, NULL::float8, NULL::int, NULL::jsonb, NULL::jsonb, NULL::bigint, NULL::float8
      FROM y
    UNION ALL
    SELECT f.o_name COLLATE "C", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        f.o_inc, f.o_seen, f.o_fence, f.o_leased, f.o_info, f.o_beat, f.o_revision, f.o_next
      FROM fleet_1() f
    ORDER BY 1 NULLS LAST;
END $$;

-- The registry, and the queue's revision and next due time in a last row without a name. STABLE: it sees what the statement
-- sees that it is part of.
CREATE FUNCTION fleet_1(
  OUT o_name text, OUT o_inc text, OUT o_seen float8, OUT o_fence float8, OUT o_leased int, OUT o_info jsonb, OUT o_beat jsonb,
  OUT o_revision bigint, OUT o_next float8
) RETURNS SETOF record LANGUAGE sql STABLE AS $$
  SELECT w.name, w.inc, greatest(0, date_part('epoch', clock_timestamp() - w.seen))::float8,
      CASE WHEN w.fenced > clock_timestamp() THEN date_part('epoch', w.fenced - clock_timestamp())::float8 END,
      (SELECT count(*)::int FROM lease l WHERE l.worker = w.id), w.info, w.beat, NULL::bigint, NULL::float8
    FROM worker w WHERE NOT w.gone AND (w.seen > clock_timestamp() - interval '90 s' OR w.fenced > clock_timestamp())
  UNION ALL
  SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, q.revision,
      (SELECT greatest(0, date_part('epoch', d.due - clock_timestamp()))::float8 FROM delayed d ORDER BY d.due LIMIT 1)
    FROM queue q
$$;

-- Seconds since the oldest transaction began that holds back the removal of dead rows, of those that this user may see. Apart
-- from the registry, which is read every second: this goes through all sessions of the server.
CREATE FUNCTION oldest_1() RETURNS float8 LANGUAGE sql AS $$
  SELECT date_part('epoch', clock_timestamp() - min(a.xact_start))::float8 FROM pg_stat_activity a WHERE a.backend_xmin IS NOT NULL
$$;

-- What is known of messages, in the order asked. Places: 1 ready or parked, 2 delayed, 3 leased, 4 dead, 5 ended.
CREATE FUNCTION states_1(
  p_ids text[], OUT o_n int, OUT o_place smallint, OUT o_topic text, OUT o_state smallint, OUT o_body bytea, OUT o_failure bytea,
  OUT o_reason text, OUT o_progress bytea, OUT o_attempt int, OUT o_worker text
) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
  PERFORM upkeep_1();
  RETURN QUERY
    SELECT i.n::int, y.place::smallint, t.name, y.state, y.body, y.failure, y.reason, y.progress, y.attempt, y.worker
      FROM unnest(p_ids) WITH ORDINALITY i(id, n) CROSS JOIN LATERAL (
        SELECT 5 AS place, f.topic, f.state, f.body, f.failure, f.reason, f.progress, f.attempt, '' AS worker
          FROM final f WHERE f.id = i.id AND f.shown > clock_timestamp()
        UNION ALL
        SELECT * FROM (
          SELECT z.place, m.topic, NULL::smallint, NULL::bytea, z.failure, z.reason, z.progress, z.attempt, z.worker
            FROM msg m CROSS JOIN LATERAL (
              SELECT 3 AS place, l.failure, '' AS reason, l.progress, l.failures + l.losses + l.interruptions + 1 AS attempt, w.name AS worker
                FROM lease l LEFT JOIN worker w ON w.id = l.worker WHERE l.seq = m.seq
              UNION ALL
              SELECT 1, r.failure, '', r.progress, r.failures + r.losses + r.interruptions, '' FROM ready r
                WHERE r.lane = (m.topic << 4) | (9 - m.prio) AND r.seq = m.seq
              UNION ALL SELECT 1, p.failure, '', p.progress, p.failures + p.losses + p.interruptions, '' FROM parked p WHERE p.seq = m.seq
              UNION ALL SELECT 2, d.failure, '', d.progress, d.failures + d.losses + d.interruptions, '' FROM delayed d WHERE d.seq = m.seq
              UNION ALL SELECT 4, d.failure, d.reason, d.progress, d.attempt, d.worker FROM dead d WHERE d.seq = m.seq) z
           WHERE m.id = i.id) k
        UNION ALL SELECT 6, m.topic, 1::smallint, NULL, NULL, '', NULL, 0, '' FROM msg m WHERE m.id = i.id  -- in no place: it has ended
        UNION ALL
        SELECT 6, f.topic, f.state, NULL, NULL, '', NULL, 0, '' FROM final f
          WHERE f.id = i.id AND f.until > clock_timestamp() AND (f.shown IS NULL OR f.shown <= clock_timestamp())
        LIMIT 1) y LEFT JOIN topic t ON t.id = y.topic;
END $$;

-- The first messages of a topic in one place, in the order in which they would run.
CREATE FUNCTION peek_1(
  p_topic text, p_place smallint, p_limit int, OUT o_id text, OUT o_prio smallint, OUT o_key text, OUT o_ukey text, OUT o_ttl float8,
  OUT o_grp text, OUT o_record bytea, OUT o_attempt int, OUT o_due float8, OUT o_worker text
) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
  t record;
  v_now timestamptz;
BEGIN
  PERFORM upkeep_1();
  v_now := clock_timestamp();
  SELECT id, prios INTO t FROM topic WHERE name = p_topic;
  IF p_place = 1 THEN
    RETURN QUERY SELECT m.id, m.prio, m.key, m.ukey, m.ttl, m.grp, m.record, y.attempt::int, NULL::float8, ''
      FROM (SELECT a.seq, a.attempt, a.rank FROM (
          SELECT x.* FROM unnest(t.prios) p(prio) CROSS JOIN LATERAL (
            SELECT r.seq, r.failures + r.losses + r.interruptions AS attempt, r.lane & 15 AS rank FROM ready r
              WHERE r.lane = (t.id << 4) | (9 - p.prio) ORDER BY r.lane, r.seq LIMIT p_limit) x
          UNION ALL
          SELECT r.seq, r.failures + r.losses + r.interruptions, r.rank FROM parked r WHERE r.topic = t.id) a
        ORDER BY a.rank, a.seq LIMIT p_limit) y JOIN msg m ON m.seq BETWEEN y.seq AND y.seq ORDER BY y.rank, y.seq;
  ELSIF p_place = 2 THEN
    RETURN QUERY SELECT m.id, m.prio, m.key, m.ukey, m.ttl, m.grp, m.record, (d.failures + d.losses + d.interruptions)::int,
        greatest(0, date_part('epoch', d.due - v_now))::float8, ''
      FROM delayed d JOIN msg m ON m.seq BETWEEN d.seq AND d.seq WHERE d.topic = t.id ORDER BY d.due, m.prio DESC, d.seq LIMIT p_limit;
  ELSE
    RETURN QUERY SELECT m.id, m.prio, m.key, m.ukey, m.ttl, m.grp, m.record, (l.failures + l.losses + l.interruptions + 1)::int,
        NULL::float8, coalesce(w.name, '')
      FROM lease l JOIN msg m ON m.seq BETWEEN l.seq AND l.seq LEFT JOIN worker w ON w.id = l.worker
     WHERE l.topic = t.id ORDER BY l.prio DESC, l.seq LIMIT p_limit;
  END IF;
END $$;

-- Note who waits for these messages to end. Looking comes after, in a transaction of its own.
CREATE FUNCTION await_1(p_listener bigint, p_ids text[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO awaited SELECT DISTINCT i, p_listener, clock_timestamp() FROM unnest(p_ids) i ORDER BY i
    ON CONFLICT (id, listener) DO UPDATE SET at = excluded.at
$$;

CREATE FUNCTION unawait_1(p_listener bigint, p_ids text[]) RETURNS void LANGUAGE sql AS $$
  DELETE FROM awaited WHERE listener = p_listener AND id = ANY (p_ids)
$$;
