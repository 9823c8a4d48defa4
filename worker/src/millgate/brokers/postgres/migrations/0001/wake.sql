-- Wake sleepers that take one of these topics, at most `p_count` of them; NULL topics: any sleeper. Who sleeps renews its
-- word every second; the freshest is the surest.
CREATE FUNCTION wake_1(p_topics int[], p_count int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_count > 0 AND EXISTS (SELECT 1 FROM idle) THEN
    WITH w AS (
      DELETE FROM idle WHERE listener = ANY (array(
        SELECT i.listener FROM idle i WHERE i.at > clock_timestamp() - interval '10 s'
            AND (p_topics IS NULL OR i.topics IS NULL OR i.topics && p_topics)
          ORDER BY i.at DESC LIMIT p_count FOR UPDATE SKIP LOCKED)) RETURNING listener)
    SELECT count(pg_notify('millgate_' || to_hex(listener), '')) INTO p_count FROM w;
  END IF;
END $$;

-- Tell those who wait for one of these messages.
CREATE FUNCTION tell_1(p_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM awaited) THEN
    WITH w AS (DELETE FROM awaited a WHERE a.id = ANY (p_ids) RETURNING a.listener)
    SELECT NULL FROM (SELECT count(pg_notify('millgate_' || to_hex(l.listener), 'ended')) FROM (SELECT DISTINCT listener FROM w) l) n
      INTO p_ids;
  END IF;
END $$;
