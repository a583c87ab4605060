"""Reports: tables as one self-contained HTML page.

Rules of this package:
  - the input is tables, the output is HTML: a table is columns by name (`table.Columns`, as `pyarrow.Table.to_pydict`
    returns them); this package does not depend on clusters, files or clocks;
  - equal tables give equal bytes;
  - table cells are text, and are escaped where they are written;
  - charts are SVG; style and script are page.css and page.js, without other libraries.
"""
