import csv
import os
from contextlib import closing

import pytest

from revd.storage.csv_file import CsvFile, Limit


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


def test_a_continued_file_keeps_its_columns(tmp_path):
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


def test_a_file_cut_off_in_its_header_starts_over(tmp_path):
    (tmp_path / "a.csv").write_text("ste")
    write(tmp_path / "a.csv", {"steps": 1})
    assert (tmp_path / "a.csv").read_text() == "steps\n1\n"


DAMAGE = [b"x,3", b"2", b"2,3,4", b"2,\xff", b"2,\0", b'"2,3', b'2,"3', b"2\r,3", b"", b"2," + b"x" * 200_000]


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_damage_before_the_limit_is_named_with_its_line(tmp_path, damage):
    path = tmp_path / "a.csv"
    path.write_bytes(b"steps,b\n1,2\n" + damage + b"\n3,4\n")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"a\.csv is damaged: line 3 is not a row of 2 values"):
        CsvFile(path, until=Limit("steps", 5))
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_damage_after_the_limit_is_dropped(tmp_path, damage):
    path = tmp_path / "a.csv"
    path.write_bytes(b"steps,b\n1,2\n2,3\n" + damage + b"\n6,4\n" + damage + b"\n7,8\n" + damage)
    with closing(CsvFile(path, until=Limit("steps", 5))) as file:
        assert file.last == {"steps": "2", "b": "3"}
    assert path.read_text() == "steps,b\n1,2\n2,3\n"


@pytest.mark.parametrize("header", [b"stebs,b", b"\xff", b"a\rb", b'"steps,b'])
def test_a_damaged_header_is_named(tmp_path, header):
    (tmp_path / "a.csv").write_bytes(header + b"\n1,2\n")
    with pytest.raises(ValueError, match=r"a\.csv is damaged: its first line has no column 'steps'"):
        CsvFile(tmp_path / "a.csv", until=Limit("steps", 5))


def test_the_callback_can_prevent_a_replacement(tmp_path):
    allowed = [True, False]

    def check():
        if not allowed.pop(0):
            raise RuntimeError("not yours any more")

    path = tmp_path / "a.csv"
    with closing(CsvFile(path, ["steps"], before_replacing=check)) as file:
        file.append({"steps": 1})
        path.write_text("of another")
        with pytest.raises(RuntimeError, match="not yours"):
            file.append({"steps": 2, "loss": 3})
    assert path.read_text() == "of another"


def test_rows_written_to_the_old_file_do_not_arrive(tmp_path):
    path = tmp_path / "a.csv"
    with closing(CsvFile(path, ["steps"])) as old:
        old.append({"steps": 1})
        write(path, {"steps": 2})
        old.append({"steps": 3})
    assert path.read_text() == "steps\n1\n2\n"


def test_opening_writes_once(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    write(path, {"steps": 1}, {"steps": 9})
    replaced = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda *names: (replaced.append(names), real(*names)))
    CsvFile(path, until=Limit("steps", 5)).close()
    assert len(replaced) == 1
    assert path.read_text() == "steps\n1\n"


def test_rows_can_be_flushed(tmp_path, monkeypatch):
    synced = []
    with closing(CsvFile(tmp_path / "a.csv", ["steps"])) as file:
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
        file.sync()
    assert synced == [(tmp_path / "a.csv").stat().st_ino]


def test_rows_beyond_a_limit_are_dropped(tmp_path):
    path = tmp_path / "a.csv"
    write(path, *({"steps": step} for step in (10, 20, 30)))
    with closing(CsvFile(path, until=Limit("steps", 20))) as file:
        file.append({"steps": 25})
    assert [row["steps"] for row in rows(path)] == ["10", "20", "25"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"], "nothing temporary is left"
