# SPDX-License-Identifier: MIT
"""What tried proposals saved stands beside their estimates. What is proposed for a layout: holders.examples."""

import pandas as pd
from heaptape.features.blame import pass_table as holders_table
from heaptape.features.blame import proposals
from heaptape.features.blame.test.blames import decoded
from heaptape.results.schema import Results
from synthetic_blame import OS_PAGE, make_run, planted

PAGES = 256


def test_results_are_beside_their_estimates_the_best_first():
    """The experiment's memory is full OS pages; its position 4,000 is the recording's 4,000."""
    before, after = planted("fragmentation", pages=PAGES), planted("none", pages=PAGES // 16)
    runs = [make_run("glibc", before), make_run("glibc", after) | {"variant": "function=make_survivor=segregate"}]
    names = ["function=make_survivor=segregate", "function=make_survivor=early"]
    about = [
        {"name": name, "groups": [], "labels": {"glibc": f"glibc:{name}"}, "positions": [[4000, 4000]]}
        for name in names
    ]
    file = Results("r.json", {"workload": {"name": "w"}, "runs": runs, "whatif": about})
    found = decoded(runs[0])
    rows = proposals.tried(file, proposals.estimates(found, "glibc", 4000), {"glibc": 4000})
    assert rows["experiment"].tolist() == names
    assert rows["found_saving_bytes"].iloc[0] == (PAGES - PAGES // 16) * OS_PAGE
    assert rows["found_left_bytes"].iloc[0] == 0
    assert pd.isna(rows["found_saving_bytes"].iloc[1])
    table = holders_table.ranking(rows)
    assert [row[1].text for row in table.rows] == names
    assert table.rows[1][3].text == "–"
