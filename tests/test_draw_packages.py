"""The picture of the packages in docs/architecture.md."""

import pytest

from tools.draw_packages import BEGIN, END, main, picture

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
PICTURE = """```mermaid
graph TD
    roof --> walls
    walls --> base
    walls --> core
    garden
```"""


@pytest.fixture
def package(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "house"


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"# Packages\n{BEGIN}\nold\n{END}\nmore\n")
    return path


def test_the_picture_leaves_out_arrows_that_follow_from_others(package):
    assert picture(package) == PICTURE


def test_the_picture_is_drawn_between_its_markers(package, page):
    assert main([], package=package, page=page) == 0
    assert page.read_text() == f"# Packages\n{BEGIN}\n{PICTURE}\n{END}\nmore\n"
    assert main(["--check"], package=package, page=page) == 0


def test_check_fails_for_an_outdated_picture_and_changes_nothing(package, page, capsys):
    before = page.read_text()
    assert main(["--check"], package=package, page=page) == 1
    assert "outdated; run python tools/draw_packages.py" in capsys.readouterr().out
    assert page.read_text() == before
    main([], package=package, page=page)
    (package / "garden/tree.py").write_text("import house.base.stone")
    assert main(["--check"], package=package, page=page) == 1


def test_a_page_without_markers_is_reported(package, page, capsys):
    page.write_text("# Packages\n")
    assert main([], package=package, page=page) == 1
    assert "are missing" in capsys.readouterr().out
    assert page.read_text() == "# Packages\n"
