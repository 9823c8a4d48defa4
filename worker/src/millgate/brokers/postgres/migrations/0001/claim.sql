-- Carry out settlements, then hand over up to `p_n` messages that this worker may start now. One row for each, and a last
-- one with the state (0 unknown, 1 active, 2 fenced) and what the client needs for its next call.
--
-- `p_topics` NULL takes all topics; `p_levels` are the levels of an ordered subscription, beside `p_topics`. `p_hint_lanes`
-- and `p_hints` say below which seq this client found nothing but dead entries; `p_pass_topics` and `p_passes` how far the
-- topics are ahead in the weighted turn. `p_listener` has left word that it sleeps. `p_repeat`: the reply to an earlier call of this number was lost.
--
-- Locks, in this order, as everywhere: configuration (shared), worker, leases, unique texts, groups, keys, the queue's
-- counter, topics' counters. Those of topics that are claimed from are passed over when somebody has them (o_busy).
CREATE FUNCTION claim_1(
  p_call bigint, p_repeat boolean, p_name text, p_inc text, p_n int, p_topics int[], p_levels int[],
  p_hint_lanes int[], p_hints bigint[], p_pass_topics int[], p_passes float8[], p_listener bigint,
  a_seq bigint[], a_tok bigint[], a_body bytea[], a_ttl float8[],
  s_seq bigint[], s_tok bigint[], s_kind smallint[], s_delay float8[], s_charge smallint[], s_failure bytea[], s_reason text[],
  p_turn int[], f_parent bigint[], f_topic text[], f_id text[], f_prio smallint[], f_record bytea[], f_key text[], f_delay float8[],
  f_at float8[], f_expires_in float8[], f_expires_at float8[], f_ukey text[], f_ufor float8[], f_ttl float8[], f_grp text[])
RETURNS TABLE (
  o_seq bigint, o_id text, o_topic int, o_prio smallint, o_key text, o_ttl float8, o_grp text, o_record bytea,
  o_failures int, o_losses int, o_interruptions int, o_age float8, o_lease float8,
  o_state smallint, o_revision bigint, o_topics bigint, o_next float8, o_done bigint[], o_pass_topics int[], o_passes float8[],
  o_busy boolean, o_cost float8, o_forward boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  w record;
  q record;
  s record;
  c entrant;
  cs entrant[];
  v_now timestamptz;
  v_began timestamptz;
  v_state smallint := 0;
  v_done bigint[];
  v_net_topics int[];
  v_net int[];
  v_got int := 0;
  v_count int;
  v_busy boolean := false;
  v_cost float8 := 0;
  v_last boolean := false;     -- nothing is left out in this round
  v_room int;                  -- NULL: the queue has no limit
  v_unmet int;
  v_rate float8;               -- seconds until a rate allows a start
  v_tokens float8;
  v_expiring boolean;
  v_lease_end timestamptz;
  v_pass float8[];             -- by lane
  v_open boolean[];            -- by lane: it may hold more
  v_lanes int;
  v_from int;
  v_to int;
  v_more boolean;
  v_weights float8;
  v_sum float8;
  v_turn float8;
  v_left int;                  -- of the present topic's quota
  v_topic int;
  v_start float8;
  v_served float8;
  k int;
  k_asked int;
  v_next float8;
  v_pass_topics int[];
  v_passes float8[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(gate_1(1));
  SELECT x.id, x.seen, x.fenced INTO w FROM worker x WHERE x.name = p_name AND NOT x.gone AND x.inc = p_inc FOR NO KEY UPDATE;
  v_now := clock_timestamp();
  IF w.id IS NOT NULL AND (w.seen > v_now - interval '90 s' OR coalesce(w.fenced > v_now, false)) THEN
    v_state := CASE WHEN w.fenced > v_now THEN 2 ELSE 1 END;
    IF w.seen < v_now - interval '5 s' THEN
      UPDATE worker SET seen = v_now WHERE worker.id = w.id;
    END IF;
  END IF;
  IF a_seq IS NOT NULL OR s_seq IS NOT NULL THEN
    SELECT y.o_done, y.o_topics INTO v_done, v_net_topics FROM carry_1(
      p_call, a_seq, a_tok, a_body, a_ttl, s_seq, s_tok, s_kind, s_delay, s_charge, s_failure, s_reason, p_turn, f_parent, f_topic,
      f_id, f_prio, f_record, f_key, f_delay, f_at, f_expires_in, f_expires_at, f_ukey, f_ufor, f_ttl, f_grp, v_now) y;
    IF v_net_topics IS NOT NULL THEN
      v_net := array_fill(-1, ARRAY[cardinality(v_net_topics)]);
      PERFORM 1 FROM slot z WHERE z.topic = 0 OR z.topic = ANY (v_net_topics) ORDER BY z.topic FOR UPDATE;
    END IF;
  END IF;
  SELECT * INTO q FROM queue;
  IF p_repeat AND v_state > 0 THEN
    UPDATE lease l SET until = v_now + x.lease * interval '1 s' FROM topic x
      WHERE l.worker = w.id AND l.token = p_call AND x.id = l.topic AND l.until > v_now;
    RETURN QUERY SELECT m.seq, m.id, m.topic, m.prio, m.key, m.ttl, m.grp, m.record, l.failures, l.losses, l.interruptions,
        greatest(0, date_part('epoch', v_now - l.since))::float8, x.lease, NULL::smallint, NULL::bigint, NULL::bigint, NULL::float8,
        NULL::bigint[], NULL::int[], NULL::float8[], NULL::boolean, NULL::float8, NULL::boolean
      FROM lease l JOIN msg m ON m.seq BETWEEN l.seq AND l.seq JOIN topic x ON x.id = l.topic
     WHERE l.worker = w.id AND l.token = p_call AND l.until > v_now ORDER BY l.seq;
    GET DIAGNOSTICS v_got = ROW_COUNT;
    v_next := CASE WHEN v_got > 0 THEN 0 END;
  END IF;

  IF v_state = 1 AND NOT q.suspended AND p_n > 0 AND v_got = 0 THEN
    v_expiring := EXISTS (SELECT 1 FROM msg WHERE expires IS NOT NULL);
    LOOP
      IF q.lim IS NOT NULL THEN
        SELECT q.lim - z.inflight - coalesce((SELECT sum(b) FROM unnest(v_net) b), 0) INTO v_room FROM slot z WHERE z.topic = 0 FOR UPDATE;
        v_room := v_room - (SELECT coalesce(sum(greatest(0, x.reserve - z.inflight
            - coalesce((SELECT sum(b) FROM unnest(v_net_topics, v_net) n(t, b) WHERE n.t = x.id), 0))), 0)
          FROM topic x JOIN slot z ON z.topic = x.id WHERE x.reserve > 0);
      END IF;
      v_last := p_hints IS NULL;
      v_began := clock_timestamp();
      SELECT array_agg(ROW (e.id, e.lane, e.level, e.turn, e.weight, e.hint, e.counted, e.lim, e.reserve, e.rate, e.burst, e.lease,
          e.topics)::entrant ORDER BY e.level DESC, e.turn, e.id, e.lane) INTO cs
        FROM (
          SELECT d.*, greatest(d.pass, max(d.pass) OVER (PARTITION BY d.level) - 1) AS turn,
              max(d.id) OVER (PARTITION BY d.level) <> min(d.id) OVER (PARTITION BY d.level) AS topics
            FROM (
              SELECT b.*, coalesce(p_passes[array_position(p_pass_topics, b.id)], 0) AS pass,
                  CASE WHEN p_levels IS NULL AND b.boost > 0 AND b.own < b.top
                    THEN least(b.top, b.own + floor(date_part('epoch', v_now - b.oldest) / b.boost)::int) ELSE b.own END AS level
                FROM (
                  SELECT a.*, min(a.since) OVER (PARTITION BY a.id) AS oldest
                    FROM (
                      -- what came back from workers lies before what has waited longer
                      SELECT g.*, CASE WHEN p_levels IS NULL AND g.boost > 0 AND g.own < g.top THEN (SELECT min(y.since) FROM (
                          SELECT r.since FROM ready r WHERE r.lane = g.lane AND r.seq >= g.hint ORDER BY r.lane, r.seq LIMIT 100) y) END AS since
                        FROM (
                          SELECT h.*, max(h.own) FILTER (WHERE h.open) OVER () AS top
                            FROM (
                              SELECT x.id, x.weight, x.boost, x.counted, x.lim, x.reserve, x.rate, x.burst, x.lease, l.lane, r.seq AS hint,
                                  CASE WHEN p_levels IS NULL THEN x.level ELSE p_levels[array_position(p_topics, x.id)] END AS own,
                                  -- whether its own limits let one start: others are raised to where somebody is served
                                  CASE WHEN x.lim IS NULL AND x.rate IS NULL THEN true ELSE (SELECT
                                      (z.inflight + coalesce((SELECT sum(b) FROM unnest(v_net_topics, v_net) n(t, b) WHERE n.t = x.id), 0)
                                        < x.lim) IS NOT FALSE
                                      AND (z.tokens + x.rate * greatest(0, date_part('epoch', v_began - z.at)) < 1 - 1e-9) IS NOT TRUE
                                    FROM slot z WHERE z.topic = x.id) END AS open
                                FROM topic x CROSS JOIN LATERAL unnest(x.prios) p(prio)
                                  CROSS JOIN LATERAL (SELECT (x.id << 4) | (9 - p.prio) AS lane,
                                    coalesce(p_hints[array_position(p_hint_lanes, (x.id << 4) | (9 - p.prio))], 0) AS hint) l
                                  CROSS JOIN LATERAL (SELECT r.seq FROM ready r WHERE r.lane = l.lane AND r.seq >= l.hint
                                    ORDER BY r.lane, r.seq LIMIT 1) r  -- dead entries are passed here, and not again below
                               WHERE NOT x.paused AND NOT x.held AND x.shut = 0
                                 AND (p_topics IS NULL OR x.id = ANY (p_topics))) h) g) a) b) d) e;
      v_cost := greatest(v_cost, date_part('epoch', clock_timestamp() - v_began)::float8);
      v_lanes := coalesce(cardinality(cs), 0);
      v_pass := NULL; v_open := NULL;
      FOR i IN 1 .. v_lanes LOOP
        v_pass[i] := (cs[i]).pass;
        v_open[i] := true;
      END LOOP;
      v_from := 1;
      WHILE v_from <= v_lanes AND v_got < p_n LOOP  -- one level after the other
        v_to := v_from;
        WHILE v_to < v_lanes AND (cs[v_to + 1]).level = (cs[v_from]).level LOOP
          v_to := v_to + 1;
        END LOOP;
        v_more := true;
        WHILE v_more AND v_got < p_n LOOP  -- until nobody in it has more
          v_more := false;
          IF (cs[v_from]).shared THEN  -- the turn at which all that is wanted would be served: water finds its level
            v_weights := 0; v_sum := 0; v_topic := 0; v_turn := NULL;
            FOR i IN v_from .. v_to LOOP
              c := cs[i];
              CONTINUE WHEN NOT v_open[i] OR c.topic = v_topic;
              EXIT WHEN v_turn <= v_pass[i];
              v_topic := c.topic;
              v_weights := v_weights + c.weight;
              v_sum := v_sum + c.weight * v_pass[i];
              v_turn := (p_n - v_got + v_sum) / v_weights;
            END LOOP;
          END IF;
          v_topic := 0;
          FOR i IN v_from .. v_to LOOP
            EXIT WHEN v_got >= p_n;
            CONTINUE WHEN NOT v_open[i];
            c := cs[i];
            IF c.topic <> v_topic THEN
              v_topic := c.topic;
              v_start := v_pass[i];
              v_served := 0;
              v_left := CASE WHEN c.shared THEN ceil(round((c.weight * (v_turn - v_start))::numeric, 6))::int ELSE p_n - v_got END;
            END IF;
            k := least(v_left, p_n - v_got);
            k_asked := k;
            IF k <= 0 THEN  -- beyond its share for now: another round, should others have less than theirs
              v_more := true;
              CONTINUE;
            END IF;
            IF c.counted THEN
              SELECT z.* INTO s FROM slot z WHERE z.topic = c.topic FOR UPDATE SKIP LOCKED;
              IF NOT FOUND THEN
                v_busy := true; v_open[i] := false;
                CONTINUE;
              END IF;
              s.inflight := s.inflight + coalesce((SELECT sum(b) FROM unnest(v_net_topics, v_net) n(t, b) WHERE n.t = c.topic), 0);
              IF c.lim IS NOT NULL THEN
                k := least(k, c.lim - s.inflight);
              END IF;
              IF c.rate IS NOT NULL THEN
                v_tokens := least(c.burst, coalesce(s.tokens + c.rate * greatest(0, date_part('epoch', clock_timestamp() - s.at)), c.burst));
                k := least(k, floor(v_tokens + 1e-9)::int);
                IF v_tokens < 1 - 1e-9 THEN
                  v_rate := least(v_rate, (1 - v_tokens) / c.rate);
                END IF;
              END IF;
            END IF;
            IF v_room IS NOT NULL THEN
              v_unmet := CASE WHEN c.reserve > 0 THEN greatest(0, c.reserve - s.inflight) ELSE 0 END;
              k := least(k, v_room + v_unmet);
            END IF;
            IF k <= 0 THEN
              v_open[i] := false;
              CONTINUE;
            END IF;
            v_lease_end := clock_timestamp() + c.lease * interval '1 s';
            RETURN QUERY
              WITH r AS MATERIALIZED (
                DELETE FROM ready x WHERE x.ctid = ANY (array(
                  SELECT y.ctid FROM ready y WHERE y.lane = c.lane AND y.seq >= c.hint AND NOT (v_expiring AND EXISTS (
                      SELECT 1 FROM msg e WHERE e.seq = y.seq AND e.expires <= v_now))
                    ORDER BY y.lane, y.seq LIMIT k FOR UPDATE OF y SKIP LOCKED))
                RETURNING x.*),
              d AS MATERIALIZED (
                SELECT r.*, m.id, m.key, m.ttl, m.grp, m.record, m.ukey IS NULL AND octet_length(m.record) <= 1024 AS light
                  FROM r JOIN msg m ON m.seq BETWEEN r.seq AND r.seq),
              l AS (INSERT INTO lease SELECT d.seq, p_call, c.topic, (9 - (c.lane & 15))::smallint, w.id, v_lease_end, d.since,
                  d.failures, d.losses, d.interruptions, c.counted, false, d.adm, d.failure, d.progress, d.light FROM d),
              x AS (UPDATE msg u SET expires = NULL FROM d WHERE v_expiring AND u.seq = d.seq AND u.expires IS NOT NULL),
              n AS (INSERT INTO delta (topic, ready, leased, started) SELECT c.topic, -count(*), count(*),
                  count(*) FILTER (WHERE d.failures + d.losses + d.interruptions = 0) FROM d HAVING count(*) > 0)
              SELECT d.seq, d.id, c.topic, (9 - (c.lane & 15))::smallint, d.key, d.ttl, d.grp, d.record, d.failures, d.losses,
                  d.interruptions, greatest(0, date_part('epoch', v_now - d.since))::float8, c.lease, NULL::smallint, NULL::bigint,
                  NULL::bigint, NULL::float8, NULL::bigint[], NULL::int[], NULL::float8[], NULL::boolean, NULL::float8,
                  NULL::boolean
                FROM d ORDER BY d.seq;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            v_open[i] := v_count = k AND k = k_asked;
            v_more := v_more OR v_open[i] AND c.shared;
            v_got := v_got + v_count;
            v_left := v_left - v_count;
            v_served := v_served + v_count;
            IF v_count > 0 AND c.counted THEN
              v_net_topics := v_net_topics || c.topic;
              v_net := v_net || v_count;
              IF c.rate IS NOT NULL THEN
                UPDATE slot z SET tokens = v_tokens - v_count, at = clock_timestamp() WHERE z.topic = c.topic;
              END IF;
            END IF;
            IF v_room IS NOT NULL THEN
              v_room := v_room - greatest(0, v_count - v_unmet);
            END IF;
            IF c.shared AND v_count > 0 THEN
              FOR j IN v_from .. v_to LOOP
                IF (cs[j]).topic = c.topic THEN
                  v_pass[j] := v_start + v_served / c.weight;
                END IF;
              END LOOP;
            END IF;
          END LOOP;
        END LOOP;
        v_from := v_to + 1;
      END LOOP;
      IF v_lanes > 0 AND EXISTS (SELECT 1 FROM unnest(cs) e WHERE e.shared) THEN
        SELECT array_agg(y.topic), array_agg(y.pass) INTO v_pass_topics, v_passes
          FROM (SELECT DISTINCT e.topic, v_pass[e.n] AS pass FROM (SELECT (cs[g]).topic, (cs[g]).shared, g AS n
            FROM generate_series(1, v_lanes) g) e WHERE e.shared) y;
      END IF;
      EXIT WHEN v_got >= p_n OR v_last;
      p_hints := NULL;
    END LOOP;
  END IF;

  IF v_net_topics IS NOT NULL THEN
    PERFORM net_1(v_net_topics, v_net);
    IF (SELECT sum(b) FROM unnest(v_net) b) < 0 THEN  -- slots are free that this worker did not take
      PERFORM wake_1(NULL, 1);
    END IF;
  END IF;
  IF p_listener IS NOT NULL AND v_got > 0 THEN
    DELETE FROM idle WHERE listener = p_listener;  -- not asleep any more: the next message wakes somebody else
  END IF;
  IF v_next IS NULL THEN
    v_next := CASE WHEN v_got >= p_n AND p_n > 0 OR v_expiring AND EXISTS (SELECT 1 FROM msg WHERE expires <= v_now) THEN 0 ELSE least(v_rate, next_1(v_now, p_topics),
      CASE WHEN v_state = 2 THEN date_part('epoch', w.fenced - v_now) END) END;
  END IF;
  RETURN QUERY SELECT NULL::bigint, NULL::text, NULL::int, NULL::smallint, NULL::text, NULL::float8, NULL::text, NULL::bytea,
    NULL::int, NULL::int, NULL::int, NULL::float8, NULL::float8, v_state, q.revision, q.topics, v_next, v_done,
    v_pass_topics, v_passes, v_busy AND v_got < p_n, v_cost, EXISTS (SELECT 1 FROM dead WHERE forward);
END $$;

-- Seconds until time alone may make something claimable: a delay or a lease that ends. NULL: it will not.
-- (In plpgsql, as all that is called often: a function in SQL is planned anew at each call, for far more than it costs.)
CREATE FUNCTION next_1(p_now timestamptz, p_topics int[]) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  v_at timestamptz;
BEGIN
  v_at := least(
    (SELECT d.due FROM delayed d WHERE p_topics IS NULL OR d.topic = ANY (p_topics) ORDER BY d.due LIMIT 1),
    (SELECT min(l.until) FROM worker w CROSS JOIN upkeep u CROSS JOIN LATERAL (SELECT e.until FROM lease e WHERE e.worker = w.id
      AND e.until >= u.reaped - interval '2 s' ORDER BY e.worker, e.until LIMIT 1) l));
  RETURN CASE WHEN v_at IS NOT NULL THEN greatest(0, date_part('epoch', v_at - p_now)) END;
END $$;
