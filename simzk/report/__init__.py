"""Tables to one page: self-contained HTML, with nothing to fetch.

Rules of this room:
  - tables in, HTML out: a table is columns by name (`table.Columns`, which `pyarrow.Table.to_pydict` gives too);
    nothing of a cluster, a file or a clock is known here;
  - the same tables make the same bytes;
  - whatever stands in a table is text: it is escaped where it is written, and nowhere else;
  - plots are plotly's; its script stands in the page, once.
"""
