"""How many examples the tests of properties try."""

from hypothesis import HealthCheck, settings


def examples(most: int) -> settings:
    """So many. None is timed, as on a busy machine any may take long; and all may write into one folder."""
    return settings(max_examples=most, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
