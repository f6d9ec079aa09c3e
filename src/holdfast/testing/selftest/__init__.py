"""Self-tests that anybody can run on their own machine, also as ``holdfast selftest``.

Each is a plain function that blocks, tells its progress, and returns an ``Outcome``.
"""
