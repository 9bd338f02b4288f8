"""Sphinx's settings for the documentation; build.sh calls it."""
import os

project = "inlay"
author = "The inlay authors"
copyright = "the inlay authors"
version = release = os.environ["INLAY_DOCS_VERSION"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "none"  # indented blocks are commands and what they print
html_theme = "alabaster"
html_theme_options = {"description": "ONNX models on plug-in execution providers", "fixed_sidebar": True,
                      "page_width": "1100px", "sidebar_width": "230px", "show_powered_by": False}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
smartquotes = False
