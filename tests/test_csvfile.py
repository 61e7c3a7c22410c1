import csv
import os
from contextlib import closing

import pytest

from revd.csvfile import CsvFile


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path, *entries, columns=("steps",)):
    with closing(CsvFile(path, columns)) as file:
        for entry in entries:
            file.append(entry)


def test_rows_are_on_disk_at_once(tmp_path):
    path = tmp_path / "a.csv"
    with closing(CsvFile(path, ["steps", "return"])) as file:
        file.append({"steps": 10, "return": -1.5})
        assert path.read_text() == "steps,return\n10,-1.5\n"


def test_a_later_name_is_a_new_column(tmp_path):
    write(tmp_path / "a.csv", {"steps": 1}, {"steps": 2, "loss": 0.5}, {"steps": 3})
    assert rows(tmp_path / "a.csv") == [
        {"steps": "1", "loss": ""},
        {"steps": "2", "loss": "0.5"},
        {"steps": "3", "loss": ""},
    ]


def test_text_with_commas_and_quotes_survives(tmp_path):
    text = 'a "quoted", word\nand a line'
    write(tmp_path / "a.csv", {"steps": 1, "note": text})
    write(tmp_path / "a.csv", {"steps": 2})
    assert [row["note"] for row in rows(tmp_path / "a.csv")] == [text, ""]


def test_a_file_goes_on_with_its_own_columns(tmp_path):
    write(tmp_path / "a.csv", {"steps": 1, "b": 2})
    write(tmp_path / "a.csv", {"steps": 2, "b": 3}, columns=("b", "steps"))
    assert (tmp_path / "a.csv").read_text() == "steps,b\n1,2\n2,3\n"


@pytest.mark.parametrize("cut", range(len("3,4\n")))
def test_a_row_that_was_cut_off_anywhere_is_dropped(tmp_path, cut):
    path = tmp_path / "a.csv"
    write(path, {"steps": 1, "b": 2})
    with path.open("a") as file:
        file.write("3,4\n"[:cut])
    write(path, {"steps": 5, "b": 6})
    assert path.read_text() == "steps,b\n1,2\n5,6\n"


def test_a_file_cut_off_in_its_header_starts_anew(tmp_path):
    (tmp_path / "a.csv").write_text("ste")
    write(tmp_path / "a.csv", {"steps": 1})
    assert (tmp_path / "a.csv").read_text() == "steps\n1\n"


def test_a_damaged_number_is_named_with_its_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("steps,b\n1,2\nx,3\n")
    with closing(CsvFile(path)) as file, pytest.raises(ValueError, match=r"a\.csv is damaged: a row has steps 'x'"):
        file.keep_until("steps", 5)


def test_rows_can_be_put_on_disk_for_good(tmp_path, monkeypatch):
    synced = []
    with closing(CsvFile(tmp_path / "a.csv", ["steps"])) as file:
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
        file.sync()
    assert synced == [(tmp_path / "a.csv").stat().st_ino]


def test_rows_can_be_taken_back(tmp_path):
    path = tmp_path / "a.csv"
    write(path, *({"steps": step} for step in (10, 20, 30)))
    with closing(CsvFile(path)) as file:
        file.keep_until("steps", 20)
        file.append({"steps": 25})
    assert [row["steps"] for row in rows(path)] == ["10", "20", "25"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"], "nothing temporary is left"
