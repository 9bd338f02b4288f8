"""Checks the Helm chart with Helm: helm.py HELM CHART"""
import pathlib
import subprocess
import sys

import yaml

import chart

VALUES = [{}, {"autoscaling.enabled": True, "replicas": 3, "drainMs": 4000, "config": "own", "service.port": 81,
               "arguments": ["--max-queue", "9"], "traceEndpoint": "http://collector:4318"}]


def nested(changes):
    """Dotted names as Helm's -f takes them."""
    made = {}
    for name, value in changes.items():
        at = made
        for key in name.split(".")[:-1]:
            at = at.setdefault(key, {})
        at[name.split(".")[-1]] = value
    return yaml.safe_dump(made)


def objects(text):
    return sorted(filter(None, yaml.safe_load_all(text)), key=lambda one: one["kind"])


def main():
    helm, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    for changes in VALUES:
        for verb in (["lint", "--strict"], ["template", "inlay-serve"]):
            said = subprocess.run([helm, *verb, str(folder), "-f", "-"], input=nested(changes), capture_output=True, text=True,
                                  check=False)
            assert said.returncode == 0, said.stdout + said.stderr
        assert objects(said.stdout) == objects(chart.Chart(folder, changes).documents()), said.stdout
    broken = subprocess.run([helm, "lint", str(folder), "--set", "cacheSize={}}"], capture_output=True, text=True, check=False)
    assert broken.returncode != 0, "Helm accepts a value that breaks the document"


main()
