"""The data set that is published, and whoever asks it: a terminal, a test suite, a library."""
