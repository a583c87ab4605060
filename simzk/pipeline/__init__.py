"""PySpark: sweeps of failures over layouts of millions of partitions."""
