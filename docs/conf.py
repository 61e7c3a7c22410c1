"""Sphinx's settings for the documentation: `make docs` builds the site, and each warning fails it.

The sources are Markdown pages all over the repository, so that their links work on GitHub and on the site alike.
docs/index.md holds the navigation. A page that is in no `toctree` is a warning.
"""

import revd
from revd.rewards import REWARDS

project = "revd"
author = "the authors of revd"
version = release = revd.__version__
html_title = f"revd {release}"

# The repository is the source directory: see `make docs`.
root_doc = "docs/index"
include_patterns = ["docs/**.md", "results/**.md", "examples/**.md", "*.md"]
# README.md is the front page on GitHub, PYPI.md on PyPI, and docs/index.md on the site.
exclude_patterns = ["README.md", "PYPI.md", ".*", "build", "runs", "revd", "tests", "**/__pycache__"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]

# Quotes stay as they are: `weight="auto"` is also written without backticks.
smartquotes = False
# Anchors are GitHub's, of headings down to the fourth level.
myst_heading_anchors = 4

# In docstrings, a name in backticks is a link if the reference has it, and code if not.
default_role = "py:obj"
# Blocks without a language are equations, tables of numbers and the like.
highlight_language = "none"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
napoleon_numpy_docstring = False
# Fields of a dataclass are the parameters of its constructor.
napoleon_custom_sections = [("Attributes", "params_style")]
html_theme = "furo"
# Opens docs/index.html from the root of the site.
html_extra_path = ["site"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"

#: Pages below a page in the navigation; the pages themselves need no directive that GitHub would show as it is.
CHILDREN = {"docs/methods/README": [f"{reward.__name__} <{name}>" for name, reward in REWARDS.items()]}


def add_children(app, docname, source):
    """Append the navigation of a page's children to its source."""
    if docname in CHILDREN:
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", *CHILDREN[docname], "```", ""])


def setup(app):
    """Connect the hooks above to Sphinx."""
    app.connect("source-read", add_children)
