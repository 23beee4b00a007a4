"""How fast the launcher is beside what people use now: ``nox -s bench`` writes reports/BENCHMARKS.md.

Scripts, no part of the package. ``__main__`` walks through rounds, ``block`` runs cases under one harness in a
process of its own, ``harnesses`` are how cases can be run, ``bodies`` what runs in each case, ``report`` is pure.
"""
