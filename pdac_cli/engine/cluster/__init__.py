"""Units of work on a cluster, by Dask.distributed: the only place that knows of it."""
