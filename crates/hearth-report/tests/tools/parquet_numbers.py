"""usage: parquet_numbers.py EVENTS STREAMS FILES GAPS TOTALS

What DuckDB and pandas find in tables of a trace: one line of JSON each.
"""

import json
import sys

import duckdb
import pandas

events, streams, files, gaps, totals = sys.argv[1:]


def rows(query):
    return [list(row) for row in duckdb.sql(query).fetchall()]


print(json.dumps({
    "by_op": rows(f"""select op, count(*), sum(bytes), sum(took) from '{events}'
                      group by op order by op"""),
    "by_place": rows(f"""select host, rank, pid, tid, count(*) from '{events}'
                         group by all order by all"""),
    "epoch": rows(f"select epoch_ns(min(start)), epoch_ns(max(start)) from '{events}'")[0],
    "failed": rows(f"select count(*) from '{events}' where failed")[0][0],
    "buffered": rows(f"select count(*) from '{events}' where buffered")[0][0],
    "join": rows(f"""select count(*) from '{events}' e join '{files}' f
                     on e.path = f.path and f.stripe_bytes = 1048576""")[0][0],
    "lost": rows(f"select sum(attempted) - sum(stored) from '{streams}'")[0][0],
    "gaps": rows(f"select stream, first, count, epoch_ns(after) from '{gaps}'"),
    "totals": rows(f"select op, lost, count, bytes from '{totals}'"),
    "facts": rows(f"""select decode(key), decode(value) from parquet_kv_metadata('{events}')
                      order by 1"""),
}))

frame = pandas.read_parquet(events)
print(json.dumps({
    "rows": [
        [int(row.start.value), row.took, row.op, row.path, row.offset, row.asked, row.result,
         row.request, row.seq]
        for row in frame.itertuples()
    ],
}))
