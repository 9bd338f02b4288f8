#!/usr/bin/python3
"""Many texts of a decoder with random weights: 1,000 answers by 20 JSON schemas are all valid, and 200 clients at once
get their texts, each in order, within kv_memory.
    answers.py INLAY_SERVE WRITE_MODELS

Exit code 77: python3-jsonschema is not installed, or the server has no tokenizers."""
import http.client
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

try:
    import jsonschema
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ANSWERS, AT_ONCE, CLIENTS = 1000, 25, 200
KV_MEMORY = 262144  # 2,048 tokens: not those of all texts


def word(least=0, most=8):
    return {"type": "string", "minLength": least, "maxLength": most}


def whole(least, most):
    return {"type": "integer", "minimum": least, "maximum": most}


def record(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False, **more}


def several(items, least, most):
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


COLOURS = {"enum": ["red", "green", "blue", None, 7]}
POINT = record({"x": whole(-99, 99), "y": whole(0, 5)})
SCHEMAS = [
    word(3, 12), whole(-1000, 1000), {"type": "boolean"}, {"type": "null"}, COLOURS, {"const": {"a": [1, "b"]}},
    several(whole(0, 9), 0, 6), several(word(), 2, 3), several(several({"type": "boolean"}, 1, 2), 1, 3), POINT,
    record({"name": word(1), "age": whole(0, 130), "colour": COLOURS}),
    record({"points": several(POINT, 1, 3)}),
    {"type": "object", "properties": {"a": word(), "b": whole(1, 2), "c": COLOURS}, "required": ["b"],
     "additionalProperties": False},
    {"anyOf": [POINT, word(2, 4), {"type": "null"}]},
    {"oneOf": [record({"kind": {"const": "circle"}, "r": whole(1, 50)}),
               record({"kind": {"const": "box"}, "sides": several(whole(1, 9), 2, 2)})]},
    {"type": "string", "pattern": "^[a-f]{2,4}-[0-9]{3}$"},
    {"$defs": {"point": POINT}, **record({"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"}})},
    record({"deep": record({"deeper": record({"deepest": several(COLOURS, 0, 2)})})}),
    {"type": ["boolean", "null"]},
    {"type": "array", "prefixItems": [word(1, 3), whole(0, 9)], "items": False, "minItems": 2},
]


class Server:
    def __init__(self, program, folder):
        self.process = subprocess.Popen(
            [program, str(folder / "models"), "--no-config", "--port", "0", "--grpc-port", "-1", "--max-queue", "1000",
             "--kv-memory", str(KV_MEMORY), "--max-sequences", "64"], stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if ": ready" in line:
                break
        text = "".join(lines)
        if ": ready" not in text:
            sys.exit(f"the server does not start: {text}")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", text).group(1))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def post(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/v1/completions", json.dumps({"model": "counted", **body}))
        return connection.getresponse()

    def ask(self, body):
        answer = self.post(body)
        text = answer.read()
        if answer.status != 200:
            raise ValueError(f"{body}: {answer.status} {text}")
        return json.loads(text)

    def resident(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096


def write_models(writer, folder):
    model = folder / "models" / "counted"
    (model / "1").mkdir(parents=True)
    subprocess.run([writer, str(folder), "decoders"], check=True)
    (folder / "counted.onnx").rename(model / "1" / "model.onnx")
    (model / "config.yaml").write_text("options: [reproducible=1]\n")
    (model / "tokenizer.json").write_text(json.dumps(
        {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
         "decoder": {"type": "ByteLevel"}, "added_tokens": [],
         "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}}))


def check_schemas(server):
    valid, answers = 0, set()
    for i in range(ANSWERS // AT_ONCE):
        schema = SCHEMAS[i % len(SCHEMAS)]
        answer = server.ask({"prompt": "answer", "max_tokens": 400, "temperature": 2, "n": AT_ONCE, "seed": 1000 * i,
                             "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}})
        for choice in answer["choices"]:
            try:
                jsonschema.Draft202012Validator(schema).validate(json.loads(choice["text"]))
                assert choice["finish_reason"] == "stop", choice["finish_reason"]
                valid += 1
            except (ValueError, AssertionError, jsonschema.ValidationError) as error:
                print(f"{json.dumps(schema)}: {choice['text']!r}: {error}")
            answers.add((i % len(SCHEMAS), choice["text"]))
    print(f"{valid} of {ANSWERS} answers by {len(SCHEMAS)} schemas are valid, {len(answers)} different ones")
    return valid == ANSWERS and len(answers) > ANSWERS // 4


def read_events(answer):
    """The text of a stream, whose events come as they are made."""
    parts = [json.loads(line[6:]) for line in answer.read().decode().split("\n\n") if line.startswith("data: {")]
    if not all(part["choices"][0]["finish_reason"] is None for part in parts[:-1]):
        raise ValueError("events come after the last one")
    return "".join(part["choices"][0]["text"] for part in parts)


def check_clients(server):
    bodies = [{"prompt": [33 + (i * k + k) % 90 for k in range(1 + i % 60)], "max_tokens": 10 + i % 40,
               "temperature": i % 2, "seed": i} for i in range(CLIENTS)]
    alone = [server.ask(body)["choices"][0]["text"] for body in bodies]
    together, start, before = [None] * CLIENTS, threading.Barrier(CLIENTS), server.resident()

    def client(i):
        start.wait()
        together[i] = read_events(server.post({**bodies[i], "stream": True}))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    grown = server.resident() - before
    same = sum(left == right for left, right in zip(alone, together))
    print(f"{same} of {CLIENTS} clients at once got the texts that they get alone; {grown >> 20} MiB more are resident")
    return same == CLIENTS and grown < 200 << 20


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_models(sys.argv[2], folder)
        server = Server(sys.argv[1], folder)
        try:
            if server.post({"prompt": "x", "max_tokens": 1}).status != 200:
                print("skipped: a server without tokenizers")
                return 77
            return 0 if check_schemas(server) & check_clients(server) else 1
        finally:
            server.process.terminate()
            server.process.wait()


sys.exit(main())
