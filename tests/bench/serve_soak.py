#!/usr/bin/python3
"""Requests and texts while things go wrong around the server: models are overwritten and loaded again, processes are
killed, the disk is full, descriptors run out. Prints what was answered, lost and wrong, memory and descriptors.
    serve_soak.py INLAY_SERVE WRITE_MODELS [SECONDS]

Two runs of SECONDS (90): one process, of which one model is in a process of its own (isolate=all) that is killed; two
workers, which are killed in turn. A request on a connection that had been idle is sent again if the connection ends
without an answer, because a server without descriptors closes such connections. Exit code 1: an answer was wrong or
lost, other than on a connection of a process that was killed, or memory or descriptors grew."""
import http.client
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = int(sys.argv[3]) if len(sys.argv) > 3 else 90
CLIENTS, DESCRIPTORS = 6, 160
TOKEN = "admin-0123456789abcdef"
INPUT = json.dumps({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})
RIGHT = {"twice": [[2, 4, 6], [4, 8, 12]], "own": [[2, 4, 6]], "triple": [[4, 8, 12]]}


class Counts:
    def __init__(self):
        self.lock = threading.Lock()
        self.by_kind = {"answered": 0, "refused": 0, "retried": 0, "lost": 0, "excused": 0, "wrong": 0}

    def add(self, kind, what=""):
        with self.lock:
            self.by_kind[kind] += 1
        if kind in ("lost", "wrong"):
            print(f"{kind}: {what}", file=sys.stderr)


def write_models(writer, folder):
    subprocess.run([writer, str(folder / "models")], check=True)
    subprocess.run([writer, str(folder), "decoders"], check=True)
    for name in ("own", "counted"):
        (folder / "models" / name / "1").mkdir(parents=True)
    shutil.copy(folder / "models" / "twice.onnx", folder / "models" / "own" / "1" / "model.onnx")
    (folder / "models" / "own" / "config.yaml").write_text("options: [isolate=all]\n")
    (folder / "counted.onnx").rename(folder / "models" / "counted" / "1" / "model.onnx")
    (folder / "models" / "counted" / "tokenizer.json").write_text(json.dumps(
        {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
         "decoder": {"type": "ByteLevel"}, "added_tokens": [],
         "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}}))
    (folder / "admins").write_text(TOKEN + "\n")
    (folder / "admins").chmod(0o600)


class Server:
    def __init__(self, program, folder, workers):
        flags = [program, str(folder / "models"), "--no-config", "--port", "0", "--grpc-port", "-1", "--poll-ms", "100",
                 "--access-log", "/dev/full", "--admin-token-file", str(folder / "admins"), "--workers", str(workers)]
        self.folder, self.workers, self.killed_at = folder, workers, 0.0
        self.log = open(folder / f"log{workers}", "w+")
        self.process = subprocess.Popen(flags, stderr=self.log, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
        for _ in range(600):
            text = (folder / f"log{workers}").read_text()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
            if ": ready" in text and found:
                break
            time.sleep(0.1)
        else:
            sys.exit(f"the server does not start: {text}")
        self.port = int(found.group(1))

    def children(self):
        ids = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(one) for one in ids]

    def usage(self):
        """Resident bytes and descriptors of the processes that serve."""
        ids = self.children() if self.workers else [self.process.pid]
        pages = [int(pathlib.Path(f"/proc/{one}/statm").read_text().split()[1]) for one in ids]
        return sum(pages) * 4096, sum(len(os.listdir(f"/proc/{one}/fd")) for one in ids)


def ask(connection, path, body, headers):
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def check(status, text, name, counts):
    if status in (429, 503):
        return counts.add("refused")
    try:
        value = json.loads(text)
        good = status == 200 and (len(value["choices"][0]["text"]) > 0 if name == "counted" else
                                  value["outputs"][0]["data"] in RIGHT[name])
    except (ValueError, KeyError, IndexError):
        good = False
    return counts.add("answered" if good else "wrong", f"{name}: {status} {text[:200]}")


def client(server, end, counts, seed):
    choices, connection = random.Random(seed), None
    while time.monotonic() < end:
        was_idle = connection is not None
        name = choices.choice(["twice", "twice", "triple", "own", "counted"])
        path, body = f"/v2/models/{name}/infer", INPUT
        if name == "counted":
            path, body = "/v1/completions", json.dumps({"model": name, "prompt": "x", "max_tokens": 8, "seed": seed})
        if connection is None or choices.random() < 0.05:
            if connection is not None:
                connection.close()
            was_idle = False
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        began = time.monotonic()
        try:
            status, text = ask(connection, path, body, {})
            check(status, text, name, counts)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            connection = None
            excused = server.killed_at > 0 and began - 5 < server.killed_at  # a connection of the killed process
            counts.add("excused" if excused else "retried" if was_idle else "lost", f"{name}: {error!r}")


def overwrite(server, choices):
    source = server.folder / "models" / "triple" / choices.choice("12") / "model.onnx"
    shutil.copyfile(source, server.folder / "models" / "twice.onnx")


def load(server, choices):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        ask(connection, f"/v2/repository/models/{choices.choice(['twice', 'own', 'counted'])}/load", "{}",
            {"Authorization": f"Bearer {TOKEN}"})
    except (OSError, http.client.HTTPException):
        pass
    connection.close()


def kill(server, choices):
    children = server.children()
    if children:
        if server.workers:
            server.killed_at = time.monotonic()
        try:
            os.kill(choices.choice(children), signal.SIGKILL)
        except ProcessLookupError:
            pass


def exhaust(server, choices):
    """More idle connections than the server has descriptors."""
    idle = []
    for _ in range(DESCRIPTORS + choices.randrange(40)):
        try:
            idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=1))
        except OSError:
            break
    time.sleep(0.3)
    for one in idle:
        one.close()


def run(program, folder, workers):
    server, counts, choices = Server(program, folder, workers), Counts(), random.Random(workers)
    end = time.monotonic() + SECONDS
    threads = [threading.Thread(target=client, args=(server, end, counts, seed)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    troubles = {overwrite: 0, load: 0, kill: 0, exhaust: 0}
    usage, middle = None, time.monotonic() + SECONDS / 3
    while time.monotonic() < end - 1:
        trouble = choices.choices(list(troubles), [8, 4, 1, 1])[0]
        trouble(server, choices)
        troubles[trouble] += 1
        time.sleep(0.25)
        if usage is None and time.monotonic() > middle and len(server.children()) >= workers:
            usage = server.usage()
    for thread in threads:
        thread.join()
    time.sleep(6)  # idle models give their memory back after five seconds
    after = server.usage()
    server.process.terminate()
    status = server.process.wait(60)
    what = ", ".join(f"{count} x {trouble.__name__}" for trouble, count in troubles.items())
    print(f"{'two workers' if workers else 'one process'}, {SECONDS} s, {what}: {counts.by_kind}, resident "
          f"{usage[0] >> 20} MiB after a third, "
          f"{after[0] >> 20} MiB at the end, descriptors {usage[1]} and {after[1]}, "
          f"exit code {status}")
    return (counts.by_kind["lost"] == 0 and counts.by_kind["wrong"] == 0 and counts.by_kind["answered"] > 0
            and after[0] < usage[0] * 1.2 + (32 << 20) and after[1] <= usage[1] + 8 and status == 0)


def main():
    good = True
    for workers in (0, 2):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_models(sys.argv[2], folder)
            good &= run(sys.argv[1], folder, workers)
    return 0 if good else 1


sys.exit(main())
