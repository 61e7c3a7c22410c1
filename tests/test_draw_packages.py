"""The picture of the packages in docs/architecture.md."""

import re
from xml.etree import ElementTree

import pytest

from tools.draw_packages import main, package_imports, without_detours
from tools.layered_graph import draw

FILES = {
    "__init__.py": "from house.roof import top",
    "names.py": "import os",
    "base/__init__.py": "",
    "base/stone.py": "",
    "walls/__init__.py": "",
    "walls/brick.py": "from house.base import stone\nfrom house import names",
    "roof/__init__.py": "",
    "roof/top.py": "from house.base.stone import x\n\n\ndef build():\n    import house.walls.brick",
    "garden/__init__.py": "",
}
ARROWS = {"roof": {"walls"}, "walls": {"base", "core"}, "base": set(), "core": set(), "garden": set()}


@pytest.fixture
def package(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "house"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "packages.svg"


def corners(picture):
    """The upper left corner of each box."""
    found = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)".*?<text.*?>(\w+)</text>', picture)
    return {name: (float(x), float(y)) for x, y, name in found}


def test_arrows_that_follow_from_others_are_left_out(package):
    assert without_detours(package_imports(package)) == ARROWS


def test_each_package_is_a_box_and_stands_left_of_what_it_imports():
    picture = draw(ARROWS, "The house")
    ElementTree.fromstring(picture)
    at = corners(picture)
    assert at.keys() == ARROWS.keys()
    assert len(set(at.values())) == len(at)
    assert all(at[name][0] < at[other][0] for name, others in ARROWS.items() for other in others)
    assert picture.count('<path d="M') - 1 == sum(map(len, ARROWS.values())), "one is the head of the arrows"


def test_a_long_arrow_has_a_place_in_each_column_between():
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": {"d"}, "d": set()}
    long = max(re.findall(r'<path d="(M.*?)"/>', draw(graph, "")), key=len)
    assert long.count("C") == 3
    heights = {y for _, y in corners(draw(graph, "")).values()}
    assert len(heights) > 1, "its boxes do not lie under the arrow"


def test_columns_are_sorted_so_that_arrows_do_not_cross():
    at = corners(draw({"a": {"z"}, "b": {"y"}, "top": {"a", "b"}, "y": set(), "z": set()}, ""))
    assert (at["a"][1] < at["b"][1]) == (at["z"][1] < at["y"][1])


def test_check_fails_for_an_outdated_picture_and_changes_nothing(package, file, capsys):
    assert main(["--check"], package=package, file=file) == 1
    assert "outdated; run python tools/draw_packages.py" in capsys.readouterr().out
    assert not file.exists()
    assert main([], package=package, file=file) == 0
    assert main(["--check"], package=package, file=file) == 0
    (package / "garden/tree.py").write_text("import house.base.stone")
    assert main(["--check"], package=package, file=file) == 1
