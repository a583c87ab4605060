"""The Spark session and what all data sources share: jobs, options, Arrow columns."""
