# python -m venv, and pip install of a wheel that is made here.
# needs: python3

prepare() {
    /usr/bin/python3 - <<'PY'
import zipfile
info = "cases-1.0.dist-info"
files = {"cases/__init__.py": "value = 42\n", **{f"cases/m{k}.py": f"x = {k}\n" * 50 for k in range(40)},
         f"{info}/METADATA": "Metadata-Version: 2.1\nName: cases\nVersion: 1.0\n",
         f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: cases\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
with zipfile.ZipFile("cases-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
PY
}
work() {
    /usr/bin/python3 -m venv "own$host"
    "own$host/bin/pip" install --quiet --no-index --no-deps --disable-pip-version-check cases-1.0-py3-none-any.whl
    "own$host/bin/python" -c 'import cases; assert cases.value == 42'
}
check() { each_host one; }
one() { "own$1/bin/python" -c 'import cases, cases.m39; print(cases.value, cases.m39.x)'; "own$1/bin/python" -m pip list --disable-pip-version-check 2>/dev/null | grep cases; ls "own$1/lib/"python3*/site-packages/cases | grep -c 'py$'; }
