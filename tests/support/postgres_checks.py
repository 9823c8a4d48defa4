"""What adds up in the tables of a queue on PostgreSQL after every transaction."""

from __future__ import annotations

from typing import Any

import psycopg

from support.postgres import database_url

#: What must be empty, whatever happened: each row names what is wrong.
CHECKS = {
    "a message is in exactly one place": """
        SELECT m.id, count(p.seq) FROM msg m LEFT JOIN (
          SELECT seq FROM ready UNION ALL SELECT seq FROM parked UNION ALL SELECT seq FROM delayed
          UNION ALL SELECT seq FROM lease UNION ALL SELECT seq FROM dead
          UNION ALL SELECT unnest(seqs) FROM ended) p ON p.seq = m.seq
        GROUP BY m.id HAVING count(p.seq) <> 1""",
    "nothing is in a place without its message": """
        SELECT p.seq FROM (
          SELECT seq FROM ready UNION ALL SELECT seq FROM parked UNION ALL SELECT seq FROM delayed
          UNION ALL SELECT seq FROM lease UNION ALL SELECT seq FROM dead) p
        WHERE NOT EXISTS (SELECT 1 FROM msg m WHERE m.seq = p.seq)""",
    "counts are those of the places": """
        SELECT t.name, s.*, r.* FROM topic t
          LEFT JOIN (SELECT topic, sum(ready) AS ready, sum(parked) AS parked, sum(delayed) AS delayed,
              sum(leased) AS leased, sum(dead) AS dead, sum(enq - done - failed) AS alive
            FROM (SELECT * FROM counter UNION ALL SELECT topic, ready, parked, delayed, leased, dead, enq, started,
              done, failed, dropped FROM delta) a GROUP BY topic) s ON s.topic = t.id
          CROSS JOIN LATERAL (SELECT
            (SELECT count(*) FROM ready x WHERE x.lane >> 4 = t.id) AS r1,
            (SELECT count(*) FROM parked x WHERE x.topic = t.id) AS r2,
            (SELECT count(*) FROM delayed x WHERE x.topic = t.id) AS r3,
            (SELECT count(*) FROM lease x WHERE x.topic = t.id) AS r4,
            (SELECT count(*) FROM dead x WHERE x.topic = t.id) AS r5) r
        WHERE (coalesce(s.ready, 0), coalesce(s.parked, 0), coalesce(s.delayed, 0), coalesce(s.leased, 0),
          coalesce(s.dead, 0), coalesce(s.alive, 0)) <> (r1, r2, r3, r4, r5, r1 + r2 + r3 + r4)""",
    "limits count what runs": """
        SELECT s.topic, s.inflight, x.n FROM slot s
          CROSS JOIN LATERAL (SELECT count(*) AS n FROM lease l WHERE s.topic IN (0, l.topic)) x
        WHERE s.inflight <> x.n""",
    "keys count what holds their slots": """
        SELECT coalesce(k.topic, x.topic), coalesce(k.adm, x.adm), k.n, x.n FROM keystate k
          FULL JOIN (SELECT topic, adm, count(*) AS n FROM (
              SELECT lane >> 4 AS topic, adm FROM ready UNION ALL SELECT topic, adm FROM lease
              UNION ALL SELECT topic, adm FROM delayed) a WHERE adm IS NOT NULL GROUP BY topic, adm) x
            ON x.topic = k.topic AND x.adm = k.adm
        WHERE coalesce(k.n, 0) <> coalesce(x.n, 0)""",
    "nobody is parked beside a free slot": """
        SELECT p.topic, p.adm FROM parked p JOIN topic t ON t.id = p.topic
          LEFT JOIN keystate k ON k.topic = p.topic AND k.adm = p.adm
        WHERE coalesce(k.n, 0) < t.adm_lim""",
    "no key has more than the most slots it ever had": """
        SELECT k.topic, k.adm, k.n FROM keystate k JOIN topic t ON t.id = k.topic
        WHERE k.n > CASE WHEN t.name = 'keyed' THEN 3 ELSE t.adm_lim END""",
    "groups wait for exactly their pending members": """
        SELECT g.id, g.pending, count(w.id) FROM grp g
          LEFT JOIN watch w ON w.grp = g.id AND w.id = w.member AND w.state = 0
        GROUP BY g.id, g.pending HAVING g.pending <> count(w.id)""",
    "no group outlives its members": "SELECT id FROM grp WHERE pending = 0 AND NOT buried",
}


def wrong(queue: str) -> dict[str, list[Any]]:
    """What does not add up in a queue's tables at this moment, by name."""
    found = {}
    with psycopg.connect(database_url()) as admin:
        admin.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        admin.execute(f'SET search_path = "{queue}"'.encode())
        for name, check in CHECKS.items():
            rows = admin.execute(check.encode()).fetchmany(3)
            if rows:
                found[name] = rows
    return found
