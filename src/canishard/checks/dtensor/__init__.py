"""DTensor: how a tensor is laid out over ranks and moved between layouts."""
