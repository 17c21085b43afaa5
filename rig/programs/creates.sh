# As mdtest does: all hosts make files in one directory, look at those of others, rename and remove.
# quick

prepare() { mkdir all; }
work() {
    /usr/bin/python3 - "$host" <<'PY'
import os, sys
host = sys.argv[1]
for k in range(120):
    with open(f"all/{host}-{k}.tmp", "w") as file:
        file.write(f"{host} {k}\n" * 20)
    os.rename(f"all/{host}-{k}.tmp", f"all/{host}-{k}")
    assert os.stat(f"all/{host}-{k}").st_size == len(f"{host} {k}\n") * 20
for k in range(0, 120, 3):
    os.remove(f"all/{host}-{k}")
    assert not os.path.exists(f"all/{host}-{k}")
PY
}
check() { ls all | wc -l; digest all; }
