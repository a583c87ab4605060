"""Links between files of the repository as links between pages of the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs/"

SHARED_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/README.md": "tests.md",
}
"""Files outside of docs/ that are pages of the site, and the path of the page below docs/."""
_SOURCES = {page: source for source, page in SHARED_PAGES.items()}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^( *)```.*?^\1```", flags=re.MULTILINE | re.DOTALL)


def resolve_links(markdown: str, page: str, root: Path = ROOT) -> str:
    """Return the text of a page with each relative link as a link to a page of the site, or as plain text.

    Args:
        markdown: the text, with links relative to its file in the repository.
        page: path of the page below docs/.
        root: the repository.

    A link to a page of docs/ stays. A link to a file that is no page becomes its text. A link to no file stays as it
    is, so that MkDocs reports it.

    >>> resolve_links("[tests](docs/testing.md) and [code](simzk/api.py)", "index.md")
    '[tests](testing.md) and code'
    >>> resolve_links("[how](../CONTRIBUTING.md#rules), [none](no.md)", "testing.md")
    '[how](contributing.md#rules), [none](no.md)'
    """
    folder = posixpath.dirname(_SOURCES.get(page, DOCS + page))

    def resolve(link: re.Match[str]) -> str:
        mark, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        to = SHARED_PAGES.get(path)
        if to is None and path.startswith(DOCS) and posixpath.splitext(path)[1]:
            to = path.removeprefix(DOCS)
        if to is not None:
            return f"{mark}[{text}]({posixpath.relpath(to, posixpath.dirname(page) or '.')}{anchor})"
        return text if (root / path).exists() else link[0]

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):  # code is not text: a link in it is none
        parts += [_LINK.sub(resolve, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(resolve, markdown[end:])])
