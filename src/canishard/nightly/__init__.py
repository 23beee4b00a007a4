"""The nightly run: what broke since the last confirmed state, confirmed, traced to its cause, and told once."""
