"""The walk over releases: what installs and measures them, in nox's own process, and never imports torch."""
