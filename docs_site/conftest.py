"""Examples of this package run without MkDocs, which only the hooks import."""

collect_ignore = ["hooks.py"]
