# HDF5 and NumPy: datasets written in pieces, resized and read by others; arrays mapped and saved.
# needs: h5dump python3.h5py

prepare() { /usr/bin/python3 -c 'import h5py, numpy'; }
work() {
    /usr/bin/python3 - "$host" <<'PY'
import sys, h5py, numpy
host = int(sys.argv[1])
data = numpy.arange(200_000, dtype="f8").reshape(200, 1000) + host
with h5py.File(f"own{host}.h5", "w") as file:
    rows = file.create_dataset("rows", (0, 1000), maxshape=(None, 1000), chunks=(16, 1000), compression="gzip")
    for at in range(0, 200, 25):
        rows.resize(at + 25, axis=0)
        rows[at:at + 25] = data[at:at + 25]
        file.flush()
    file.attrs["host"] = host
with h5py.File(f"own{host}.h5", "r+") as file:
    file["rows"][0] = -1.0
    assert (file["rows"][1:] == data[1:]).all()
numpy.save(f"own{host}.npy", data)
mapped = numpy.lib.format.open_memmap(f"map{host}.npy", mode="w+", dtype="i4", shape=(1000, 100))
mapped[:] = numpy.arange(100, dtype="i4") * (host + 1)
mapped.flush()
del mapped
PY
}
check() {
    each_host one
    /usr/bin/python3 - "$hosts" <<'PY'
import sys, h5py, numpy
for host in range(int(sys.argv[1])):
    with h5py.File(f"own{host}.h5") as file:
        print(host, file["rows"][:].sum(), file.attrs["host"])
    print(numpy.load(f"own{host}.npy").sum(), numpy.load(f"map{host}.npy", mmap_mode="r").sum())
PY
}
one() { h5dump -d /rows "own$1.h5" | tail -n +2 | sha256sum; sha256sum <"own$1.npy"; sha256sum <"map$1.npy"; }
