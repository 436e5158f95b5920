# SPDX-License-Identifier: GPL-2.0-only
import json

rows = [{"id": i, "name": f"n{i * 7919 % 10007}", "values": [i, i + 1, str(i)]} for i in range(20000)]
index = {}
for row in json.loads(json.dumps(rows)):
    index.setdefault(row["name"], []).append(row)
print(len(index), sum(len(v) for v in index.values()))
