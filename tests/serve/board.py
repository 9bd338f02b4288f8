#!/usr/bin/env python3
"""Checks the Grafana board and the alert rules of samples/deploy against the metrics of a server.
    board.py DEPLOY_DIR METRICS RULES

Every metric and label that their queries use must exist in METRICS, the text of /metrics, or be one of Prometheus; every
panel has a title and a unit, and overlaps no other. All queries are written as rules into the file RULES, for promtool."""
import json
import pathlib
import re
import sys

deploy, metrics, rules = (pathlib.Path(arg) for arg in sys.argv[1:])
wrong = []

# Metrics by name, with the labels that they may have; a type without series has no known labels.
known = {"up": {"job", "instance"}}
for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", metrics.read_text(), re.M):
    for end in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
        known[name + end] = {"job", "instance"}
for name, labels in re.findall(r"^([a-z_]+)\{([^}]*)\}", metrics.read_text(), re.M):
    known[name] |= set(re.findall(r'(\w+)="', labels))

board = json.loads((deploy / "grafana.json").read_text())
queries = []
places = set()
for panel in board["panels"]:
    place = tuple(panel["gridPos"][key] for key in "xywh")
    if place in places or not panel["title"] or not panel["description"] or not panel["fieldConfig"]["defaults"]["unit"]:
        wrong.append(f"panel {panel['title']}: no title, description or unit, or the place of another")
    places.add(place)
    queries += [(panel["title"], target["expr"]) for target in panel["targets"]]
for variable in board["templating"]["list"]:
    used = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
    if variable["type"] == "query" and (not used or used[1] not in known or used[2] not in known[used[1]]):
        wrong.append(f"variable {variable['name']}: {variable['query']}")
alerts = (deploy / "alerts.yaml").read_text()
for name, folded, plain in re.findall(r"alert: (\w+)\n +expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", alerts):
    queries.append((name, " ".join(folded.split()) or plain))
if alerts.count("alert:") != sum(1 for name, _ in queries if name.startswith("Inlay")):
    wrong.append("alerts.yaml: an expression was not found")

for where, query in queries:
    bare = re.sub(r'"[^"]*"', '""', query)
    names = set(re.findall(r"\b((?:inlay|process)_\w+|up)\b(?!\()", bare))
    if not names:
        wrong.append(f"{where}: no metric in {query}")
    for name in names - known.keys():
        wrong.append(f"{where}: the server has no metric {name}")
    for name, labels in re.findall(r"\b(\w+)\{([^}]*)\}", bare):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels):
            if name in known and label not in known[name] and not known[name] == {"job", "instance"}:
                wrong.append(f"{where}: {name} has no label {label}")

lines = ["groups:", "  - name: board", "    rules:"]
for number, (_, query) in enumerate(queries):
    query = query.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$model", ".*")
    lines += [f"      - record: query_{number}", "        expr: >-", f"          {query}"]
rules.write_text("\n".join(lines) + "\n")
print("\n".join(wrong) or f"{len(queries)} queries")
sys.exit(bool(wrong))
