"""usage: page_queries.py PAGE

Asks DuckDB every question of a page, in the current directory: one line of JSON each, its rows.
"""

import json
import re
import sys

import duckdb

for query in re.findall(r"```sql\n(.*?)```", open(sys.argv[1]).read(), re.S):
    print(json.dumps(duckdb.sql(query).fetchall(), default=str))
