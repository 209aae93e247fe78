"""How Sphinx makes the site of the pages in docs/: `bash scripts/site`. The pages are plain Markdown, as GitHub shows
them; ``site_pages.py`` adds what only the site has.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import chapters
import site_pages

import transduce

ROOT = Path(__file__).resolve().parents[2]

project, version, release = "transduce", transduce.__version__, transduce.__version__
author, language = "the authors of transduce", "en-GB"
extensions = ["myst_nb", "mathml", "sphinx.ext.autodoc", "sphinx_copybutton"]

# The folder of the sources is the clone, so links from docs/ to other files need no other form than on GitHub.
root_doc = "docs/index"
include_patterns = ["docs/**.md", "book/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/results/*.md"]
exclude_patterns = [".*", "build", "dist", "runs", "src", "tests", "examples", "benchmarks/results/page.md"]

myst_heading_anchors = 4
smartquotes = False  # they make a dash of the two hyphens of an option
highlight_language = "none"  # blocks without a language are commands

chapters.prepare(ROOT)
# An error, or anything on standard error, fails the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(chapters.cache(ROOT))
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "error"
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = "Open this cell", "Close this cell"
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
toc_object_entries = False

html_theme = "furo"
html_title = f"transduce {release}"
html_theme_options = {
    "light_css_variables": {"color-code-background": "#f1f4f8"},
    "dark_css_variables": {"color-code-background": "#22262c"},
}
html_static_path = ["static", "../../book/static"]
html_css_files = ["site.css", "touch.css"]
html_js_files = ["touch.js"]
html_copy_source = False  # the sources are in the clone
html_show_sphinx = False
html_show_copyright = False
html_additional_pages = {"index": "first.html"}
templates_path = ["templates"]
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"


def setup(app: Any) -> None:
    """Lets ``site_pages`` change the text of a page when Sphinx has read it."""
    app.connect("source-read", lambda app, name, text: site_pages.complete(name, text))
