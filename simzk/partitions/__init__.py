"""The columnar partition table: elections, ISR changes, assignment, layouts as batch functions."""
