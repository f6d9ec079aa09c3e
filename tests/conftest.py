"""Hypothesis profiles: `default` gives the same answer on every machine, `soak` looks for new trouble."""

from hypothesis import HealthCheck, settings

settings.register_profile("default", derandomize=True, deadline=None, print_blob=True)
settings.register_profile(
    "soak",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")
