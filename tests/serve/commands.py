#!/usr/bin/python3
"""Prints the commands of the containers in the manifests of samples/deploy and of the image: one line for each, with the
fields separated by tabs: the file, the port of its readiness probe, the probe's path, and the words of the command.
    commands.py DEPLOY_DIR CONTAINERFILE

Exit code 77: python3-yaml is not installed."""
import json
import pathlib
import sys

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

deploy, containerfile = (pathlib.Path(arg) for arg in sys.argv[1:])


def containers(value):
    """Every container in a document."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from below if key == "containers" else containers(below)
    elif isinstance(value, list):
        for below in value:
            yield from containers(below)


for name in ("kubernetes.yaml", "kserve.yaml"):
    documents = list(yaml.safe_load_all((deploy / name).read_text()))
    service = [document["metadata"]["name"] for document in documents if document["kind"] == "InferenceService"]
    for document in documents:
        for container in containers(document):
            probe = container["readinessProbe"]["httpGet"]
            ports = {port.get("name"): port["containerPort"] for port in container["ports"]}
            words = [word.replace("{{.Name}}", service[0]) if service else word
                     for word in container["command"] + container["args"]]
            print(name, ports.get(probe["port"], probe["port"]), probe["path"], *words, sep="\t")
words = {}
for line in containerfile.read_text().split("\n"):
    keyword, _, rest = line.partition(" ")
    if keyword in ("ENTRYPOINT", "CMD"):
        words[keyword] = json.loads(rest)
print(containerfile.name, 8000, "/v2/health/ready", *words["ENTRYPOINT"], *words["CMD"], sep="\t")
