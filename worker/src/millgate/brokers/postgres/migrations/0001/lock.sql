-- Take a lock, or renew it when this holder has it; no row: somebody else has it.
CREATE FUNCTION acquire_1(p_name text, p_holder text, p_ttl float8) RETURNS bigint LANGUAGE sql AS $$
  INSERT INTO lck VALUES (p_name, p_holder, nextval('fence_no'), clock_timestamp() + p_ttl * interval '1 s')
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until,
      fence = CASE WHEN lck.holder = excluded.holder AND lck.until > clock_timestamp() THEN lck.fence ELSE excluded.fence END
      WHERE lck.until <= clock_timestamp() OR lck.holder = excluded.holder
    RETURNING fence
$$;

CREATE FUNCTION renew_1(p_name text, p_holder text, p_fence bigint, p_ttl float8) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE lck SET until = clock_timestamp() + p_ttl * interval '1 s'
    WHERE name = p_name AND holder = p_holder AND fence = p_fence AND until > clock_timestamp();
  RETURN FOUND;
END $$;

CREATE FUNCTION release_lock_1(p_name text, p_holder text, p_fence bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_live boolean;
BEGIN
  DELETE FROM lck WHERE name = p_name AND (p_holder IS NULL OR holder = p_holder) AND (p_fence IS NULL OR fence = p_fence)
    RETURNING until > clock_timestamp() INTO v_live;
  RETURN coalesce(v_live, false);
END $$;

CREATE FUNCTION locks_1(OUT o_name text, OUT o_holder text, OUT o_fence bigint, OUT o_left float8) RETURNS SETOF record LANGUAGE sql AS $$
  SELECT name, holder, fence, date_part('epoch', until - clock_timestamp())::float8 FROM lck WHERE until > clock_timestamp() ORDER BY name
$$;

-- Mark a slot of a schedule as fired; false: it, or a later one, has. The caller publishes in the same transaction.
CREATE FUNCTION fire_1(p_name text, p_slot float8, p_call bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO schedule VALUES (p_name, p_slot, p_call)
    ON CONFLICT (name) DO UPDATE SET slot = excluded.slot, call = excluded.call WHERE schedule.slot < excluded.slot;
  RETURN FOUND;
END $$;

-- Whether this very call fired the slot: its reply was lost.
CREATE FUNCTION fired_1(p_name text, p_slot float8, p_call bigint) RETURNS boolean LANGUAGE sql AS $$
  SELECT EXISTS (SELECT 1 FROM schedule WHERE name = p_name AND slot = p_slot AND call = p_call)
$$;

-- The last slot of each schedule.
CREATE FUNCTION schedules_1(OUT o_name text, OUT o_slot float8) RETURNS SETOF record LANGUAGE sql AS $$
  SELECT name, slot FROM schedule ORDER BY name
$$;
