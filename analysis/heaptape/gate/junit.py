# SPDX-License-Identifier: MIT
"""The gate's result as JUnit XML: a testcase for each workload's promises and for each tolerated figure."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

# Characters that XML 1.0 does not allow.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml(data: Mapping) -> str:
    """The JUnit XML. `data`: as docs/use/GATE.md defines it."""
    root = ElementTree.Element("testsuites", name="heaptape gate")
    for workload in data["workloads"]:
        root.append(_suite(workload, data))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.attrib[key]) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(workload: Mapping, data: Mapping) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_text(workload["name"]))
    for number, error in enumerate(workload["errors"]):
        _case(suite, f"measured-{number + 1}" if number else "measured", "error", error)
    broken = workload["broken"]
    if workload["workload"]:
        fault = broken["new"] if not broken["old"] else ""
        case = _case(suite, "promises", "failure" if fault else "", fault)
        if broken["old"]:
            _output(case, f"the old allocator breaks a promise, too: {broken['old']}")
    for name, figure in workload["figures"].items():
        if figure["verdict"] != "shown":
            case = _case(suite, name, "failure" if figure["verdict"] == "worse" else "", _message(figure))
            _output(case, f"old {figure['old']}, new {figure['new']} {figure['unit']}".rstrip())
    for one in data["minimised"]:
        if one["workload"] == workload["name"]:
            _output(suite, f"{one['figure']}: the smallest tape that shows it: {one['folder']}")
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for kind in ("failure", "error"):
        suite.set(f"{kind}s", str(sum(case.find(kind) is not None for case in cases)))
    return suite


def _message(figure: Mapping) -> str:
    change = figure["change_percent"]
    amount = "new, where there was none" if change is None else f"{change:+.2f} %"
    return f"{amount}; beyond tolerance: {figure['beyond']}"


def _case(suite: ElementTree.Element, name: str, kind: str, message: str) -> ElementTree.Element:
    """kind: "failure", "error", or "": it passed."""
    case = ElementTree.SubElement(suite, "testcase", classname=f"heaptape.gate.{suite.attrib['name']}", name=name)
    if kind:
        ElementTree.SubElement(case, kind, message=_text(message), type=name).text = _text(message)
    return case


def _output(element: ElementTree.Element, text: str) -> None:
    output = element.find("system-out")
    if output is None:
        output = ElementTree.SubElement(element, "system-out")
    output.text = f"{output.text}\n{_text(text)}" if output.text else _text(text)


def _text(text: str) -> str:
    return _ILLEGAL.sub("?", text)
