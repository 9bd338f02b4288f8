#!/usr/bin/python3
"""What clients that send the most expensive requests cost the others.

    serve_attackers.py SERVER WRITE_MODELS [SECONDS [PORT]]

SERVER: inlay-serve; WRITE_MODELS: serve_write_models. For each kind of attacker, 16 clients repeat its request; beside
them, one client each asks for health on the main and on the admin port and runs a small model. Before each kind the
same is measured without attackers. Prints medians and 99th percentiles in ms.
"""
import gzip
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CLIENTS = 16
TWICE = b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}'
INFER = "/v2/models/twice/infer"


def blanks(count, tabs):
    generator = random.Random(1)
    return b"".join(b"\t" if generator.random() < tabs else b" " * 1000 for _ in range(count // 1000))


def chat(parts):
    return json.dumps({"model": "counted", "messages": [{"role": "user", "content": "a" * 1000}] * parts}).encode()


def schema(seed):
    names = {f"p{seed}_{i}": {"type": "string", "maxLength": 200 + i} for i in range(40)}
    return json.dumps({"model": "counted", "prompt": "a", "max_tokens": 1,
                       "response_format": {"type": "json_schema", "json_schema": {
                           "name": "n", "schema": {"type": "object", "properties": names}}}}).encode()


def attacks():
    """name -> path, header, bodies"""
    coded = {"Content-Encoding": "gzip"}
    return {
        "gzip, 61 KB to 60 MB": (INFER, coded, [gzip.compress(b" " * 60000000 + TWICE)]),
        "gzip, within the ratio": (INFER, coded, [gzip.compress(blanks(60000000, 0.2) + TWICE, 1)]),
        "JSON of 53 MB": (INFER, {}, [b" " * 1000 + json.dumps({"inputs": [
            {"name": "x", "shape": [5000000, 1], "datatype": "FP32", "data": [0.1234567] * 5000000}]}).encode()]),
        "chats of 30 MB": ("/v1/chat/completions", {}, [chat(29000)]),
        "schemas, all different": ("/v1/completions", {}, [schema(i) for i in range(50)]),
    }


def attack(port, path, header, bodies, first):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        for i in range(len(bodies)):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                connection.request("POST", path, bodies[(first + i) % len(bodies)], header)
                connection.getresponse().read()
                connection.close()
            except OSError:
                time.sleep(0.01)


def probe(port, method, path, body, seconds, results):
    times = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begin = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request(method, path, body)
        connection.getresponse().read()
        connection.close()
        times.append((time.monotonic() - begin) * 1e3)
        time.sleep(0.02)
    results.put((path if body else port, sorted(times)))


def measure(port, seconds):
    results = multiprocessing.Queue()
    probes = [(port, "GET", "/v2/health/live", None), (port + 1, "GET", "/v2/health/live", None),
              (port, "POST", INFER, TWICE)]
    processes = [multiprocessing.Process(target=probe, args=(*one, seconds, results)) for one in probes]
    for process in processes:
        process.start()
    found = dict(results.get() for _ in processes)
    for process in processes:
        process.join()
    return [(times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)])
            for times in (found[port], found[port + 1], found[INFER])]


def make_models(writer, folder):
    text = folder / "models" / "counted"
    subprocess.run([writer, str(folder / "models")], check=True)
    subprocess.run([writer, str(folder), "decoders"], check=True)
    (text / "1").mkdir(parents=True)
    shutil.copy(folder / "counted.onnx", text / "1" / "model.onnx")
    (text / "tokenizer.json").write_text(json.dumps(
        {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
         "decoder": {"type": "ByteLevel"}, "added_tokens": [],
         "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}}))
    (text / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": "{% for one in messages %}{{ one.role }}:{{ one.content }}{% endfor %}"}))


def main():
    server, write_models = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10
    port = int(sys.argv[4]) if len(sys.argv) > 4 else 21500
    with tempfile.TemporaryDirectory() as folder:
        make_models(write_models, pathlib.Path(folder))
        process = subprocess.Popen([server, os.path.join(folder, "models"), "--port", str(port), "--admin-port",
                                    str(port + 1), "--grpc-port", "-1", "--strict", "0"], stderr=subprocess.DEVNULL)
        print("| attackers | health ms | admin health ms | model ms |\n|---|---|---|---|")
        try:
            time.sleep(3)
            for name, (path, header, bodies) in attacks().items():
                rows = {"none": measure(port, seconds)}
                attackers = [multiprocessing.Process(target=attack, args=(port, path, header, bodies, 3 * i))
                             for i in range(CLIENTS)]
                for one in attackers:
                    one.start()
                time.sleep(2)
                rows[name] = measure(port, seconds)
                for one in attackers:
                    one.terminate()
                    one.join()
                time.sleep(3)
                for row, figures in rows.items():
                    print(f"| {row} | " + " | ".join(f"{half:.1f}, {most:.1f}" for half, most in figures) + " |",
                          flush=True)
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
