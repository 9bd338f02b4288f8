#!/usr/bin/python3
"""Requests and answers of the server's tests, validated against the published OpenAPI documents of its protocols.
    published.py EXCHANGES OPEN_INFERENCE_REST.YAML OPENAI.YAML

EXCHANGES is written by tests/serve that run with the variable CLIENT_EXCHANGES. The documents are
specification/protocol/open_inference_rest.yaml of https://github.com/kserve/open-inference-protocol and openapi.yaml of
https://github.com/openai/openai-openapi. Each difference is printed once, with the number of exchanges that have it.
Needs python3-jsonschema and python3-yaml."""
import collections
import json
import re
import sys

import jsonschema
import yaml


def exchanges(path):
    """(method, path, code, body, answer); code 0: the answer is a whole message that was read as it came."""
    with open(path, "rb") as opened:
        data = opened.read()
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        method, target, code, sent, received = data[at:end].decode().rsplit(" ", 4)[-5:]
        body, answer = data[end + 1:end + 1 + int(sent)], data[end + 1 + int(sent):end + 1 + int(sent) + int(received)]
        at = end + 1 + len(body) + len(answer)
        if code == "0":
            code = answer[9:12].decode() or "0"
        yield method, target, int(code), body, answer


def nullable(node):
    """OpenAPI 3.0's nullable as JSON Schema has it."""
    if isinstance(node, list):
        return [nullable(x) for x in node]
    if not isinstance(node, dict):
        return node
    made = {key: nullable(value) for key, value in node.items()}
    if made.pop("nullable", False) is True:
        return {"anyOf": [made, {"type": "null"}]}
    return made


class Document:
    """The schemas of an OpenAPI document."""

    def __init__(self, path, prefix):
        with open(path, encoding="utf-8") as opened:
            self.document = nullable(yaml.load(opened, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        self.paths = []
        for name, item in self.document["paths"].items():
            pattern = re.escape(prefix + name).replace(r"/versions/\$\{MODEL_VERSION\}", r"(?:/versions/[^/]+)?")
            pattern = re.sub(r"(\\\$)?\\\{\w+\\\}", "[^/]+", pattern)
            self.paths.append((re.compile(pattern.rstrip("/") + "/?"), item))
        resolver = jsonschema.RefResolver("", self.document)
        self.validator = lambda schema: jsonschema.Draft202012Validator(schema, resolver=resolver)

    def find(self, method, path):
        for pattern, item in self.paths:
            if pattern.fullmatch(path.split("?")[0]) and method.lower() in item:
                return item[method.lower()]
        return None

    def differences(self, schema, value):
        for error in self.validator(schema).iter_errors(value):
            where = "/".join("*" if isinstance(x, int) else str(x) for x in error.absolute_path)
            found = [error]
            while found[-1].context: # of alternatives, the one that fits best
                found.append(min(found[-1].context, key=lambda x: (-len(x.absolute_path), str(x.validator))))
            yield f"{where or '.'}: {found[-1].message[:160]}"


def events(answer):
    """The values of an event stream, as far as it was read."""
    for line in answer.split(b"\n"):
        line = line.strip()
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            try:
                yield json.loads(line[6:])
            except ValueError:
                pass


def content(described, kind="application/json"):
    return described.get("content", {}).get(kind, {}).get("schema")


def check(document, operation, code, body, answer):
    """Yields (what, difference)."""
    if 200 <= code < 300 and "requestBody" in operation and body.strip().startswith(b"{"):
        schema = content(operation["requestBody"])
        for text in document.differences(schema, json.loads(body.decode(errors="replace"))) if schema else ():
            yield "request", text
    described = operation["responses"].get(str(code))
    if described is None:
        return
    if answer.startswith(b"HTTP/1.1"):
        schema = content(described, "text/event-stream")
        for value in events(answer) if schema else ():
            for text in document.differences(schema, value):
                yield "event", text
    elif (schema := content(described)) is not None and answer.strip().startswith((b"{", b"[")):
        for text in document.differences(schema, json.loads(answer)):
            yield "answer", text


def main():
    recorded, *paths = sys.argv[1:]
    documents = [Document(path, prefix) for path, prefix in zip(paths, ("", "/v1"))]
    found, counts, checked = collections.Counter(), collections.Counter(), set()
    for method, path, code, body, answer in exchanges(recorded):
        for document in documents:
            operation = document.find(method, path)
            if operation is None:
                continue
            key = method, path, code, body, answer
            if key in checked:
                continue
            checked.add(key)
            name = re.sub(r"/models/[^/:]+", "/models/NAME", path.split("?")[0])
            try:
                wrong = {f"{method} {name} {code} {what}: {text}"
                         for what, text in check(document, operation, code, body, answer)}
            except ValueError: # a body that is not JSON is refused with 400, or is binary
                continue
            found.update(wrong)
            counts["different" if wrong else "valid"] += 1
    for text, count in sorted(found.items()):
        print(f"{count} x {text}")
    print(f"{counts['valid']} valid, {counts['different']} different")
    return counts["valid"] == 0


if __name__ == "__main__":
    sys.exit(main())
