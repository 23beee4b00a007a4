"""Collectives of torch.distributed, called by themselves."""
