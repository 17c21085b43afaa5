# Files that hosts have opened and not read yet when another host renames over them or removes them.
# quick
# needs: python3

work() {
    /usr/bin/python3 - "$host" "$hosts" <<'PY'
import os, sys, time

me, hosts = map(int, sys.argv[1:])

def put(name, text):
    with open(name, "w") as file:
        file.write(text)

def await_name(name):
    end = time.monotonic() + 60
    while not os.path.exists(name):
        assert time.monotonic() < end, f"{name} does not come"
        time.sleep(0.01)

for k in range(4):
    old = f"old {k}\n" * 1000
    names = [f"replaced.{k}", f"removed.{k}"]
    if me == 0:
        for name in names:
            put(name, old)
        put(f"made.{k}", "")
        for host in range(1, hosts):
            await_name(f"opened.{k}.{host}")
        put(f"new.{k}", f"new {k}\n")
        os.rename(f"new.{k}", names[0])
        os.unlink(names[1])
        put(f"gone.{k}", "")
    else:
        await_name(f"made.{k}")
        files = [open(name) for name in names]
        put(f"opened.{k}.{me}", "")
        await_name(f"gone.{k}")
        for file in files:
            assert file.read() == old, f"{file.name} is something else"
PY
}
check() { cat replaced.*; ls; }
