"""Files of a session, beside the same files in the store."""

import errno
import gc
import io
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import unittest

import hearth
from support import HEARTH, Case

PAGE = 256 << 10

# Answers bytes while a thread reads what is not in memory, once it is told to go.
WAITING = """
import hearth, os, sys, threading
file = hearth.Session(sys.argv[1]).open("a")
os.write(1, b"r")
os.read(0, 1)
read = []
reader = threading.Thread(target=lambda: read.append(file.pread(100, 2 * 262144)))
reader.start()
while os.read(0, 1):
    os.write(1, b"a")
reader.join()
sys.exit(not read)
"""


class Starting(Case):
    def test_a_session_uses_the_agents_that_are_up(self):
        self.put("a", b"hello")
        self.up()
        with hearth.Session(self.store) as session:
            self.assertEqual(session.read("a"), b"hello")
            self.assertEqual(len(self.status()), 1)
        self.assertEqual(len(self.status()), 1)
        self.assertEqual(self.status()[0]["node"]["counters"]["store_read_bytes"], 5)

    def test_a_session_names_no_store_where_one_is_up(self):
        self.put("a", b"hello")
        self.up()
        with hearth.Session() as session:
            self.assertEqual(session.store, os.path.realpath(self.store))

    def test_no_store_can_be_chosen_where_none_is_up(self):
        with self.assertRaisesRegex(OSError, r"agents are not up; type hearth.Session\(STORE\)"):
            hearth.Session()

    def test_a_session_starts_an_agent_where_none_is_up_and_ends_it(self):
        with hearth.Session(self.store) as session:
            self.assertEqual(len(self.status()), 1)
            with session.open("a", "wb") as file:
                file.write(b"hello")
        self.assertEqual(self.status(), [])
        self.assertEqual(self.stored("a"), b"hello")

    def test_a_store_that_is_not_there_is_named(self):
        with self.assertRaises(FileNotFoundError) as caught:
            hearth.Session(self.store + "x")
        self.assertIn(self.store + "x", str(caught.exception))
        self.assertRaises(FileNotFoundError, hearth.Session, "")

    def test_words_of_the_command_say_why_there_is_no_session(self):
        self.put("a", b"")
        with self.assertRaisesRegex(OSError, "cannot start a session: error: cannot use"):
            hearth.Session(os.path.join(self.store, "a"))

    def test_a_lacking_command_is_told(self):
        os.environ["HEARTH_BIN"], before = "", HEARTH
        os.environ["PATH"], path = "", os.environ["PATH"]
        try:
            with self.assertRaisesRegex(FileNotFoundError, "install it, or name it in HEARTH_BIN"):
                hearth.Session(self.store)
        finally:
            os.environ["HEARTH_BIN"], os.environ["PATH"] = before, path

    def test_a_command_under_hearth_run_has_its_session_at_once(self):
        self.put("a", b"hello")
        script = (
            "import hearth, sys\n"
            "with hearth.Session() as session:\n"
            "    assert session._entrance._run is None\n"
            "    sys.stdout.buffer.write(session.read('a'))"
        )
        said = self.hearth("run", "--store", self.store, "--", sys.executable, "-c", script)
        self.assertEqual(said, "hello")

    def test_a_fork_reads_on_and_ends_nothing(self):
        self.put("a", b"hello")
        with hearth.Session(self.store) as session:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = 0 if session.read("a") == b"hello" else 1
                    session.close()
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            # Empty bytes would be the end of the helper's session.
            with self.assertRaises(BlockingIOError):
                session._entrance._socket.recv(1, socket.MSG_DONTWAIT)
            self.assertEqual(session.read("a"), b"hello")

    def test_a_child_that_lives_on_holds_no_end_up(self):
        session = hearth.Session(self.store)
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(theirs)
            os.read(ours, 1)
            os._exit(0)
        session.close()
        os.close(theirs)
        os.close(ours)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.status(), [])

    def test_a_session_that_is_pickled_opens_the_same_store(self):
        self.put("a", b"hello")
        self.up()
        with hearth.Session(self.store) as session, pickle.loads(pickle.dumps(session)) as other:
            self.assertEqual(other.read("a"), b"hello")

    def test_a_killed_program_leaves_no_agent(self):
        script = (
            "import hearth, os, sys\n"
            "session = hearth.Session(sys.argv[1])\n"
            "print(session._entrance._run.pid, flush=True)\n"
            "sys.stdin.read(1)\n"
            "os.kill(os.getpid(), 9)"
        )
        words = [sys.executable, "-c", script, self.store]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            command = os.pidfd_open(int(program.stdout.readline()))
            self.assertEqual(len(self.status()), 1)
            program.stdin.close()
        ended, _, _ = select.select([command], [], [], 60)
        os.close(command)
        self.assertTrue(ended)
        self.assertEqual(self.status(), [])

    def test_a_closed_session_says_so(self):
        session = hearth.Session(self.store)
        session.close()
        session.close()
        with self.assertRaisesRegex(ValueError, "the session is closed"):
            session.open("a")


class Files(Case):
    def setUp(self):
        super().setUp()
        self.bytes = os.urandom(3 * PAGE + 77)
        self.put("a", self.bytes)
        self.up()
        self.session = hearth.Session(self.store)
        self.addCleanup(self.session.close)

    def served(self):
        """Reads that needed no system call."""
        return self.status()[0]["node"]["programs"]["reads"]

    def test_every_part_of_a_file_is_read_as_the_store_has_it(self):
        with self.session.open("a") as file:
            for size in (0, 1, 4096, PAGE, PAGE + 1, 2 * PAGE, 4 * PAGE):
                for offset in (0, 1, PAGE - 1, PAGE, 3 * PAGE, 3 * PAGE + 76, 3 * PAGE + 77, 9 * PAGE):
                    for _ in range(2):
                        self.assertEqual(file.pread(size, offset), self.bytes[offset : offset + size], (size, offset))

    def test_a_warm_read_makes_no_system_call(self):
        with self.session.open("a") as file:
            file.pread(4096, 0)
            before = self.served()
            for _ in range(100):
                self.assertEqual(file.pread(4096, 4096), self.bytes[4096:8192])
            self.assertGreaterEqual(self.served() - before, 100)

    def test_a_whole_path_below_the_store_is_taken(self):
        with self.session.open(os.path.join(self.store, "a")) as file:
            self.assertEqual(file.read(5), self.bytes[:5])

    def test_a_link_in_front_of_the_store_is_followed(self):
        os.symlink(self.store, os.path.join(self.dir, "link"))
        with self.session.open(os.path.join(self.dir, "link/a")) as file:
            self.assertEqual(file.read(5), self.bytes[:5])

    def test_a_buffer_is_filled_in_place(self):
        with self.session.open("a") as file:
            for _ in range(2):
                room = bytearray(b"." * 100)
                self.assertEqual(file.pread_into(memoryview(room)[10:90], PAGE - 40), 80)
                self.assertEqual(bytes(room), b"." * 10 + self.bytes[PAGE - 40 : PAGE + 40] + b"." * 10)
            self.assertEqual(file.pread_into(bytearray(), 0), 0)
            with self.assertRaises((TypeError, BufferError)):
                file.pread_into(b"not to be written", 0)
            with self.assertRaises((TypeError, BufferError)):
                file.pread_into(memoryview(bytearray(10))[::2], 0)

    def test_a_view_stays_as_it_was_when_the_file_changes(self):
        with self.session.open("a", "r+b") as file:
            file.pread(100, 0)
            view = file.view(10, 100)
            self.assertTrue(view.readonly)
            file.pwrite(b"x" * PAGE, 0)
            file.truncate(0)
            self.assertEqual(view, self.bytes[10:110])
            self.assertEqual(file.pread(100, 0), b"")

    def test_a_read_sees_the_write_before_it(self):
        with self.session.open("a", "r+b") as file, self.session.open("a") as reader:
            for round in range(50):
                reader.pread(64, 0)
                file.pwrite(bytes([round]) * 64, 0)
                self.assertEqual(reader.pread(64, 0), bytes([round]) * 64)

    def test_a_read_sees_what_a_program_under_hearth_run_wrote(self):
        with self.session.open("a") as file:
            file.pread(64, 0)
            self.hearth("run", "--store", self.store, "--", "sh", "-c", f"printf new | dd of={self.store}/a conv=notrunc")
            self.assertEqual(file.pread(4, 0), b"new" + self.bytes[3:4])

    def test_position_and_ends_are_those_of_a_raw_file(self):
        with self.session.open("a", "r+b") as file:
            self.assertEqual(file.read(10), self.bytes[:10])
            self.assertEqual(file.tell(), 10)
            self.assertEqual(file.seek(-7, io.SEEK_END), len(self.bytes) - 7)
            self.assertEqual(file.read(), self.bytes[-7:])
            self.assertEqual(file.read(5), b"")
            file.seek(4)
            self.assertEqual(file.write(b"four"), 4)
            self.assertEqual(file.tell(), 8)
            file.seek(4)
            self.assertEqual(file.read(4), b"four")
            for bad in (lambda: file.seek(-1), lambda: file.seek(0, 9), lambda: file.pread(-1, 0), lambda: file.pread(1, -1)):
                self.assertRaises(ValueError, bad)

    def test_fsync_and_close_bring_bytes_to_the_store(self):
        with self.session.open("b", "wb") as file:
            file.write(b"first")
            file.fsync()
            self.assertEqual(self.stored("b"), b"first")
            file.write(b" second")
        self.assertEqual(self.stored("b"), b"first second")

    def test_modes_do_what_they_do_elsewhere(self):
        with self.session.open("b", "xb") as file:
            file.write(b"one")
            self.assertRaises(OSError, file.pread, 1, 0)
        with self.assertRaises(FileExistsError):
            self.session.open("b", "xb")
        with self.session.open("b", "ab") as file:
            file.write(b" two")
            self.assertEqual(file.tell(), 7)
        self.assertEqual(self.stored("b"), b"one two")
        with self.session.open("b", "wb"):
            pass
        self.assertEqual(self.stored("b"), b"")
        for mode in ("r", "q", "rw", "bb", ""):
            with self.assertRaisesRegex(ValueError, "the modes are rb, wb"):
                self.session.open("b", mode)

    def test_a_closed_file_reads_nothing_of_another(self):
        file = self.session.open("a")
        file.close()
        with self.session.open("a"):
            for use in (lambda: file.pread(1, 0), lambda: file.read(), file.fileno, file.stat, file.tell):
                with self.assertRaisesRegex(ValueError, "closed file"):
                    use()

    def test_names_are_made_found_moved_and_removed(self):
        self.session.mkdir("d")
        with self.session.open("d/one", "wb") as file:
            file.write(b"1")
        self.assertEqual(self.session.stat("d/one").st_size, 1)
        self.session.rename("d/one", "d/two")
        self.assertEqual(self.session.listdir("d"), ["two"])
        self.assertEqual(os.listdir(os.path.join(self.store, "d")), ["two"])
        self.assertEqual([(name, found.st_size) for name, found in self.session.scandir("d")], [("two", 1)])
        self.session.unlink("d/two")
        self.session.rmdir("d")
        self.assertEqual(self.session.listdir(), ["a"])

    def test_errors_have_number_action_and_path(self):
        for number, use in [
            (errno.ENOENT, lambda: self.session.open("none")),
            (errno.ENOENT, lambda: self.session.stat("none")),
            (errno.EISDIR, lambda: self.session.open(".")),
            (errno.ENOTDIR, lambda: self.session.listdir("a")),
            (errno.ENOENT, lambda: self.session.unlink("none")),
        ]:
            with self.assertRaises(OSError) as caught:
                use()
            self.assertEqual(caught.exception.errno, number)
            self.assertRegex(str(caught.exception), f"cannot (open|look at|list|remove).*{self.store}")

    def test_no_way_leads_out_of_the_store(self):
        self.put("../secret", b"not of the store")
        os.symlink("../secret", os.path.join(self.store, "out"))
        os.symlink(os.path.join(self.dir, "secret"), os.path.join(self.store, "whole"))
        os.symlink("a", os.path.join(self.store, "within"))
        for path in ("../secret", "out", "whole", os.path.join(self.dir, "secret"), self.store + "/../secret", "/etc/passwd"):
            with self.assertRaises(OSError) as caught:
                self.session.open(path)
            self.assertEqual(caught.exception.errno, errno.EXDEV, path)
        self.assertEqual(self.session.read("within"), self.bytes)

    def test_others_run_while_a_read_waits_for_the_agent(self):
        words = [sys.executable, "-c", WAITING, self.store]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as program:
            self.assertEqual(program.stdout.read(1), b"r")
            agent = self.status()[0]["pid"]
            os.kill(agent, signal.SIGSTOP)
            try:
                program.stdin.write(b"g")
                # The read has begun before a few of these are answered, each of which takes the interpreter's lock.
                for _ in range(100):
                    program.stdin.write(b"q")
                    self.assertTrue(select.select([program.stdout], [], [], 30)[0], "the lock is held")
                    program.stdout.read(1)
            finally:
                os.kill(agent, signal.SIGCONT)
            program.stdin.close()
            self.assertEqual(program.wait(60), 0)

    def test_a_gone_agent_is_an_error_that_says_what_to_do(self):
        with self.session.open("a") as file:
            file.pread(4096, 0)
            os.kill(self.status()[0]["pid"], signal.SIGKILL)
            with self.assertRaisesRegex(OSError, "the agent is gone; open a new session"):
                while True:
                    file.pread(4096, 0)
            self.assertFalse(self.session.is_up())

    def test_a_file_that_is_dropped_is_closed(self):
        file = self.session.open("a")
        fd = file.fileno()
        del file
        gc.collect()
        self.assertRaises(OSError, os.fstat, fd)

    def test_a_file_keeps_its_session(self):
        file = hearth.Session(self.store).open("a")
        gc.collect()
        self.assertEqual(file.read(5), self.bytes[:5])
        file.session.close()

    def test_ending_a_session_closes_its_files(self):
        file = self.session.open("b", "wb")
        file.write(b"bytes")
        self.session.close()
        self.assertTrue(file.closed)
        self.assertEqual(self.stored("b"), b"bytes")


class Rights(Case):
    def test_a_file_that_may_not_be_read_is_refused_though_it_is_cached(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        self.put("a", b"secret")
        os.chmod(os.path.join(self.store, "a"), 0o600)
        self.up("--allow-other")
        with hearth.Session(self.store) as session, session.open("a") as file:
            self.assertEqual(file.read(), b"secret")
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.setgroups([])
                    os.setresgid(65534, 65534, 65534)
                    os.setresuid(65534, 65534, 65534)
                    session.open("a")
                except PermissionError:
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)


class Checkpoints(Case):
    def setUp(self):
        super().setUp()
        self.up()
        self.session = hearth.Session(self.store)
        self.addCleanup(self.session.close)

    def test_a_checkpoint_has_its_name_once_it_is_whole(self):
        self.put("model", b"old")
        with self.session.checkpoint("model") as file:
            file.write(b"new and longer")
            self.assertEqual(self.stored("model"), b"old")
        self.assertEqual(self.stored("model"), b"new and longer")
        self.assertEqual(os.listdir(self.store), ["model"])

    def test_a_checkpoint_that_fails_leaves_the_one_before(self):
        self.put("model", b"old")
        with self.assertRaises(KeyError):
            with self.session.checkpoint("model") as file:
                file.write(b"torn")
                raise KeyError
        self.assertEqual(self.stored("model"), b"old")
        self.assertEqual(os.listdir(self.store), ["model"])

    def test_a_sync_that_fails_gives_no_name(self):
        with self.assertRaisesRegex(OSError, "No space"):
            with self.session.checkpoint("model") as file:
                file.write(b"bytes")

                def fsync():
                    raise OSError(errno.ENOSPC, "No space")

                file.fsync = fsync
        self.assertEqual(os.listdir(self.store), [])

    def test_a_killed_writer_leaves_no_torn_file(self):
        self.put("model", b"old")
        script = (
            "import hearth, os, sys\n"
            "session = hearth.Session(sys.argv[1])\n"
            "with session.checkpoint('model') as file:\n"
            "    file.write(b'torn'); file.fsync(); os.kill(os.getpid(), 9)"
        )
        done = subprocess.run([sys.executable, "-c", script, self.store], timeout=60)
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertEqual(self.stored("model"), b"old")


if __name__ == "__main__":
    unittest.main()
