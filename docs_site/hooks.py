"""Hooks of MkDocs: pages that are generated, and links that leave the folder docs/.

Rules of this package:
  - only this module imports MkDocs; all others are pure functions from the repository to Markdown;
  - README, CONTRIBUTING and the like stay where they are, and are pages of the site too (links.py);
  - no text stands twice: a page is written by hand in docs/, or generated from the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from docs_site.links import ROOT, SHARED_PAGES, resolve_links
from docs_site.markdown import edges_as_table
from docs_site.pages import PAGES

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated, and those that are files elsewhere in the repository."""
    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    for source, page in SHARED_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Resolve the links of a page that leave docs/, and show its flowcharts as tables."""
    return edges_as_table(resolve_links(markdown, page.file.src_uri))
