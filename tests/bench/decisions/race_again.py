# SPDX-License-Identifier: MIT
# ruff: noqa
"""Races again on recorded rounds, drawn from one half of a program's rounds and judged by the other: do the constants
matter, does the choice depend on any one program, what would stopping earlier cost? For docs/measurements/advice.md:

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
V = {
    "now": (1, 2, 0.65),
    "scale .5": (0.5, 2, 0.65),
    "scale 2": (2, 2, 0.65),
    "contra 1": (1, 1, 0.65),
    "contra 3": (1, 3, 0.65),
    "contra 99": (1, 99, 0.65),
    "live alone": (1e3, 2, 0.65),
    "live alone .95": (1e3, 2, 0.95),
}
V |= {f"likely {x}": (1, 2, x) for x in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)}
for key, m in T.items():
    rng = random.Random(str(key))
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
            for mode in ("race", "fixed"):
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
                        R = Raced("today", tuple(racers), runs=[{l: Cost(1e9 * v) for l, v in one.items()} for one in made])
                        live = R.live
                        if mode == "race":
                            ws = post(live, m.predicted)
                            p = pick_of(live, ws, 0.65)
                            e = expected(ws, p)
                            traj.append((spent, p, tr[p], e))
                            if last:
                                picks = {}
                                for n, (s, c, l) in V.items():
                                    picks[n] = pick_of(live, post(live, m.predicted, s, c), l)
                        else:
                            ws = post(live, m.predicted)
                            fp = pick_of(live, ws, 0.65)
                            rows.append((half, tr, traj, picks, fp, spent))
    out[key] = (m.truth(), m.runs, rows)
keys = list(out)
V = list(next(iter(out.values()))[2][0][3])


def cost(k, name):
    tr0, _, rows = out[k]
    return statistics.mean(r[1][r[3][name]] for r in rows)


def best(k):  # best fixed pick by the other half, averaged
    rows = out[k][2]
    labels = rows[0][1]
    return min(statistics.mean(r[1][l] for r in rows) for l in labels)


print(
    "races on one half of the rounds, cost by the other: points over the best fixed pick; mean over programs", len(keys)
)
for n in V:
    t = [cost(k, n) - best(k) for k in keys]
    print(
        f"{n:16} mean {statistics.mean(t):.2f} twelve {statistics.mean(x for k, x in zip(keys, t) if k[0] == 't'):.2f} eleven {statistics.mean(x for k, x in zip(keys, t) if k[0] == 'e'):.2f} median {statistics.median(t):.2f}"
    )


def loo(names):
    d = []
    ch = Counter()
    for k in keys:
        c = min(names, key=lambda n: sum(cost(o, n) - best(o) for o in keys if o != k))
        ch[c] += 1
        d.append(cost(k, c) - cost(k, "now"))
    return ch.most_common(), statistics.mean(d), min(d), max(d)


print("leave one out over all variants:", loo(V))
rng = random.Random(2)
d = []
ch = Counter()
for _ in range(500):
    s = keys[:]
    rng.shuffle(s)
    h = len(s) // 2
    c = min(V, key=lambda n: sum(cost(o, n) - best(o) for o in s[:h]))
    ch[c] += 1
    d.append(statistics.mean(cost(o, c) - cost(o, "now") for o in s[h:]))
print(
    "split halves of programs: chosen on one half, less `now` on the other: mean %.2f, quartiles %s"
    % (statistics.mean(d), [round(x, 2) for x in statistics.quantiles(d)]),
    ch.most_common(5),
)
print("stopping at a look when the expected regret is below d: mean cost over `now`, share of runs")
for dd in (0, 0.1, 0.25, 0.5, 1, 1.5, 2, 3):
    c = []
    u = []
    for k in keys:
        for half, tr, traj, picks, fp, sp in out[k][2]:
            e = next((x for x in traj if x[3] < dd), traj[-1])
            c.append(e[2] - traj[-1][2])
            u.append(e[0] / traj[-1][0])
    print(dd, f"{statistics.mean(c):+.2f} points, {100 * statistics.mean(u):.0f} % of the runs")
e = []
f = []
w = []
ww = []
ru = []
wt = []
for k in keys:
    tr0, runs, rows = out[k]
    b = best(k)
    for half, tr, traj, picks, fp, sp in rows:
        p = traj[-1][1]
        full = min(tr0.values())
        e.append(tr[p])
        f.append(tr[fp])
        ru.append(traj[-1][0] / max(sp, 1))
        w.append(tr0[p] - full > 2)
        wt.append(tr0[p] > 2)
        if tr0[p] - full > 2:
            ww.append(tr0[p] - full)
print(
    "elimination vs fixed: cost %+.2f points; runs %.0f %%"
    % (statistics.mean(e) - statistics.mean(f), 100 * statistics.mean(ru))
)
print(
    "wrong by more than 2 points (by all rounds): %.0f %% of races, then %.1f points; worse than today by 2: %.1f %%"
    % (100 * statistics.mean(w), statistics.mean(ww), 100 * statistics.mean(wt))
)
print(
    "expected regret said at the end vs got:",
    statistics.mean(r[2][-1][3] for k in keys for r in out[k][2]),
    statistics.mean(r[1][r[2][-1][1]] - best(k) for k in keys for r in out[k][2]),
)
