"""The file system of hearth:// URLs, under the libraries that use it."""

import os

import fsspec
import numpy
import pandas
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import zarr

from hearth import fs
from support import Case


class Urls(Case):
    def setUp(self):
        super().setUp()
        fsspec.register_implementation("hearth", fs.HearthFileSystem, clobber=True)
        self.up()
        self.addCleanup(self.forget)
        self.url = "hearth://" + self.store

    def forget(self):
        fs.HearthFileSystem.clear_instance_cache()
        while fs.SESSIONS:
            fs.SESSIONS.popitem()[1].close()

    def test_the_store_of_a_path_is_the_one_that_is_up(self):
        self.put("a", b"hello")
        with fsspec.open(self.url + "/a") as file:
            self.assertEqual(file.read(), b"hello")
        with self.assertRaisesRegex(FileNotFoundError, "no agents are up for a store that holds it"):
            fsspec.open("hearth:///elsewhere/a").open()

    def test_the_store_can_be_named(self):
        self.put("a", b"hello")
        with fsspec.open(self.url + "/a", store=self.store) as file:
            self.assertEqual(file.read(), b"hello")

    def test_an_agent_that_was_started_anew_is_found(self):
        self.put("a", b"hello")
        files, path = fsspec.url_to_fs(self.url + "/a")
        self.assertEqual(files.cat(path), b"hello")
        self.hearth("down", "--force")
        self.hearth("up", "--store", self.store)
        self.assertEqual(files.cat(path), b"hello")

    def test_names_are_listed_made_and_removed(self):
        files, top = fsspec.url_to_fs(self.url)
        files.makedirs(top + "/d/e")
        files.makedirs(top + "/d/e", exist_ok=True)
        self.assertRaises(FileExistsError, files.makedirs, top + "/d/e")
        files.pipe(top + "/d/e/f", b"bytes")
        self.assertEqual(files.ls(top + "/d", detail=False), [top + "/d/e"])
        self.assertEqual(files.find(top), [top + "/d/e/f"])
        self.assertEqual(files.glob(top + "/*/e/*"), [top + "/d/e/f"])
        found = files.info(top + "/d/e/f")
        self.assertEqual((found["type"], found["size"]), ("file", 5))
        self.assertTrue(files.isdir(top + "/d"))
        self.assertFalse(files.exists(top + "/none"))
        files.cp(top + "/d/e/f", top + "/d/g")
        files.mv(top + "/d/g", top + "/d/h")
        self.assertEqual(self.stored("d/h"), b"bytes")
        self.assertEqual(files.cat_file(top + "/d/h", -3, None), b"tes")
        self.assertEqual(files.cat_ranges([top + "/d/h"], [1], [3]), [b"yt"])
        files.rm(top + "/d", recursive=True)
        self.assertEqual(os.listdir(self.store), [])

    def test_text_and_appends_go_through_buffers(self):
        with fsspec.open(self.url + "/t", "w") as file:
            file.write("eins\nzwei\n")
        with fsspec.open(self.url + "/t", "ab") as file:
            file.write(b"drei\n")
        with fsspec.open(self.url + "/t", "r") as file:
            self.assertEqual(list(file), ["eins\n", "zwei\n", "drei\n"])

    def test_pandas_reads_and_writes_by_url(self):
        table = pandas.DataFrame({"a": range(1000), "b": [f"row {i}" for i in range(1000)]})
        table.to_csv(self.url + "/t.csv", index=False)
        table.to_parquet(self.url + "/t.parquet")
        pandas.testing.assert_frame_equal(pandas.read_csv(self.url + "/t.csv"), table)
        pandas.testing.assert_frame_equal(pandas.read_parquet(self.url + "/t.parquet"), table)
        pandas.testing.assert_frame_equal(pandas.read_parquet(self.store + "/t.parquet"), table)

    def test_pyarrow_scans_a_dataset(self):
        files, top = fsspec.url_to_fs(self.url)
        table = pyarrow.table({"a": list(range(10000))})
        pyarrow.dataset.write_dataset(
            table, top + "/set", format="parquet", filesystem=pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files))
        )
        found = pyarrow.dataset.dataset(top + "/set", filesystem=files)
        self.assertEqual(found.to_table(filter=pyarrow.dataset.field("a") > 9990).num_rows, 9)

    def test_zarr_keeps_an_array(self):
        numbers = numpy.arange(10000).reshape(100, 100)
        array = zarr.create_array(self.url + "/z", shape=(100, 100), chunks=(10, 100), dtype="i8")
        array[:] = numbers
        again = zarr.open_array(self.url + "/z", mode="r")
        numpy.testing.assert_array_equal(again[25:75], numbers[25:75])

    def test_numpy_fills_an_array_in_place(self):
        numbers = numpy.arange(100000)
        self.put("n", numbers.tobytes())
        with fs.session_of(self.store).open("n") as file:
            room = numpy.empty_like(numbers)
            self.assertEqual(file.pread_into(room, 0), room.nbytes)
            numpy.testing.assert_array_equal(room, numbers)
            numpy.testing.assert_array_equal(numpy.frombuffer(file.view(80, 800), dtype=numbers.dtype), numbers[10:110])
