#!/usr/bin/python3
"""The OpenAPI document of the server: its form, and that the server has each path with its methods and no others.
    openapi.py INLAY_SERVE WRITE_MODELS"""
import http.client
import json
import re
import subprocess
import sys
import tempfile

METHODS = ["get", "post", "put", "delete", "patch"]
NAMES = {"model": "twice", "version": "1", "region": "r", "id": "none"}


def start(program, folder):
    process = subprocess.Popen([program, folder + "/models", "--no-config", "--port", "0", "--grpc-port", "-1"],
                               stderr=subprocess.PIPE, text=True)
    text = ""
    for line in process.stderr:
        text += line
        if ": ready" in line:
            return process, int(re.search(r"http://127\.0\.0\.1:(\d+)", text).group(1))
    sys.exit(f"the server does not start: {text}")


def ask(port, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method.upper(), path, "{}" if method != "get" else None)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def check_form(document):
    """What the specification 3.1 requires of the parts that the document has."""
    assert document["openapi"] == "3.1.0" and document["info"]["title"] and document["info"]["version"]
    schemes = document["components"]["securitySchemes"]
    for path, item in document["paths"].items():
        names = re.findall(r"\{(\w+)\}", path)
        assert path.startswith("/") and not set(item) - {"get", "post", "parameters"}, path
        assert [one["name"] for one in item.get("parameters", [])] == names, path
        assert all(one["in"] == "path" and one["required"] is True for one in item.get("parameters", [])), path
        for method in set(item) & set(METHODS):
            operation = item[method]
            assert operation["summary"] and "200" in operation["responses"], path
            assert all(one["description"] for one in operation["responses"].values()), path
            assert all(name in schemes for one in operation.get("security", []) for name in one), path
            assert ("requestBody" in operation) == (method == "post"), path


def check_paths(document, port):
    count, unknown = 0, ask(port, "get", "/no/such/path")[1]
    for path, item in document["paths"].items():
        target = re.sub(r"\{(\w+)\}", lambda name: NAMES[name.group(1)], path)
        for method in METHODS[:2]:
            status, text = ask(port, method, target)
            if method in item:
                assert status != 405 and text != unknown, (method, target, text)
            else:
                assert status == 405, (method, target, status)
            count += 1
    assert ask(port, "get", "/no/such/path")[0] == 404
    return count


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[2], folder + "/models"], check=True)
        process, port = start(sys.argv[1], folder)
        try:
            status, text = ask(port, "get", "/openapi.json")
            document = json.loads(text)
            assert status == 200
            check_form(document)
            print(f"{len(document['paths'])} paths, {check_paths(document, port)} requests")
            assert ask(port, "get", "/health") == (200, '{"status":"ok"}')
            assert json.loads(ask(port, "get", "/version")[1])["version"] == document["info"]["version"]
        finally:
            process.terminate()
            process.wait()


main()
