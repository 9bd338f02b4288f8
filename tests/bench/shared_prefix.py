#!/usr/bin/env python3
"""shared_prefix.py INLAY_SERVE [CLIENTS [PREFIX]] - clients (32) whose prompts have the same first tokens (2000): the time
of 32 generated tokens of each, and the server's memory. The model is made here: 8 layers of width 896, Q4_0."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats"))
import test_gguf as gguf

PORT, NEW, WORDS = 8791, 32, 2000


def ask(prompt, count):
    body = json.dumps({"model": "model", "prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True})
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/v1/completions", body.encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


def mebibytes(pid):
    """Memory of the process; a page that it has mapped several times counts once."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as maps:
        return int(re.search(r"\nPss:\s+(\d+)", maps.read()).group(1)) // 1024


def wait_until_ready():
    for _ in range(200):
        time.sleep(0.1)
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/health/ready")
            return
        except OSError:
            pass
    sys.exit("the server is not ready after 20 s")


def measure(pid, clients, prefix):
    start = time.monotonic()
    ask(prefix, 1)
    print(f"first prompt of {len(prefix)} tokens: {time.monotonic() - start:.2f} s")
    threads = [threading.Thread(target=ask, args=(prefix + [300 + i, 700 - i], NEW)) for i in range(clients)]
    start, most = time.monotonic(), 0
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            most = max(most, mebibytes(pid))
            thread.join(0.1)
    print(f"{clients} clients, {NEW} tokens each: {time.monotonic() - start:.2f} s; memory {mebibytes(pid)} MiB, at most "
          f"{most}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    clients, length = (int(value) for value in (sys.argv[2:] + ["32", "2000"][len(sys.argv) - 2:])[:2])
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        with open(path, "wb") as file:
            file.write(gguf.make("llama", "Q4_0", sizes=gguf.Sizes(896, 14, 2, 64, 4864, 8, 4096, WORDS))[0])
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen([sys.argv[1], path, "--port", str(PORT), "--grpc-port", "-1"], stdout=log,
                                      stderr=log)
        try:
            wait_until_ready()
            measure(server.pid, clients, [rng.randrange(300, WORDS - 100) for _ in range(length)])
        finally:
            server.terminate()
            server.wait()


main()
