# SPDX-License-Identifier: MIT
"""What `heaptape tune` says of its winner: settings to use only for a saving that is a reason to change them."""

import pytest
from heaptape.common.tables import render_text
from heaptape.show.tables.decision_tables import conclusion, tune_answer, wrapped

MIB = 1 << 20
LONG = "a_tunable_with_a_long_name=18446744073709551615 another_one=0.5 a_third=10m"


def found(ratio, default_bytes=100 * MIB, error=1.0, breaks=False, standing="better"):
    """The results of a search whose winner has this ratio to the default."""

    def point(label, of_default, **more):
        figures = {"w": {"rss-peak": of_default * default_bytes}}
        about = {
            "label": label or "default",
            "variants": [],
            "settings": {label: "1"} if label else {},
            "figures": figures,
        }
        about |= {"ratios": {"rss-peak": of_default}, "front": True, "refuted": False, "limits_kept": True, "again": []}
        return about | {"environment": {"CONF": label}} | more

    points = [point("", 1.0, limits_kept=not breaks), point("best", ratio)]
    points += [point(f"{LONG}{number}", 1.1) for number in range(30)]
    return {
        "search": {
            "allocator": {"name": "planted"}, "workloads": {"w": "0"}, "objectives": ["rss-peak"],
            "figures": ["rss-peak"],
        },
        "points": points,
        "winner": points[1] | {"standing": standing, "ratios_again": {}},
        "tunables": [{"name": f"t{number}", "importance": 0.1} for number in range(9)],
        "error_percent": {"rss-peak": error},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (found(0.9), "Set: CONF=best"),
        (found(0.985), "less than 2 %"),
        (found(0.97, error=5.0), "within the error of 5 %"),
        (found(0.7, default_bytes=MIB), "less than 1 MiB"),
        (found(0.9999, breaks=True), "Set: CONF=best"),
    ],
)
def test_a_saving_within_its_error_or_below_the_floors_is_no_reason_to_change(data, says):
    first, *_ = conclusion(data)
    assert says in first
    assert first.startswith("No reason to change") == (not says.startswith("Set:"))


def test_the_answer_fits_a_screen_of_24_lines_of_80_columns():
    data = found(0.9)
    text = render_text([tune_answer(data)], 80) + wrapped([*conclusion(data), "All points are in a file."])
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    assert "best" in text.splitlines()[2]
