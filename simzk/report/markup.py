"""Text of others in HTML: neither markup nor control characters, and no change of the direction of a line."""

from __future__ import annotations

import html

from simzk.printable import printable_lines


def escape(text: str, *, quote: bool = True) -> str:
    r"""Return a text as HTML.

    Args:
        text: the text.
        quote: whether it may stand in an attribute.

    >>> escape('<b title="\u202e">')
    '&lt;b title=&quot;\\u202e&quot;&gt;'
    """
    return html.escape(printable_lines(text), quote=quote)
