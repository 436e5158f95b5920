# SPDX-License-Identifier: MIT
# ruff: noqa
"""Races again on recorded rounds, drawn from one half of a program's rounds and judged by the other half (`half`) and by
all rounds (`wrong`): what does it cost to stop when the expected regret is below so many points? For
docs/measurements/advice.md:

    python -m tests.bench.decisions.race_again TIMES
"""

import csv, math, random, statistics, sys, json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from heaptape.advise.confirm import Raced
from heaptape.advise.costs import Cost
from heaptape.decide import weighing, verdict
from heaptape.decide.cpu import ESTIMATED, Cpu
from heaptape.decide.weighing import Live
from heaptape.decide.worth import is_reason
from heaptape.results.comparing import race

D = "docs/measurements/data/"


@dataclass
class M:
    rounds: list = field(default_factory=list)
    predicted: dict = field(default_factory=dict)
    runs: int = 0
    replayed: bool = True

    def truth(self, use=None):
        rounds = use or self.rounds
        med = {l: statistics.median(math.log(r[l] / r["today"]) for r in rounds) for l in rounds[0]}
        return {l: 100 * math.expm1(v) for l, v in med.items()}


def twelve():
    out = {}
    for r in csv.DictReader(open(D + "advice.csv")):
        m = out.setdefault(r["program"], M())
        if r["step"].startswith("round "):
            if len(m.rounds) < int(r["step"][6:]):
                m.rounds.append({})
            if r["name"] in ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc"):
                m.rounds[-1]["today" if r["name"] == "glibc" else r["name"]] = float(r["value"])
        elif r["step"] == "tape" and r["low"] and r["name"] in ("jemalloc", "tcmalloc", "mimalloc", "tbbmalloc"):
            p = [float(r[k]) for k in ("value", "low", "high")]
            m.predicted[r["name"]] = Cpu(ESTIMATED, *p, *p)
    for n, m in out.items():
        one = statistics.median(v for r in m.rounds for v in r.values())
        m.runs = max(int(35 / one), 12)
        m.runs = min(m.runs, 150)
    return out


def eleven():
    out = {}
    for r in csv.DictReader(open(D + "race_rounds.csv")):
        m = out.setdefault(r["program"], M())
        if int(r["round"]) == len(m.rounds):
            m.rounds.append({})
        m.rounds[-1][r["allocator"]] = float(r["cpu_s"])
    for r in csv.DictReader(open(D + "race_predicted.csv")):
        m = out[r["program"]]
        m.runs = int(r["runs"])
        if r["percent"]:
            p = [float(r[k]) for k in ("percent", "low", "high")]
            m.predicted[r["allocator"]] = Cpu(ESTIMATED, *p, *p)
    return out


def able(m):
    labels = [l for l in m.rounds[0] if l != "today"]
    if not m.predicted:
        return labels
    pr = {l: m.predicted[l] for l in labels if l in m.predicted}
    mb = {l: c for l, c in pr.items() if c.may_be_reason}
    best = min((c.ms for c in mb.values()), default=0)
    return [l for l, c in sorted(mb.items(), key=lambda x: x[1].ms) if c.ms_low <= best] + [
        l for l in labels if l not in pr
    ]


import numpy as np, pickle

Z = np.random.default_rng(1).standard_normal((400, 6))


def post(live, predicted, scale=1.0, contra=2.0):
    weighing.NORMAL_95 = 1.96 / scale
    weighing.CONTRADICTS = contra
    out = {}
    for l, v in live.items():
        w = weighing.weighed(v, predicted.get(l))
        out[l] = w
    weighing.NORMAL_95 = 1.96
    weighing.CONTRADICTS = 2.0
    return out


def pick_of(live, ws, likely):
    ok = [l for l, v in live.items() if v.standing not in (race.BEATEN, race.NEAR)]
    if not ok:
        return "today"
    l = min(ok, key=lambda l: ws[l].percent)
    w = ws[l]
    return l if w.chance >= likely and -w.percent >= 2 else "today"


def expected(ws, pick):
    labels = list(ws)
    mu = np.array([w.percent for w in ws.values()] + [0.0])
    sd = np.array([(w.high - w.low) / 3.92 for w in ws.values()] + [0.0])
    x = mu + sd * Z[:, : len(mu)]
    i = len(labels) if pick == "today" else labels.index(pick)
    return float((x[:, i] - x.min(1)).mean())


T = {**{("t", k): v for k, v in twelve().items()}, **{("e", k): v for k, v in eleven().items()}}
N = int(sys.argv[1])
out = {}
for key, m in T.items():
    rng = random.Random("b" + str(key))
    rows = []
    for i in range(N):
        idx = list(range(len(m.rounds)))
        rng.shuffle(idx)
        h = len(idx) // 2
        for half in (0, 1):  # races on one half, truth by the other
            a = [m.rounds[j] for j in (idx[:h] if half else idx[h:])]
            b = [m.rounds[j] for j in (idx[h:] if half else idx[:h])]
            tr = m.truth(b)
            racers = able(m)
            running = list(racers)
            made = []
            spent = 1
            traj = []
            for mode in ("race",):
                running = list(racers)
                made = []
                spent = 1
                while running and (spent + 1 + len(running) <= m.runs or not made):
                    d = rng.choice(a)
                    made.append({l: d[l] for l in ("today", *running)})
                    spent += 1 + len(running)
                    last = False
                    if mode == "race":
                        running = race.goes_on(made, racers, "today")
                    elif len(made) >= 64:
                        running = []
                    last = not running or spent + 1 + len(running) > m.runs
                    if last or (mode == "race" and len(made) in race.LOOKS):
                        R = Raced(
                            "today", tuple(racers), runs=[{l: Cost(1e9 * v) for l, v in one.items()} for one in made]
                        )
                        live = R.live
                        if mode == "race":
                            ws = post(live, m.predicted)
                            p = pick_of(live, ws, 0.65)
                            e = expected(ws, p)
                            traj.append((spent, p, tr[p], e))
                            if last:
                                rows.append((half, tr, traj))
    out[key] = (m.truth(), m.runs, rows)

keys = list(out)
DD = (0, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2)
per = {}
for k in keys:
    tr0, _, rows = out[k]
    full = min(tr0.values())
    for dd in DD:
        got = [next((x for x in r[2] if x[3] < dd), r[2][-1]) for r in rows]
        per[k, dd] = dict(
            wrong=statistics.mean(tr0[x[1]] - full > 2 for x in got),
            half=statistics.mean(r[1][x[1]] - min(r[1].values()) > 2 for r, x in zip(rows, got)),
            worse=statistics.mean(tr0[x[1]] > 2 for x in got),
            cost=statistics.mean(r[1][x[1]] for r, x in zip(rows, got))
            - statistics.mean(r[1][r[2][-1][1]] for r in rows),
            runs=statistics.mean(x[0] / r[2][-1][0] for r, x in zip(rows, got)),
        )
m = lambda dd, f, ks=keys: statistics.mean(per[k, dd][f] for k in ks)
for dd in DD:
    print(dd, {f: round(100 * m(dd, f) if f != "cost" else m(dd, f), 3) for f in per[keys[0], 0]})
ch = Counter()
loo = defaultdict(list)
for k in keys:
    o = [x for x in keys if x != k]
    dd = max(d for d in DD if m(d, "wrong", o) <= m(0, "wrong", o) + 1e-12)
    ch[dd] += 1
    for f in per[k, dd]:
        loo[f].append(per[k, dd][f])
        loo["was " + f].append(per[k, 0][f])
print("leave one out", ch, {f: round(statistics.mean(v), 4) for f, v in loo.items()})
for k in keys:
    print(k, {f: (round(per[k, 0][f], 3), round(per[k, 0.5][f], 3)) for f in per[k, 0]})
