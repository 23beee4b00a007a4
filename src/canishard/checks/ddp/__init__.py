"""DistributedDataParallel."""
