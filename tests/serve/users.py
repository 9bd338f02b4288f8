#!/usr/bin/python3
"""Random requests for texts as clients of OpenAI's API send them, in all ways that HTTP permits, while models are loaded
again and clients leave: each answer is compared with what other answers imply.
    users.py INLAY_SERVE WRITE_MODELS [--requests N] [--seed S]

The default is 500 requests, and each check has two or more. Expected: a stream has the text of the whole answer, in events of whole characters; a prompt
in a list has the text that it has alone; a text with fewer tokens is the beginning of a longer one; a stop text ends it
before its first occurrence; the log probabilities are of the tokens of the text; a text by a schema is valid; a seed
determines a text; rubbish is refused by 4xx. A reload or SIGTERM cuts no answer. From the first 1,000 checks on, the
memory does not grow. Exit code 1: an answer was wrong; 77: python3-jsonschema, numpy or curl is not installed."""
import argparse
import base64
import gzip
import http.client
import json
import math
import os
import pathlib
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "formats"))
try:
    import jsonschema
    import test_gguf
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if shutil.which("curl") is None:
    print("skipped: no curl")
    sys.exit(77)

CLIENTS, TIMEOUT_S = 6, 120
WORDS = ["the", "and", "in", "a", "th", " ", "\n", "x", "7", "\u00e9", "\u4e2d", "\U0001f600", "\"", "\\", "end"]


def record(properties, required):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def random_schema(rng, depth=0):
    low = rng.randrange(-50, 50)
    leaves = [{"type": "integer", "minimum": low, "maximum": low + rng.randrange(200)}, {"type": "boolean"},
              {"type": "string", "minLength": rng.randrange(3), "maxLength": rng.randrange(3, 9)}, {"type": "null"},
              {"enum": rng.sample(["red", 7, None, "bl\"ue", "\u00e9", 2.5, [1]], 3)}, {"const": {"a": [1, "b"]}},
              {"type": "string", "pattern": rng.choice(["^[a-c]{2,4}$", "^\\d{3}-[x-z]+$"]), "maxLength": 9}]
    if depth > 2 or rng.random() < 0.4:
        return rng.choice(leaves)
    inner = [random_schema(rng, depth + 1) for _ in range(3)]
    names = rng.sample(["a", "name", "x y", "\u00e9", "q\"", "long_name"], 3)
    return rng.choice([
        record(dict(zip(names, inner)), rng.sample(names, rng.randrange(4))),
        {"type": "array", "items": inner[0], "minItems": rng.randrange(2), "maxItems": rng.randrange(2, 4)},
        {"type": "array", "prefixItems": inner[:2], "items": False, "minItems": 2}, {"anyOf": inner[:2]}])


class Server:
    def __init__(self, program, writer, folder):
        models = folder / "models"
        (models / "counted" / "1").mkdir(parents=True)
        subprocess.run([writer, str(folder), "decoders"], check=True)
        for one in ("count", "vectors"):
            (folder / one / "1").mkdir(parents=True)
        subprocess.run([writer, str(folder), "texts"], check=True)
        shutil.copy(folder / "counted.onnx", models / "counted" / "1" / "model.onnx")
        shutil.move(folder / "vectors", models / "vectors")
        tokenizer = json.dumps({
            "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"}, "added_tokens": [],
            "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}})
        for name in ("counted", "vectors"):
            (models / name / "tokenizer.json").write_text(tokenizer)
        (models / "counted" / "config.yaml").write_text("options: [reproducible=1]\n")
        (models / "counted" / "tokenizer_config.json").write_text(
            json.dumps({"chat_template": "{% for one in messages %}{{ one.role }}:{{ one.content }}{% endfor %}"}))
        (models / "tiny.gguf").write_bytes(test_gguf.make("llama", "F32")[0])
        self.folder = folder
        with open(folder / "log", "w") as log:
            self.process = subprocess.Popen([program, str(models), "--no-config", "--port", "0", "--grpc-port", "-1",
                                             "--poll-ms", "100", "--max-queue", "200"], stderr=log)
        for _ in range(10 * TIMEOUT_S):
            text = (folder / "log").read_text()
            if ": ready" in text or self.process.poll() is not None:
                break
            time.sleep(0.1)
        if ": ready" not in text:
            sys.exit(f"the server does not start: {text}")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", text).group(1))

    def resident(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Wrong(Exception):
    pass


def check(condition, what, *more):
    if not condition:
        raise Wrong(f"{what}: " + " | ".join(str(one)[:400] for one in more))


def connect(server):
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def head_of(path, fields):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields)
            + "\r\n").encode()


def receive(sock, rng=None):
    """Reads an answer; with rng slowly."""
    answer = http.client.HTTPResponse(sock, method="POST")
    answer.begin()
    if rng is None:
        return answer.status, answer.read()
    parts = []
    while part := answer.read(rng.randrange(1, 200)):
        parts.append(part)
        time.sleep(0.001)
    return answer.status, b"".join(parts)


def post(server, rng, path, value):
    """Sends a request in a random way; a status and an answer."""
    data = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()
    way = rng.choice(["plain", "plain", "plain", "bytes", "chunks", "gzip", "expect", "fields", "slow", "two", "http2",
                      "half"])
    if way == "http2":
        done = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-m", str(TIMEOUT_S), "--data-binary", "@-", "-w",
                               "\n%{http_code}", f"http://127.0.0.1:{server.port}{path}"], input=data,
                              stdout=subprocess.PIPE, check=False)
        check(done.returncode == 0, "curl", done.returncode, done.stdout)
        text, _, status = done.stdout.rpartition(b"\n")
        return int(status), text
    if way == "gzip":
        data = gzip.compress(data)
    fields = [("Content-Length", len(data))]
    if way == "chunks":
        fields = [("Transfer-Encoding", "chunked")]
        coded, at = b"", 0
        while at < len(data):
            size = rng.randrange(1, 1 + rng.choice([3, 50, 5000]))
            part = data[at:at + size]
            coded += f"{len(part):x}{rng.choice(['', ';a=b'])}\r\n".encode() + part + b"\r\n"
            at += size
        data = coded + b"0\r\n\r\n"
    fields += {"gzip": [("Content-Encoding", "gzip")], "expect": [("Expect", "100-continue")],
               "fields": [(f"X-{i}", "y" * 300) for i in range(20)]}.get(way, [])
    with connect(server) as sock:
        if way == "slow":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        if way == "bytes":
            whole = head_of(path, fields) + data
            for i in range(min(len(whole), 400)):
                sock.send(whole[i:i + 1])
            sock.sendall(whole[400:])
        elif way == "expect":
            sock.sendall(head_of(path, fields))
            if b" 503" not in sock.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL):
                check(sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n", "no 100")
                sock.sendall(data)
        elif way == "two":
            sock.sendall(2 * (head_of(path, fields) + data))
            reader = sock.makefile("rb")
            first = http.client.HTTPResponse(sock, method="POST")
            first.fp.close()
            first.fp = reader
            first.begin()
            length = first.getheader("Content-Length")
            if length is not None:  # the stream's end is found by its reader only
                status, text = first.status, reader.read(int(length))
                if first.getheader("Connection") == "close":
                    return status, text
                second = http.client.HTTPResponse(sock, method="POST")
                second.fp.close()
                second.fp = reader
                second.begin()
                check(second.status == status, "of two requests, the second", second.status, status)
                second.read()
                return status, text
            return first.status, first.read()
        else:
            sock.sendall(head_of(path, fields) + data)
            if way == "half":
                sock.shutdown(socket.SHUT_WR)
        return receive(sock, rng if way == "slow" else None)


def ask(server, rng, path, value, refusal=None):
    """The answer as JSON, or the events of a stream. None: refused with an error that contains `refusal`."""
    for _ in range(200):
        status, text = post(server, rng, path, value)
        if status not in (429, 503):
            break
        time.sleep(0.05)
    if refusal and status == 400 and refusal in text:
        return None
    check(status == 200, "refused", value, status, text)
    if not value.get("stream"):
        return json.loads(text)
    lines = text.decode().split("\n\n")
    check(lines[-2:] == ["data: [DONE]", ""] and all(line.startswith("data: ") for line in lines[:-1]), "events", lines[-3:])
    return [json.loads(line[6:]) for line in lines[:-2]]


def text_of(server, rng, body):
    return ask(server, rng, "/v1/completions", body)["choices"][0]


def random_body(rng, model=None):
    model = model or rng.choice(["counted", "tiny"])
    body = {"model": model, "prompt": "".join(rng.choice(WORDS if model == "tiny" else list("abcxyz.,09"))
                                              for _ in range(rng.randrange(1, 12))), "max_tokens": rng.randrange(1, 40),
            "temperature": rng.choice([0, 0, 0.7, 2]), "seed": rng.randrange(1 << 31)}
    if rng.random() < 0.2:
        body["top_p"] = rng.choice([0.5, 0.95])
    if rng.random() < 0.2:
        body["top_k"] = rng.choice([1, 5, 40])
    if rng.random() < 0.2:
        body["logit_bias"] = {str(rng.randrange(33, 126)): rng.choice([-100, -3, 5, 100]) for _ in range(3)}
    if rng.random() < 0.2:
        body["frequency_penalty"] = rng.choice([-1, 0.5, 2])
    return body


def joined(events, index=0):
    return "".join(choice["text"] for event in events for choice in event["choices"] if choice["index"] == index)


def check_stream(server, rng):
    body = random_body(rng)
    body["n"] = rng.choice([1, 1, 3])
    whole = ask(server, rng, "/v1/completions", body)["choices"]
    events = ask(server, rng, "/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    check(events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] >= body["n"], "usage", body, events[-1])
    for choice in whole:
        streamed = joined(events, choice["index"])
        check(streamed == choice["text"], "streamed", body, streamed, choice["text"])
        reasons = [one["finish_reason"] for event in events for one in event["choices"] if one["index"] == choice["index"]]
        check(reasons[-1] == choice["finish_reason"] and not any(reasons[:-1]), "reasons", body, reasons)


def check_list(server, rng):
    same = {**random_body(rng), "temperature": 0}
    prompts = [random_body(rng, same["model"])["prompt"] for _ in range(3)]
    together = ask(server, rng, "/v1/completions", {**same, "prompt": prompts})["choices"]
    for prompt, choice in zip(prompts, sorted(together, key=lambda one: one["index"])):
        alone = text_of(server, rng, {**same, "prompt": prompt})
        check(alone["text"] == choice["text"], "in a list", same, prompt, choice, alone)


def check_stop(server, rng):
    body = random_body(rng)
    text = text_of(server, rng, body)["text"]
    whole = text.rstrip("\ufffd")  # what follows an incomplete character is not known
    if not whole or "\ufffd" in whole or "\0" in whole:
        return
    at = rng.randrange(len(whole))
    stop = whole[at:at + rng.randrange(1, 5)]
    got = text_of(server, rng, {**body, "stop": rng.choice([stop, [stop], ["never there", stop]])})
    check(got["text"] == whole[:whole.index(stop)] and got["finish_reason"] == "stop", "stop", body, stop, got, whole)
    events = ask(server, rng, "/v1/completions", {**body, "stop": stop, "stream": True})
    check(joined(events) == got["text"], "stop of a stream", body, stop, joined(events), got)


def check_shorter(server, rng):
    body = random_body(rng)
    text = text_of(server, rng, body)["text"]
    less = rng.randrange(1, body["max_tokens"] + 1)
    short = text_of(server, rng, {**body, "max_tokens": less})["text"].rstrip("\ufffd")
    check(text.startswith(short), "shorter", body, less, short, text)


def check_logprobs(server, rng):
    body = {**random_body(rng), "logprobs": rng.randrange(0, 6)}
    choice = text_of(server, rng, body)
    logs = choice["logprobs"]
    check(len(logs["tokens"]) == len(logs["token_logprobs"]) == len(logs["text_offset"]), "lengths", body, logs)
    if not any("\ufffd" in token for token in logs["tokens"]):  # of characters in parts
        said = "".join(token for token in logs["tokens"] if not re.fullmatch(r"<\|\w+\|>", token))
        check(said == choice["text"] or choice["finish_reason"] == "stop", "tokens", body, choice)
    check(all(value <= 1e-6 for value in logs["token_logprobs"]), "logprobs", body, logs)
    for token, value, top in zip(logs["tokens"], logs["token_logprobs"], logs["top_logprobs"] or []):
        check(sum(math.exp(one) for one in top.values()) < 1.001, "sum", body, top)
        if body["temperature"] == 0 and "logit_bias" not in body and "frequency_penalty" not in body:
            check(abs(value - max(top.values())) < 1e-4, "not the likeliest", body, token, value, top)


def check_bias(server, rng):
    body = random_body(rng, "counted")
    token = rng.randrange(34, 126)
    body = {**body, "logit_bias": {str(token): 100}, "frequency_penalty": 0, "top_p": 1}
    got = text_of(server, rng, body)
    check(got["text"] == chr(token) * body["max_tokens"], "bias", body, got)


def check_schema(server, rng):
    schema = random_schema(rng)
    body = {"model": "counted", "messages": [{"role": "user", "content": "answer"}], "max_tokens": 500, "temperature": 1.5,
            "seed": rng.randrange(1 << 31), "response_format": rng.choice([
                {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": schema}},
                {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
                {"type": "json_object", "schema": schema}])}
    # The vocabulary has the characters from ! to ~ alone: a text that needs others cannot go on.
    needed = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    beyond = b"no token of the model's vocabulary" if re.search("[^!-~]", needed) else None
    reply = ask(server, rng, "/v1/chat/completions", body, beyond)
    choice = reply["choices"][0] if reply else None
    if choice is None or choice["finish_reason"] == "length":
        return
    try:
        jsonschema.Draft202012Validator(schema).validate(json.loads(choice["message"]["content"]))
    except (ValueError, jsonschema.ValidationError) as error:
        raise Wrong(f"schema {json.dumps(schema)}: {choice}: {error}") from error
    events = ask(server, rng, "/v1/chat/completions", {**body, "stream": True})
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])
    check(text == choice["message"]["content"], "streamed chat", body, text, choice)


def check_chat(server, rng):
    """Chats and responses: streamed texts and log probabilities are those of the whole answer."""
    plain = random_body(rng, "counted")
    said = plain.pop("prompt")
    body = {**plain, "messages": [{"role": "user", "content": said}], "n": rng.choice([1, 2]), "logprobs": True,
            "top_logprobs": rng.randrange(4)}
    whole = ask(server, rng, "/v1/chat/completions", body)["choices"]
    events = ask(server, rng, "/v1/chat/completions", {**body, "stream": True})
    for choice in whole:
        parts = [one for event in events for one in event["choices"] if one["index"] == choice["index"]]
        text = "".join(part["delta"].get("content") or "" for part in parts)
        check(text == choice["message"]["content"], "a chat", body, text, choice)
        logs = [log for part in parts if part["logprobs"] for log in part["logprobs"]["content"]]
        check(logs == choice["logprobs"]["content"], "logprobs of a stream", body, logs, choice)
        check(parts[-1]["finish_reason"] == choice["finish_reason"], "reason", body, parts[-1], choice)
    body = {"model": "counted", "input": said, "max_output_tokens": plain["max_tokens"], "temperature": 0}
    text = ask(server, rng, "/v1/responses", body)["output"][0]["content"][0]["text"]
    status, got = post(server, rng, "/v1/responses", {**body, "stream": True})
    check(status in (200, 429, 503), "a response", body, status, got)
    if status == 200:
        events = [json.loads(line[6:]) for line in got.decode().split("\n") if line.startswith("data: {")]
        check([event["sequence_number"] for event in events] == list(range(len(events))), "numbers", body, events)
        joined_text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        check(joined_text == text == events[-1]["response"]["output"][0]["content"][0]["text"], "a response", body, text, got)


def check_vectors(server, rng):
    inputs = ["".join(rng.choice("abcxyz") for _ in range(rng.randrange(1, 20))) for _ in range(rng.randrange(1, 6))]
    body = {"model": "vectors", "input": inputs}
    plain = ask(server, rng, "/v1/embeddings", body)["data"]
    coded = ask(server, rng, "/v1/embeddings", {**body, "encoding_format": "base64"})["data"]
    for text, one, other in zip(inputs, plain, coded):
        vector = list(struct.unpack(f"<{len(one['embedding'])}f", base64.b64decode(other["embedding"])))
        check(max(abs(a - b) for a, b in zip(vector, one["embedding"])) < 1e-6, "base64", text)
        counts = {letter: text.count(letter) for letter in set(text)}
        norm = math.sqrt(sum(count * count for count in counts.values()))
        check(all(abs(vector[ord(letter)] - count / norm) < 1e-6 for letter, count in counts.items()), "vector", text, vector)


def check_tokens(server, rng):
    prompt = "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 9)))
    tokens = ask(server, rng, "/tokenize", {"model": "tiny", "prompt": prompt, "add_special": False})["tokens"]
    back = ask(server, rng, "/detokenize", {"model": "tiny", "tokens": tokens})["prompt"]
    check(back == prompt, "tokens", prompt, tokens, back)


def check_leaving(server, rng):
    """A client that leaves at some time: afterwards others are answered."""
    data = json.dumps({**random_body(rng), "max_tokens": 300, "stream": rng.random() < 0.7}).encode()
    whole = head_of("/v1/completions", [("Content-Length", len(data))]) + data
    with connect(server) as sock:
        sock.sendall(whole[:rng.choice([1, len(whole) // 2, len(whole) - 1, len(whole), len(whole)])])
        if rng.random() < 0.5:
            sock.settimeout(rng.choice([0.001, 0.01, 0.1]))
            try:
                sock.recv(rng.choice([1, 300]))
            except OSError:
                pass
        if rng.random() < 0.5:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def check_rubbish(server, rng):
    data = bytearray(json.dumps(random_body(rng)).encode())
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.choice([0, 34, 92, 123, 125, 44, 255, 0xc3])
    fields = [("Content-Length", len(data))] + rng.choice([[], [("Content-Encoding", "gzip")], [("Content-Encoding", "br")]])
    with connect(server) as sock:
        sock.sendall(head_of("/v1/completions", fields) + data)
        status, text = receive(sock)
    check(status in (200, 400, 404, 415, 429, 503), "rubbish", bytes(data), status, text)
    check(status == 200 or "error" in json.loads(text), "rubbish", text)
    with connect(server) as sock:
        sock.sendall(head_of("/v1/completions", [("X-Long", "y" * 70000)]))
        status, text = receive(sock)
        check(status in (431, 503), "a long header", status, text)


CHECKS = {check_stream: 4, check_list: 2, check_stop: 4, check_shorter: 2, check_logprobs: 3, check_bias: 1, check_schema: 4,
          check_chat: 3, check_vectors: 1, check_tokens: 1, check_leaving: 2, check_rubbish: 1}


def client(server, number, seed, state):
    rng = random.Random(f"{seed} {number}")
    while not state["end"]:
        which = rng.choices(list(CHECKS), CHECKS.values())[0]
        try:
            which(server, rng)
            state["done"][number] += 1
        except (Wrong, OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
            state["wrong"].append(f"{which.__name__}: {error!r}")
            print(f"wrong: {which.__name__}: {type(error).__name__} {error}", file=sys.stderr, flush=True)


def stop_in_progress(server):
    """SIGTERM while streams run: all that were begun end with [DONE]."""
    socks = []
    data = json.dumps({"model": "counted", "prompt": "a", "max_tokens": 500, "stream": True, "ignore_eos": True}).encode()
    for _ in range(8):
        sock = connect(server)
        sock.sendall(head_of("/v1/completions", [("Content-Length", len(data))]) + data)
        socks.append(sock)
    for sock in socks:
        sock.recv(1, socket.MSG_PEEK)
    server.process.terminate()
    good = sum(receive(sock)[1].endswith(b"data: [DONE]\n\n") for sock in socks)
    for sock in socks:
        sock.close()
    return good == len(socks) and server.process.wait(TIMEOUT_S) == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("writer")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        server = Server(args.program, args.writer, pathlib.Path(name))
        try:
            state = {"end": False, "wrong": [], "done": [0] * CLIENTS}
            threads = [threading.Thread(target=client, args=(server, i, args.seed, state)) for i in range(CLIENTS)]
            for thread in threads:
                thread.start()
            model, data = server.folder / "models" / "counted" / "1" / "model.onnx", (server.folder / "counted.onnx").read_bytes()
            usage, loads = [], 0
            while sum(state["done"]) < args.requests // 2 and len(state["wrong"]) < 20:
                time.sleep(0.2)
                if loads < sum(state["done"]) // 100:
                    model.with_name("new").write_bytes(data)
                    model.with_name("new").rename(model)
                    loads += 1
                if sum(state["done"]) >= 1000 * (len(usage) + 1):
                    usage.append((server.resident() >> 20, server.descriptors()))
                    print(f"{sum(state['done'])} checks: {usage[-1][0]} MiB, {usage[-1][1]} descriptors", flush=True)
            state["end"] = True
            for thread in threads:
                thread.join()
            ended = stop_in_progress(server)
            grown = len(usage) > 1 and usage[-1][0] > 1.2 * usage[0][0] + 16
            print(f"{sum(state['done'])} checks, {loads} loads, {len(state['wrong'])} wrong; resident MiB and descriptors: "
                  f"{usage}; SIGTERM {'ended' if ended else 'cut'} the streams")
            return 0 if ended and not grown and not state["wrong"] else 1
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()


sys.exit(main())
