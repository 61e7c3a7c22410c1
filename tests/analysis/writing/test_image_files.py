from matplotlib.figure import Figure

from revd.analysis.drawing.figures import captioned_figure
from revd.analysis.writing.image_files import save_example, save_figure


def test_equal_figures_give_equal_files(tmp_path):
    figure, body = captioned_figure(2.0, 2.0, "caption")
    body.subplots()
    for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        first, second = (save_figure(figure, tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
        assert first == second
        assert first.startswith(start)


def test_names_with_dollar_signs_are_no_formulas(tmp_path):
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], label="$\\nowhere$")
    axes.set_title("$\\frac$")
    axes.legend()
    save_figure(figure, tmp_path / "names.png")
    texts = [axes.title, *axes.get_legend().get_texts()]
    assert [(text.get_text(), text.get_parse_math()) for text in texts] == [("$\\frac$", False), ("$\\nowhere$", False)]


def test_the_example_is_saved_twice(tmp_path):
    png, pdf = save_example(Figure(figsize=(1, 1)), tmp_path / "new" / "folder")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
