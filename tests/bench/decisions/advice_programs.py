# SPDX-License-Identifier: MIT
"""Programs with their inputs.

TWELVE were used in no document before: four make more than ten million calls, three are servers, bwa and povray have
threads, iverilog and zsh fork. Debian: raptor2-utils octave openscad gdal-bin duktape iverilog zsh bwa povray unbound
dnsperf slapd ldap-utils h2o nghttp2-client. SIX are of the kinds on which advice was first checked by hand, but shorter
(yosys a quarter). Debian: yosys spamd spamc mupdf-tools pdns-server pdns-backend-bind dnsperf python3-rdflib luajit.
"""

import json
import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FEATURE_TYPES = ("wood", "lake", "road")


@dataclass(frozen=True)
class Program:
    """`command`, `load` (of a server) and `make` (once, after the inputs are written) as a shell splits them; `inputs`:
    file -> text.
    """

    command: str
    inputs: Callable[[random.Random], dict[str, str]]
    load: str = ""
    make: str = ""


def prepare(program: Program) -> None:
    """Writes the inputs of a program to this folder, where one is missing."""
    texts = program.inputs(random.Random(61))
    if all(map(os.path.exists, texts)):
        return
    for name, text in texts.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if program.make:
        subprocess.run(program.make, shell=True, check=True)


def _graph(chance: random.Random, nodes: int, number: int) -> str:
    lines = (
        f'e:n{chance.randrange(nodes)} e:p{chance.randrange(20)} "text {i}", e:n{chance.randrange(nodes)} ;\n'
        f"  e:q{chance.randrange(9)} {chance.random():.4f} .\n"
        for i in range(number)
    )
    return "@prefix e: <http://example.org/> .\n" + "".join(lines)


def _places(chance: random.Random) -> dict[str, str]:
    shape = ((0, 0), (0.1, 0), (0.12, 0.05), (0.1, 0.1), (0, 0.1), (0, 0))
    features = []
    for i in range(10000):
        x, y = chance.uniform(-170, 170), chance.uniform(-80, 80)
        ring = [[round(x + dx, 4), round(y + dy, 4)] for dx, dy in shape]
        about = {"id": i, "name": f"place {i * 7919 % 10007}", "kind": chance.choice(FEATURE_TYPES)}
        features.append(
            {"type": "Feature", "properties": about, "geometry": {"type": "Polygon", "coordinates": [ring]}}
        )
    return {"places.geojson": json.dumps({"type": "FeatureCollection", "features": features})}


def _design(chance: random.Random) -> dict[str, str]:
    modules = (MODULE.replace("NUMBER", str(i)).replace("BIT", str(i % 32)) for i in range(250))
    chain = "".join(f"wire [31:0] v{i + 1}; m{i} u{i}(clk, v{i}, x, v{i + 1});\n" for i in range(250))
    top = f"module top(input clk, input [31:0] x, output [31:0] y);\nwire [31:0] v0 = x;\n{chain}assign y = v250;\n"
    return {"design.v": "".join(modules) + top + "endmodule\n"}


def _reads(chance: random.Random) -> dict[str, str]:
    genome = "".join(chance.choices("ACGT", k=400000))
    reads = []
    for i in range(6000):
        at = chance.randrange(len(genome) - 150)
        read = list(genome[at : at + 150])
        for _ in range(5):
            read[chance.randrange(150)] = chance.choice("ACGT")
        reads.append(f"@q{i}\n{''.join(read)}\n+\n{'I' * 150}\n")
    return {"genome.fa": f">g\n{genome}\n", "reads.fq": "".join(reads)}


def _scene(chance: random.Random) -> dict[str, str]:
    def ball() -> str:
        at = ", ".join(f"{chance.uniform(-4, 4):.3f}" for _ in range(3))
        colour = ", ".join(f"{chance.random():.2f}" for _ in range(3))
        look = f"texture {{ pigment {{ rgb <{colour}> }} finish {{ reflection .2 }} }}"
        return f"sphere {{ <{at}>, {chance.uniform(0.02, 0.1):.3f} {look} }}\n"

    return {"scene.pov": SCENE + "".join(ball() for _ in range(12000))}


def _zone(chance: random.Random) -> dict[str, str]:
    hosts = (f'h{i} A 10.0.{i // 250}.{i % 250 + 1}\nh{i} TXT "host {i}"\n' for i in range(5000))
    asked = (f"h{chance.randrange(5000)}.example.org {chance.choice(('A', 'TXT', 'AAAA'))}\n" for _ in range(90000))
    start = "$ORIGIN example.org.\n$TTL 3600\n@ SOA ns hostmaster 1 7200 3600 86400 3600\n@ NS ns\nns A 127.0.0.1\n"
    return {"example.zone": start + "".join(hosts), "queries.txt": "".join(asked)}


def _people(chance: random.Random) -> dict[str, str]:
    root = "dn: dc=example,dc=org\nobjectClass: dcObject\nobjectClass: organization\no: example\ndc: example\n\n"
    people = (PERSON.format(i=i, n=i * 7919 % 1009) for i in range(2000))
    asked = "".join(f"u{chance.randrange(2000)}\n" for _ in range(900))
    return {"slapd.conf": SLAPD, "people.ldif": root + "".join(people), "asked.txt": asked, "people/about": ""}


def _chip(chance: random.Random) -> dict[str, str]:
    def unit(i: int) -> str:
        a, b, s = chance.randrange(1, 32), chance.randrange(1, 32), chance.randrange(1, 31)
        cases = zip(range(i, 32, 4), (f"a * {b}", "a - b", "t", "r[a[2:0]]", f"s < t ? a : b + {a}"))
        return UNIT.format(i=i, s=s, cases="".join(f" 5'd{at}: q <= {what};" for at, what in cases))

    chain = "".join(f"wire [31:0] v{i + 1}; m{i} u{i}(clk, v{i}, x, x[{i}+:5], v{i + 1});\n" for i in range(6))
    top = f"module top(input clk, input [31:0] x, output [31:0] y);\nwire [31:0] v0 = x;\n{chain}assign y = v6;\n"
    return {"chip.v": "".join(map(unit, range(6))) + top + "endmodule\n"}


def _mails(chance: random.Random) -> dict[str, str]:
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=chance.randrange(2, 10))) for _ in range(3000)]
    words += ["free", "offer", "money", "click", "http://example.com/x"]
    texts = ("\n".join(" ".join(chance.choices(words, k=11)) for _ in range(120)) for _ in range(5))
    return {f"mail{i}": f"{MAIL.format(i=i)}\n{text}\n" for i, text in enumerate(texts)}


def _document(chance: random.Random) -> dict[str, str]:
    def page() -> str:
        lines = (" ".join("".join(chance.choices("abcdefghijk", k=chance.randrange(2, 9))) for _ in range(12))
                 for _ in range(65))  # fmt: skip
        text = "".join(f"({line}) Tj T*\n" for line in lines)
        curves = []
        for _ in range(150):
            x, y = chance.randrange(500), chance.randrange(800)
            ends = " ".join(str(at + chance.randrange(90)) for at in (x, y, x, y, x, y))
            curves.append(f"{chance.random():.2f} 0.5 {chance.random():.2f} rg {x} {y} m {ends} c f\n")
        return f"BT /F1 9 Tf 40 800 Td 11 TL\n{text}ET\n{''.join(curves)}"

    pages = range(4, 164, 2)  # their numbers; each one's contents follow it
    parts = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>"]
    parts[1] = f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{one} 0 R' for one in pages)}] >>"
    for one in pages:
        shown = page()
        parts += [PAGE.format(contents=one + 1), f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream"]
    text, places = "%PDF-1.4\n", "0000000000 65535 f \n"
    for i, part in enumerate(parts):
        places += f"{len(text):010} 00000 n \n"
        text += f"{i + 1} 0 obj\n{part}\nendobj\n"
    number = len(parts) + 1
    end = f"trailer << /Size {number} /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    return {"document.pdf": f"{text}xref\n0 {number}\n{places}{end}"}


CELLS = """
words = cell(1, 1000); s = struct(); n = 0;
for i = 1:1000 words{i} = sprintf('w%d', mod(i * 7919, 1009)); end
for i = 1:1000 k = words{i}; if isfield(s, k) s.(k){end + 1} = i; else s.(k) = {i}; end; end
names = fieldnames(s);
for i = 1:numel(names)
  n += numel(strjoin(cellfun(@num2str, s.(names{i}), 'UniformOutput', false), ','));
end
disp(n)
"""
SCAD = """$fn = 14;
union() for (i = [0:2]) translate([i * 6, 0, 0]) difference() { sphere(4); cylinder(h = 20, r = 2, center = true); }
"""
JS = """
var seen = {}, total = 0;
for (var i = 0; i < 120000; i++) {
  var key = "k" + (i * 7919 % 20011);
  (seen[key] = seen[key] || []).push({ at: i, text: "item " + i });
  if (seen[key].length > 3) {
    total += seen[key].map(function (one) { return one.text; }).join(",").length;
    seen[key] = [];
  }
}
print(total, Object.keys(seen).length);
"""
MODULE = """module mNUMBER(input clk, input [31:0] a, input [31:0] b, output reg [31:0] q);
wire [31:0] s = (a + b) ^ {a[15:0], b[31:16]};
genvar g; generate for (g = 0; g < 32; g = g + 1) begin : bits wire w = s[g] & a[31 - g] | b[g]; end endgenerate
always @(posedge clk) if (s[BIT]) q <= s * 5; else q <= q + {31'd0, bits[BIT].w};
endmodule
"""
ZSH = """
typeset -A count
for i in {1..90}; do
  text=$(for j in {1..700}; do echo "w$(((i * 7919 + j * 104729) % 997)) $j"; done)
  for word number in ${=text}; do count[$word]+="$number,"; done
done
print ${#count} ${#${(j::)count}}
"""
SCENE = """#version 3.7;
global_settings { assumed_gamma 1 }
camera { location <0, 3, -9> look_at 0 }
light_source { <9, 20, -20> 1 }
"""
UNBOUND = """server:
 interface: 127.0.0.1@5391
 do-daemonize: no
 chroot: ""
 username: ""
 directory: "."
 pidfile: ""
 use-syslog: no
 num-threads: 1
auth-zone:
 name: "example.org."
 zonefile: "example.zone"
 for-upstream: no
"""
SLAPD = """include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix "dc=example,dc=org"
directory people
index uid eq
"""
PERSON = """dn: uid=u{i},dc=example,dc=org
objectClass: inetOrgPerson
uid: u{i}
cn: Name {i}
sn: N{n}

"""
H2O = """num-threads: 1
user: root
listen: {host: 127.0.0.1, port: 8391}
hosts: {default: {paths: {/: {file.dir: site}}}}
"""
UNIT = """module m{i}(input clk, input [31:0] a, input [31:0] b, input [4:0] op, output reg [31:0] q);
reg [31:0] r [0:7];
wire [31:0] s = (a + b) ^ {{a[15:0], b[31:16]}};
wire [31:0] t = a >> b[4:0];
always @(posedge clk) begin r[op[2:0]] <= s; case (op){cases} default: q <= q + {s}; endcase end
endmodule
"""
MAIL = """From: A B <a{i}@example.org>
To: c@example.org
Subject: offer {i}
Message-ID: <{i}@example.org>
Date: Mon, 30 Nov 2026 02:00:00 +0000
"""
PAGE = """<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {contents} 0 R
/Resources << /Font << /F1 3 0 R >> >> >>"""
PDNS = """launch=bind
bind-config=named.conf
local-address=127.0.0.1
local-port=5392
socket-dir=.
"""
NAMED = 'zone "example.org" { type master; file "example.zone"; };'
RDF = """
import rdflib
graph = rdflib.Graph().parse("small.ttl")
asked = "SELECT ?o (COUNT(?s) AS ?n) WHERE { ?s ?p ?o . ?s <http://example.org/q1> ?v . FILTER(?v > 0.3) } GROUP BY ?o"
print(len(graph.query(asked)), len(graph.serialize(format="xml")))
"""
LUA = """
local seen, words, count = {}, {}, 0
for i = 3, 70000000, 2 do
  local at = i % 65536
  seen[at] = (seen[at] or 0) + math.sqrt(i) % 3
  if seen[at] > 99 then seen[at] = nil; count = count + 1 end
end
for i = 1, 4000000 do words[i % 997 + 1] = "w" .. i end
print(count, #table.concat(words))
"""
SEARCH = "ldapsearch -x -LLL -H ldap://127.0.0.1:3891 -b dc=example,dc=org -f asked.txt (uid=%s) cn sn"
SPAMC = "spamc -x -d 127.0.0.1 -p 7831 <mail$i >/dev/null || exit"
TWELVE = {
    "rapper": Program("rapper -q -i turtle -o ntriples graph.ttl",
                      lambda chance: {"graph.ttl": _graph(chance, 3000, 120000)}),
    "octave": Program("octave-cli --no-gui --quiet cells.m", lambda _: {"cells.m": CELLS}),
    "openscad": Program("openscad -o balls.stl balls.scad", lambda _: {"balls.scad": SCAD}),
    "ogr2ogr": Program("ogr2ogr -f GeoJSON -t_srs EPSG:3857 /vsistdout/ places.geojson", _places),
    "duk": Program("duk items.js", lambda _: {"items.js": JS}),
    "iverilog": Program("iverilog -o design.vvp design.v", _design),
    "zsh": Program("zsh -f words.zsh", lambda _: {"words.zsh": ZSH}),
    "bwa": Program("bwa mem -t 2 -v 1 genome.fa reads.fq", _reads, make="bwa index genome.fa"),
    "povray": Program("povray scene.pov +W250 +H180 +WT2 -D +Oscene.png", _scene),
    "unbound": Program("unbound -c unbound.conf", lambda chance: {"unbound.conf": UNBOUND} | _zone(chance),
                       "dnsperf -s 127.0.0.1 -p 5391 -d queries.txt -n 1"),
    "slapd": Program("slapd -d 0 -f slapd.conf -h ldap://127.0.0.1:3891", _people, SEARCH,
                     "slapadd -f slapd.conf -l people.ldif"),
    "h2o": Program("h2o -c h2o.conf", lambda _: {"h2o.conf": H2O, "site/index.html": "text " * 800},
                   "h2load -n 200000 -c 10 -m 10 http://127.0.0.1:8391/"),
}  # fmt: skip
SIX = {
    "yosys": Program("yosys -q -p 'synth -top top -noabc' chip.v", _chip),
    "spamd": Program("spamd -L -x -i 127.0.0.1 -p 7831 --max-children=1 -s null", _mails,
                     f"sh -c 'for i in 0 1 2 3 4; do {SPAMC}; done'"),
    "mutool": Program("mutool draw -q -r 30 -o page%d.png document.pdf", _document),
    "pdns": Program("pdns_server --config-dir=. --daemon=no --guardian=no",
                    lambda chance: {"pdns.conf": PDNS, "named.conf": NAMED} | _zone(chance),
                    "dnsperf -s 127.0.0.1 -p 5392 -d queries.txt -n 1"),
    "rdflib": Program("/usr/bin/python3 graph.py",
                      lambda chance: {"graph.py": RDF, "small.ttl": _graph(chance, 400, 2200)}),
    "luajit": Program("luajit count.lua", lambda _: {"count.lua": LUA}),
}  # fmt: skip
PROGRAMS = TWELVE | SIX
