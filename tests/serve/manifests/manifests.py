#!/usr/bin/python3
"""Checks the manifests of samples/deploy for Kubernetes, KEDA, KServe and the Gateway API: every field exists and has its type, and
references between objects are consistent.
    manifests.py DEPLOY_DIR SETTINGS_DEF

fields.txt lists the fields; they become JSON schemas that reject all others. This is tested at every place of the
manifests with an additional field, and with a value of another type. Exit code 77: python3-jsonschema or python3-yaml is not installed."""
import copy
import pathlib
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import chart # needs yaml

LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
BASIC = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "object": {"type": "object"},
    "label": {"type": "string", "pattern": LABEL, "maxLength": 63},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "quantity": {"anyOf": [{"type": "string", "pattern": QUANTITY}, {"type": "integer", "minimum": 0}]},
}


def schema_of(kind):
    """A type of fields.txt as a JSON schema."""
    if "|" in kind:
        return {"anyOf": [schema_of(k) for k in kind.split("|")]}
    if kind[0] == "'":
        return {"const": kind[1:-1]}
    if kind[0] == "[":
        return {"type": "array", "minItems": 1, "items": schema_of(kind[1:-1])}
    if kind[0] == "{":
        return {"type": "object", "additionalProperties": schema_of(kind[1:-1])}
    return BASIC.get(kind) or {"$ref": "#/definitions/" + kind}


def read_fields(path):
    """The definitions of fields.txt, by name."""
    lines = [line for line in path.read_text().split("\n") if line and line[0] != "#"]
    made = {}
    for name, *fields in (line.split() for line in "\n".join(lines).replace("\n ", " ").split("\n")):
        if fields[0][0] == "=":
            made[name] = schema_of(fields[0][1:])
            continue
        properties, required = {}, []
        for field in fields:
            if field[0] == "+":
                properties.update(made[field[1:-1]]["properties"])
                continue
            key, kind = field.split(":", 1)
            if key[-1] == "!":
                key = key[:-1]
                required.append(key)
            properties[key] = schema_of(kind)
        made[name] = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return made


def places(value, path=()):
    """Every value in a document, with its path."""
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inside:
        yield from places(below, path + (key,))


def changed(document, path, change):
    """A copy with change(container, key) made at the path."""
    copied = copy.deepcopy(document)
    at = copied
    for key in path[:-1]:
        at = at[key]
    change(at, path[-1])
    return copied


def try_wrong(check, document):
    """Tries wrong variants of the document, all of which must be rejected; returns their number."""
    tried = 0

    def refused(wrong, what):
        nonlocal tried
        tried += 1
        assert not check.is_valid(wrong), f"accepted, although it has {what}"

    refused({**document, "unknown": 1}, "a field more")
    for path, value in places(document):
        if path and isinstance(value, dict) and path[-1] not in ("labels", "annotations", "matchLabels", "selector",
                                                                 "limits", "requests", "nodeSelector"):
            refused(changed(document, path, lambda at, key: at[key].update(unknown=1)), f"an additional field at {path}")
        if path:
            other = [] if not isinstance(value, list) else {}
            refused(changed(document, path, lambda at, key, o=other: at.__setitem__(key, o)), f"another type at {path}")
    return tried


def read(path, definitions):
    """The documents of a file by kind, each checked."""
    return check_documents(path.name, path.read_text(), definitions)


def check_documents(name, text, definitions):
    """The documents of a text by kind, each checked."""
    found = {}
    for document in filter(None, yaml.safe_load_all(text)):
        kind = document["kind"]
        assert kind in definitions, f"{name}: {kind}"
        check = jsonschema.Draft7Validator({"$ref": "#/definitions/" + kind, "definitions": definitions})
        for error in check.iter_errors(document):
            sys.exit(f"{name}, {kind}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}")
        print(f"{name}: {kind} is valid; {try_wrong(check, document)} invalid variants are rejected")
        found[kind] = document
    return found


def check_flags(words, settings):
    """Arguments of inlay-serve as a dict; they must be existing settings with values of their type."""
    given = {}
    for flag, value in zip(words[::2], words[1::2]):
        name = flag[2:].replace("-", "_")
        if name == "cache_dir": # the library's
            continue
        kind, low, high = settings[name]
        assert kind != "INT" or int(low) <= int(value) <= int(high), f"{flag} {value}"
        given[name] = value
    assert len(words) % 2 == 0, words
    return given


def check_kubernetes(found, settings):
    """Names, ports and times that must agree."""
    deployment, service, scaled = found["Deployment"], found["Service"], found["ScaledObject"]
    template = deployment["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    container = pod["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    assert all(port["targetPort"] in ports for port in service["spec"]["ports"])
    assert all(container[probe]["httpGet"]["port"] in ports for probe in ("startupProbe", "readinessProbe", "livenessProbe"))
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(ports["http"])
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert scaled["spec"]["minReplicaCount"] <= scaled["spec"]["maxReplicaCount"]
    given = check_flags(container["args"], settings)
    # Time to notice, time to finish, and a margin.
    readiness = container["readinessProbe"]
    assert int(given["drain_ms"]) >= 1000 * readiness["periodSeconds"] * readiness["failureThreshold"]
    assert int(given["drain_ms"]) + int(given["grace_ms"]) < 1000 * pod["terminationGracePeriodSeconds"]


def check_kserve(found, settings):
    """The service requests features that the runtime has."""
    runtime, service = found["ClusterServingRuntime"], found["InferenceService"]
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert model["modelFormat"]["name"] in [one["name"] for one in runtime["spec"]["supportedModelFormats"]]
    container = runtime["spec"]["containers"][0]
    assert container["name"] == "kserve-container" # KServe knows it by that name
    given = check_flags(container["args"], settings)
    assert int(given["port"]) == container["ports"][0]["containerPort"] == container["readinessProbe"]["httpGet"]["port"]


def check_pool(found, deployment):
    """The pool has the pods of the Deployment, at their port, and the route leads to the pool."""
    pool, route = found["InferencePool"], found["HTTPRoute"]
    template = deployment["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    assert pool["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert [port["number"] for port in pool["spec"]["targetPorts"]] == [ports["http"]]
    backends = [backend for rule in route["spec"]["rules"] for backend in rule["backendRefs"]]
    assert [backend["name"] for backend in backends] == [pool["metadata"]["name"]]
    assert all(backend["group"] == pool["apiVersion"].split("/")[0] and backend["kind"] == pool["kind"] for backend in backends)


def check_chart(folder, definitions, settings):
    """The chart makes the objects of kubernetes.yaml, and what its values say."""
    plain = chart.Chart(folder)
    found = check_documents("the chart", plain.documents(), definitions)
    assert set(found) == {"Deployment", "Service"}, found.keys()
    scaled = chart.Chart(folder, {"autoscaling.enabled": True, "drainMs": 4000, "replicas": 3,
                                  "arguments": ["--max-queue", "9"], "config": "own", "traceEndpoint": "http://collector:4318"})
    found = check_documents("the chart with autoscaling", scaled.documents(), definitions)
    check_kubernetes(found, settings)
    container = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    given = check_flags(container["args"], settings)
    assert found["Deployment"]["spec"]["replicas"] == 3
    assert given["drain_ms"] == "4000" and given["max_queue"] == "9", given
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["config"] == "/etc/inlay", mounts
    assert given["trace_endpoint"] == "http://collector:4318", given
    assert not scaled.unused(), f"no template uses {scaled.unused()}"
    for change in ({"drainsMs": 1}, {"autoscaling.max": 1}): # a name that does not exist
        try:
            chart.Chart(folder, change)
        except AssertionError:
            continue
        sys.exit(f"{change} is accepted")


def main():
    deploy, settings_def = map(pathlib.Path, sys.argv[1:])
    definitions = read_fields(pathlib.Path(__file__).with_name("fields.txt"))
    settings = {name: (kind, low, high) for name, kind, low, high in
                re.findall(r'^SETTING\((\w+), (\w+), "[^"]*", (-?\d+), (\d+)', settings_def.read_text(), re.M)}
    objects = read(deploy / "kubernetes.yaml", definitions)
    check_kubernetes(objects, settings)
    check_pool(read(deploy / "inference-pool.yaml", definitions), objects["Deployment"])
    check_kserve(read(deploy / "kserve.yaml", definitions), settings)
    check_chart(deploy / "helm" / "inlay-serve", definitions, settings)


main()
