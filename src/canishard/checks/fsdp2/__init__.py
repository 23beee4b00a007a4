"""FSDP2, which is fully_shard."""
