# SPDX-License-Identifier: MIT
"""Twelve programs with their inputs, used in no document before.

Four make more than ten million calls, three are servers, bwa and povray have threads, iverilog and zsh fork. Debian:
raptor2-utils octave openscad gdal-bin duktape iverilog zsh bwa povray unbound dnsperf slapd ldap-utils h2o
nghttp2-client.
"""

import json
import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


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
        about = {"id": i, "name": f"place {i * 7919 % 10007}", "kind": chance.choice(("wood", "lake", "road"))}
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
SEARCH = "ldapsearch -x -LLL -H ldap://127.0.0.1:3891 -b dc=example,dc=org -f asked.txt (uid=%s) cn sn"
PROGRAMS = {
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
