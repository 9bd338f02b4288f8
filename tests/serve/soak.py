#!/usr/bin/python3
"""REST, gRPC and chats while things go wrong around the server: models are overwritten and loaded again, processes are
killed, the disk is full, descriptors run out. Every answer is compared with the one that the server gave before.
    soak.py INLAY_SERVE WRITE_MODELS [--minutes N] [--workers 0|2] [--attackers N]

Half of the N minutes (0.17) each, or all of them with --workers: one process, of which one model is in a process of its
own (isolate=all) that is killed; two workers, which are killed in turn. The access log and the traces are on a disk of
1 MiB where the user may mount one, and otherwise on /dev/full. A request of REST on a connection that had been idle for
more than 100 ms, also before its first request, is sent again if the connection ends without an answer, because a server
without descriptors closes such connections; the client of gRPC does this itself. The time is longer where a
machine is too slow to show each trouble and an answer of each client in it. With --attackers, N clients send the requests of
tests/bench/serve_attackers.py meanwhile. Exit code 1: an answer was wrong or lost,
other than on a connection of a process that was killed, or memory or descriptors grew; 77: python3-grpcio is not
installed."""
import argparse
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

try:
    import grpc
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
import serve_attackers

DESCRIPTORS, SETTLE_S, TIMEOUT_S, PAUSE_S = 160, 60, 300, 0.1
TOKEN = "admin-0123456789abcdef"
TENSORS = ["twice", "twice", "triple", "own"]
RIGHT = {"twice": [[2, 4, 6], [4, 8, 12]], "own": [[2, 4, 6]], "triple": [[4, 8, 12]]}
TEXT = {"model": "counted", "prompt": "x", "max_tokens": 8, "temperature": 0}
CHAT = {"model": "counted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "temperature": 0}


class Counts:
    def __init__(self):
        self.lock = threading.Lock()
        self.by_kind = {"answered": 0, "refused": 0, "retried": 0, "lost": 0, "excused": 0, "wrong": 0}
        self.by_client = {}

    def add(self, kind, client, what=""):
        with self.lock:
            self.by_kind[kind] += 1
            if kind == "answered":
                self.by_client[client] = self.by_client.get(client, 0) + 1
            printed = kind in ("lost", "wrong") and self.by_kind["lost"] + self.by_kind["wrong"] <= 20
        if printed:
            print(f"{kind}: {client}: {what}", file=sys.stderr)


def write_models(writer, folder):
    subprocess.run([writer, str(folder / "models")], check=True)
    subprocess.run([writer, str(folder), "decoders"], check=True)
    for name in ("own", "counted"):
        (folder / "models" / name / "1").mkdir(parents=True)
    shutil.copy(folder / "models" / "twice.onnx", folder / "own.onnx")
    for name in ("own", "counted"):
        shutil.copy(folder / f"{name}.onnx", folder / "models" / name / "1" / "model.onnx")
    (folder / "models" / "own" / "config.yaml").write_text("options: [isolate=all]\n")
    (folder / "models" / "counted" / "tokenizer.json").write_text(json.dumps(
        {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
         "decoder": {"type": "ByteLevel"}, "added_tokens": [],
         "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}}))
    (folder / "models" / "counted" / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": "{% for one in messages %}{{ one.role }}:{{ one.content }}{% endfor %}"}))
    (folder / "admins").write_text(TOKEN + "\n")
    (folder / "admins").chmod(0o600)
    (folder / "disk").mkdir()


class Server:
    def __init__(self, program, folder, workers):
        self.folder, self.workers, self.killed_at, self.counts = folder, workers, 0.0, Counts()
        self.disk = folder / "disk"
        self.has_disk = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "soak", str(self.disk)],
                                       stderr=subprocess.DEVNULL, check=False).returncode == 0
        log = self.disk / "access" if self.has_disk else "/dev/full"
        traces = ["--trace-file", str(self.disk / "traces"), "--trace-sample", "3"] if self.has_disk else []
        flags = ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", program, str(folder / "models"), "--no-config", "--port",
                 "0", "--grpc-port", "0", "--poll-ms", "100", "--access-log", str(log), "--admin-token-file",
                 str(folder / "admins"), "--workers", str(workers), *traces]
        with open(folder / "log", "w") as to:
            self.process = subprocess.Popen(flags, stderr=to)
        for _ in range(10 * TIMEOUT_S):
            text = (folder / "log").read_text()
            ports = [re.search(kind + r"://127\.0\.0\.1:(\d+)", text) for kind in ("http", "grpc")]
            if ": ready" in text and all(ports):
                break
            time.sleep(0.1)
        else:
            sys.exit(f"the server does not start: {text}")
        self.port, self.grpc_port = (int(port.group(1)) for port in ports)

    def end(self):
        self.process.terminate()
        return self.process.wait(TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.kill()
        self.process.wait()
        if self.has_disk:
            subprocess.run(["umount", "-l", str(self.disk)], check=True)

    def children(self):
        ids = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(one) for one in ids]

    def usage(self):
        """Resident bytes and descriptors of the processes that serve; None: one has just ended."""
        ids = self.children() if self.workers else [self.process.pid]
        try:
            pages = [int(pathlib.Path(f"/proc/{one}/statm").read_text().split()[1]) for one in ids]
            files = sum(len(os.listdir(f"/proc/{one}/fd")) for one in ids)
        except OSError:
            return None
        return (sum(pages) * 4096, files) if len(ids) >= self.workers else None


class Lost(Exception):
    """The connection ended without an answer."""


class Rest:
    """A connection for tensors, texts and chats over HTTP/1.1."""

    def __init__(self, server, kinds):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
        self.kinds = kinds
        self.opened = self.since = time.monotonic()
        self.was_idle = False

    def close(self):
        self.connection.close()

    def ask(self, choices):
        """A request's name, the status of its answer, and the answer."""
        kind = choices.choice(self.kinds)
        headers, path, name = {}, "/v1/completions", kind
        if kind == "tensors":
            name = choices.choice(TENSORS)
            path, body = f"/v2/models/{name}/infer", {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32",
                                                                  "data": [1, 2, 3]}]}
        elif kind == "text":
            body = TEXT
        elif kind == "load":
            path, body = f"/v2/repository/models/{choices.choice(['twice', 'own', 'counted'])}/load", {}
            headers["Authorization"] = f"Bearer {TOKEN}"
        else:
            path, body = "/v1/chat/completions", {**CHAT, "stream": kind == "streamed"}
        began, sent = time.monotonic(), None
        try:
            self.connection.request("POST", path, json.dumps(body), headers)
            sent = time.monotonic()
            answer = self.connection.getresponse()
            text = answer.read()
            self.since = began  # before the server can have been idle
            return name, answer.status, text
        except (OSError, http.client.HTTPException) as error:
            self.was_idle = (sent or time.monotonic()) - self.since > PAUSE_S
            raise Lost(f"{name}: {error!r}") from error

    def read(self, name, text):
        """The part of an answer that is compared."""
        if name == "streamed":
            events = [line[6:] for line in text.decode().split("\n") if line.startswith("data: ")]
            if events[-1] != "[DONE]":
                raise ValueError("the stream has no end")
            deltas = [json.loads(event)["choices"] for event in events[:-1]]
            return "".join(choices[0]["delta"].get("content") or "" for choices in deltas if choices)
        value = json.loads(text)
        if name == "chat":
            return value["choices"][0]["message"]["content"]
        return value["choices"][0]["text"] if name == "text" else value["outputs"][0]["data"]


def field(number, value):
    """A field of protobuf with a length."""
    return bytes([8 * number + 2, len(value)]) + value


class Grpc:
    """The same for tensors over gRPC: messages as bytes, by the official client."""

    was_idle = False

    def __init__(self, server, kinds):
        del kinds
        self.channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", [
            ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)])
        self.call = self.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")

    def close(self):
        self.channel.close()

    def ask(self, choices):
        name = choices.choice(TENSORS)
        contents = field(6, struct.pack("<3f", 1, 2, 3))
        tensor = field(1, b"x") + field(2, b"FP32") + field(3, b"\1\3") + field(5, contents)
        try:
            return name, 200, self.call(field(1, name.encode()) + field(5, tensor), timeout=TIMEOUT_S, wait_for_ready=True)
        except grpc.RpcError as error:
            what = error.details()
            if error.code() is grpc.StatusCode.UNAVAILABLE and re.search(r"[Ss]ocket closed|reset|Broken pipe|GOAWAY|Stream", what):
                raise Lost(f"{name}: {what}") from error
            is_refused = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
            return name, 503 if is_refused else 500, f"{error.code()} {what}".encode()

    def read(self, name, text):
        values = text[-12:] if len(text) > 12 else b""
        version = b"2" if name == "triple" else b"1"
        tensor = field(1, b"y") + field(2, b"FP32") + field(3, b"\1\3") + field(5, field(6, values))
        if text != field(1, name.encode()) + field(2, version) + field(5, tensor):
            raise ValueError("not the message of this answer")
        return list(struct.unpack("<3f", values))


CLIENTS = [("REST", Rest, ["tensors"]), ("REST", Rest, ["tensors"]), ("texts", Rest, ["tensors", "text"]),
           ("gRPC", Grpc, None), ("gRPC", Grpc, None), ("chats", Rest, ["chat", "streamed"]),
           ("chats", Rest, ["chat", "streamed", "text"])]


def client(server, end, counts, seed, right):
    name, protocol, kinds = CLIENTS[seed]
    choices, connection = random.Random(seed), None
    while not end.is_set():
        if connection is not None and choices.random() < 0.05:
            connection.close()
            connection = None
        if connection is None:
            opened = time.monotonic()
            connection = protocol(server, kinds)
        try:
            asked, status, text = connection.ask(choices)
        except Lost as error:
            connection.close()
            is_excused = opened < server.killed_at + 1
            counts.add("excused" if is_excused else "retried" if connection.was_idle else "lost", name, str(error))
            connection = None
            continue
        if status in (429, 503):
            counts.add("refused", name)
            continue
        try:
            good = status == 200 and connection.read(asked, text) in right[asked]
        except (ValueError, KeyError, IndexError):
            good = False
        counts.add("answered" if good else "wrong", name, f"{asked}: {status} {text[:200]}")
    if connection is not None:
        connection.close()


def overwrite(server, choices):
    """As cp does; a slow one is half written for a while."""
    name = choices.choice(["twice", "twice", "own", "counted"])
    models = server.folder / "models"
    source = {"twice": models / "triple" / choices.choice("12") / "model.onnx", "own": server.folder / "own.onnx",
              "counted": server.folder / "counted.onnx"}[name]
    data = source.read_bytes()
    with open(models / "twice.onnx" if name == "twice" else models / name / "1" / "model.onnx", "wb") as to:
        to.write(data[:len(data) // 2])
        to.flush()
        time.sleep(choices.choice([0, 0, 0.15]))
        to.write(data[len(data) // 2:])


def load(server, choices):
    connection = Rest(server, ["load"])
    try:
        name, status, text = connection.ask(choices)
        if status not in (200, 429, 503):
            server.counts.add("wrong", name, f"{status} {text[:200]}")
    except Lost as error:
        is_excused = connection.opened < server.killed_at + 1
        server.counts.add("excused" if is_excused else "retried" if connection.was_idle else "lost", "load", str(error))
    connection.close()


def kill(server, choices):
    children = server.children()
    if children:
        if server.workers:
            server.killed_at = sys.maxsize  # until it is certain when
        try:
            os.kill(choices.choice(children), signal.SIGKILL)
        except ProcessLookupError:
            pass
        if server.workers:
            server.killed_at = time.monotonic()


def exhaust(server, choices):
    """More idle connections than the server has descriptors; nevertheless, a model is loaded."""
    idle = []
    for _ in range(DESCRIPTORS + choices.randrange(40)):
        try:
            idle.append(socket.create_connection(("127.0.0.1", choices.choice([server.port, server.grpc_port])), timeout=1))
        except OSError:
            break
    if not server.workers:
        load(server, choices)
    time.sleep(0.2)
    for one in idle:
        one.close()


def empty(server, choices):
    """Makes room on the disk, as logrotate's copytruncate does."""
    del choices
    for path in server.disk.iterdir():
        os.truncate(path, 0)


def log_is_whole(server):
    """Whether all lines of the access log are JSON after the disk has room again."""
    if not server.has_disk:
        return True
    empty(server, None)
    connection = Rest(server, ["tensors"])
    for _ in range(50):
        connection.ask(random.Random(1))
    connection.close()
    lines = (server.disk / "access").read_text().strip().split("\n")
    return len(lines) >= 49 and all(json.loads(line)["status"] > 0 for line in lines[1:])


def start_attackers(server, count):
    kinds = list(serve_attackers.attacks().values()) if count > 0 else []
    attackers = [multiprocessing.Process(target=serve_attackers.attack, args=(server.port, *kinds[i % len(kinds)], 3 * i))
                 for i in range(count)]
    for one in attackers:
        one.start()
    return attackers


def run(server, seconds, attacker_count):
    workers, counts, choices = server.workers, server.counts, random.Random(server.workers)
    first, right = Rest(server, []), dict(RIGHT)
    for kind in ("text", "chat", "streamed"):
        first.kinds = [kind]
        name, status, text = first.ask(choices)
        right[kind] = [first.read(name, text)]
        assert status == 200 and right[kind][0], text
    first.close()
    assert right["chat"] == right["streamed"]
    attackers = start_attackers(server, attacker_count)
    begin, end = time.monotonic(), threading.Event()
    threads = [threading.Thread(target=client, args=(server, end, counts, seed, right)) for seed in range(len(CLIENTS))]
    for thread in threads:
        thread.start()
    weights = {overwrite: 8, kill: 1, exhaust: 1, empty: 1} | ({} if workers else {load: 4})  # workers do not load by request
    troubles = dict.fromkeys(weights, 0)
    usage, most = None, [0, 0]
    spare = 8 * max(workers, 1)  # a process that has just started has fewer descriptors than later
    middle, late = begin + seconds / 3, begin + seconds * 2 / 3
    while True:
        is_shown = all(troubles.values()) and len(counts.by_client) == 4 and usage is not None
        if time.monotonic() > begin + seconds + (-1 if is_shown else TIMEOUT_S):
            break
        unseen = [trouble for trouble, count in troubles.items() if count == 0]
        trouble = unseen[0] if unseen else choices.choices(list(weights), weights.values())[0]
        trouble(server, choices)
        troubles[trouble] += 1
        time.sleep(0.25)
        now = server.usage() if time.monotonic() > middle else None
        if now is not None:  # a worker that was just started has few descriptors, so the most of that third counts
            most = [max(pair) for pair in zip(most, now)]
            usage = most if usage is None or time.monotonic() < late else usage
    end.set()
    for thread in threads:
        thread.join()
    for one in attackers:
        one.terminate()
        one.join()
    if usage is None:
        sys.exit(f"no processes to measure in {TIMEOUT_S} s: {troubles}, {counts.by_client}")
    for _ in range(SETTLE_S):  # idle models give their memory back after five seconds
        after = server.usage() or (sys.maxsize, sys.maxsize)
        if after[0] < usage[0] * 1.2 + (16 << 20) and after[1] <= usage[1] + spare:
            break
        time.sleep(1)
    whole = log_is_whole(server)
    status = server.end()
    what = ", ".join(f"{count} x {trouble.__name__}" for trouble, count in troubles.items())
    print(f"{'two workers' if workers else 'one process'}, {time.monotonic() - begin:.0f} s, {what}: {counts.by_kind}, of it "
          f"{counts.by_client}; resident {usage[0] >> 20} MiB in the second third, at most {most[0] >> 20}, {after[0] >> 20} at the "
          f"end; descriptors {usage[1]}, {most[1]}, {after[1]}; access log {'whole' if whole else 'broken'}; exit code {status}",
          flush=True)
    good = (counts.by_kind["lost"] == 0 and counts.by_kind["wrong"] == 0 and len(counts.by_client) == 4 and whole
            and after[0] < usage[0] * 1.2 + (16 << 20) and after[1] <= usage[1] + spare and status == 0)
    if not good:
        lines = (server.folder / "log").read_text().split("\n")
        print(*[line for line in lines if " I inlay-serve" not in line][-40:], sep="\n", file=sys.stderr)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("writer")
    parser.add_argument("--minutes", type=float, default=0.17)
    parser.add_argument("--workers", type=int, choices=(0, 2))
    parser.add_argument("--attackers", type=int, default=0)
    args = parser.parse_args()
    kinds = (0, 2) if args.workers is None else (args.workers,)
    good = True
    for workers in kinds:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_models(args.writer, folder)
            with Server(args.program, folder, workers) as server:
                good &= run(server, args.minutes * 60 / len(kinds), args.attackers)
    return 0 if good else 1


sys.exit(main())
