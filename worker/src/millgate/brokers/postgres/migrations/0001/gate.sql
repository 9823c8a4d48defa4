-- The number of one of this schema's advisory locks: 1 configuration (verbs share it, configure has it alone),
-- 2 folding of counters, 3 pruning.
CREATE FUNCTION gate_1(p_number int) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT ('queue'::regclass::oid::bigint << 4) | p_number
$$;
