# Makes a file longer by many small writes, and looks at it in every way: what was written shows at once.
import mmap, os, subprocess, sys
LINE, STEPS = 480, 40
made = os.open('f', os.O_RDWR | os.O_CREAT, 0o644)
for warm in range(20):
    os.pwrite(made, b'w' * LINE, warm * LINE)
end = 20 * LINE
def write(fill):
    global end
    os.lseek(made, end, os.SEEK_SET)
    for _ in range(STEPS):
        assert os.write(made, fill * LINE) == LINE
        end += LINE
def last():
    return os.pread(made, LINE, end - LINE)
looks = {
    b'a': lambda: os.fstat(made).st_size == end,
    b'b': lambda: os.stat('f').st_size == end,
    b'c': lambda: os.lseek(made, 0, os.SEEK_CUR) == end,
    b'd': lambda: os.lseek(made, 0, os.SEEK_END) == end,
    b'e': lambda: last() == b'e' * LINE,
    b'f': lambda: mmap.mmap(made, end, prot=mmap.PROT_READ)[end - 1] == ord('f'),
    b'g': lambda: int(subprocess.check_output(['stat', '-c', '%s', 'f'])) == end,
    b'h': lambda: subprocess.check_output(['tail', '-c', '480', 'f']) == b'h' * LINE,
    b'i': lambda: open('f', 'rb').read()[-LINE:] == b'i' * LINE,
    b'j': lambda: os.write(os.open('f', os.O_WRONLY | os.O_APPEND), b'j') == 1 and os.fstat(made).st_size == end + 1,
}
for fill, is_seen in looks.items():
    write(fill)
    assert is_seen(), fill
# Whoever shares the descriptor writes behind what was written.
shared = os.dup(made)
os.lseek(made, end, os.SEEK_SET)
for step in range(STEPS):
    os.write([made, shared][step % 2], bytes([step]) * LINE)
if os.fork() == 0:
    os.write(made, b'z')
    os._exit(0)
os.wait()
assert os.lseek(shared, 0, os.SEEK_CUR) == end + STEPS * LINE + 1
os.ftruncate(made, end)
assert os.fstat(made).st_size == end
os.close(shared); os.close(made)
print(os.path.getsize('f'))
