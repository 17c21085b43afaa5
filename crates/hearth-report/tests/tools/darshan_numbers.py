"""usage: darshan_numbers.py LOG

What PyDarshan finds in a log, as one line of JSON.
"""

import json
import sys

import darshan

report = darshan.DarshanReport(sys.argv[1], read_all=True)
job = report.metadata["job"]


def records(module, to_df):
    if module not in report.records:
        return []
    if not to_df:
        return report.records[module].to_df()
    frames = report.records[module].to_df()
    counters, times = frames["counters"], frames["fcounters"]
    return counters.merge(times, on=["id", "rank"]).to_dict("records")


accesses = []
for record in records("DXT_POSIX", False):
    for kind in ("read", "write"):
        for row in record[kind + "_segments"].to_dict("records"):
            accesses.append(
                [kind, int(record["rank"]), record["hostname"], int(row["offset"]),
                 int(row["length"]), row["start_time"], row["end_time"]]
            )

print(json.dumps({
    "nprocs": job["nprocs"],
    "start": [job["start_time_sec"], job["start_time_nsec"]],
    "run_time": job["run_time"],
    "exe": report.metadata["exe"],
    "lost": job["metadata"]["lost_records"],
    "mounts": [list(mount) for mount in report.data["mounts"]],
    "partial": {name: bool(of["partial_flag"]) for name, of in report.modules.items()},
    "names": {str(key): name for key, name in report.name_records.items()},
    "posix": records("POSIX", True),
    "stdio": records("STDIO", True),
    "accesses": accesses,
}, default=float))
