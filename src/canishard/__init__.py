"""Can I shard? Measured compatibility tables for torch.distributed."""

__version__ = "0.1.0"
