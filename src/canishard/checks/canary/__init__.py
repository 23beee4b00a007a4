"""Where these fail, the ranks cannot talk at all."""
