#!/usr/bin/python3
"""The providers of a model are changed while clients send requests: each change begins beside the old ones, in processes
of its own, runs copies of requests (rollout: shadow), and is promoted, or is dropped because its provider crashes.
    swap.py INLAY_SERVE FRAGILE_DIR [--swaps N] [--rate N]

--swaps: changes (default: 3, of which the second crashes); --rate: requests a second of the clients together (default:
100). Each answer is compared with the right one. Prints the requests, those that failed or were wrong, the 99th
percentile of latencies while swaps run and without, and the CPU time of the server and its processes that a swap takes
in addition to that of the requests. Exit code 1: an answer was wrong or lost, or a change had another
end than it should have."""
import argparse
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

CRASH, CLIENTS, TIMEOUT_S = 1001.0, 4, 120  # the first element of an input with which `fragile` crashes
CONFIG = """rollout: shadow
rollout_percent: 100
rollout_requests: 10
rollout_median_ratio: 0
rollout_tail_ratio: 0
options: [{options}]
"""
GOOD = ["providers=reference, isolate=all", "providers=cpu, isolate=all", "providers=reference"]
BAD = "providers=fragile, isolate=all"


def varint(n):
    return bytes([n & 0x7f | 0x80]) + varint(n >> 7) if n > 0x7f else bytes([n])


def field(number, data):
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def relu_model():
    def value(name):
        shape = field(1, field(2, "n")) + field(1, field(1, 8))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))
    node = field(1, "x") + field(2, "y") + field(3, "relu") + field(4, "Relu")
    graph = field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


class Clients:
    """Requests at fixed times, which do not wait for each other beyond the connections there are."""

    def __init__(self, port, rate):
        self.port, self.rate, self.ends, self.lock = port, rate, False, threading.Lock()
        self.begin, self.next, self.swapping = time.monotonic(), 0, False
        self.times, self.failed, self.wrong = {False: [], True: []}, 0, 0
        self.threads = [threading.Thread(target=self.run) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        while not self.ends:
            with self.lock:
                number, self.next = self.next, self.next + 1
            due = self.begin + number / self.rate
            time.sleep(max(0, due - time.monotonic()))
            data = [CRASH if number % 2 else 1.0, -1.0, 2.0, -3.0, 4.0, 5.0, -6.0, number % 100]
            body = json.dumps({"inputs": [{"name": "x", "shape": [1, 8], "datatype": "FP32", "data": data}]})
            swapping = self.swapping
            try:
                connection.request("POST", "/v2/models/m/infer", body)
                answer = connection.getresponse()
                text = answer.read()
                right = answer.status == 200
                same = right and json.loads(text)["outputs"][0]["data"] == [max(v, 0) for v in data]
            except (OSError, http.client.HTTPException) as failure:
                text, right, same = repr(failure), False, False
                connection.close()
            with self.lock:
                self.times[swapping].append(time.monotonic() - due)
                self.failed += not right
                self.wrong += right and not same
                if (not right or not same) and self.failed + self.wrong <= 5:
                    print(f"request {number}: {text[:300]}", file=sys.stderr)

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join()

    def p99_ms(self, swapping):
        times = sorted(self.times[swapping])
        return 1e3 * times[len(times) * 99 // 100] if times else 0


class Server:
    def __init__(self, program, plugins, folder):
        self.folder = folder
        (folder / "models" / "m" / "1").mkdir(parents=True)
        (folder / "models" / "m" / "1" / "model.onnx").write_bytes(relu_model())
        self.configure(GOOD[0])
        flags = [program, str(folder / "models"), "--no-config", "--port", "0", "--grpc-port", "0", "--poll-ms", "50",
                 "--plugin-dirs", plugins, "--cache-dir", str(folder / "cache"), "--batch-delay-us", "0"]
        with open(folder / "log", "w", encoding="utf-8") as to:
            self.process = subprocess.Popen(flags, stderr=to)
        for _ in range(10 * TIMEOUT_S):
            log = self.log()
            port = re.search(r"http://127\.0\.0\.1:(\d+)", log)
            if ": ready" in log and port:
                break
            if self.process.poll() is not None:
                sys.exit(f"the server does not start: {log}")
            time.sleep(0.1)
        else:
            sys.exit(f"the server does not start: {log}")
        self.port = int(port.group(1))

    def cpu_s(self):
        """CPU time of the server and of its processes that have ended, in seconds."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def configure(self, options):
        config = self.folder / "models" / "m" / "config.yaml"
        new = config.with_suffix(".new")
        new.write_text(CONFIG.format(options=options), encoding="utf-8")
        new.rename(config)

    def ends(self):
        """The lines of the log that say how a rollout ended."""
        return [line for line in self.log().splitlines() if "it replaces version" in line or " dropped: " in line]

    def swap(self, options):
        before = len(self.ends())
        self.configure(options)
        for _ in range(50 * TIMEOUT_S):
            ends = self.ends()
            if len(ends) > before:
                return ends[-1]
            time.sleep(0.02)
        return f"no end: {self.log()[-600:]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("plugins")
    parser.add_argument("--swaps", type=int, default=3)
    parser.add_argument("--rate", type=float, default=100)
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as top:
        server = Server(args.server, args.plugins, pathlib.Path(top))
        clients = Clients(server.port, args.rate)
        try:
            begin, cpu = time.monotonic(), server.cpu_s()
            time.sleep(min(5.0, 0.1 * args.swaps))
            quiet = (server.cpu_s() - cpu) / (time.monotonic() - begin)
            begin, cpu = time.monotonic(), server.cpu_s()
            good = 0
            for i in range(args.swaps):
                crashes = i % 4 == 1
                good += not crashes
                clients.swapping = True
                line = server.swap(BAD if crashes else GOOD[good % len(GOOD)])
                clients.swapping = False
                if (" dropped: " in line) != crashes or "no end" in line:
                    print(f"swap {i}: {line}", file=sys.stderr)
                    bad += 1
                time.sleep(0.1)
            extra = server.cpu_s() - cpu - quiet * (time.monotonic() - begin)
        finally:
            clients.end()
            server.process.terminate()
            server.process.wait(TIMEOUT_S)
    print(json.dumps({"swaps": args.swaps, "bad_ends": bad, "requests": clients.next, "failed": clients.failed,
                      "wrong": clients.wrong, "p99_ms": round(clients.p99_ms(False), 3),
                      "p99_swapping_ms": round(clients.p99_ms(True), 3),
                      "cpu_ms_of_swap": round(1e3 * extra / args.swaps, 1)}))
    return 1 if bad or clients.failed or clients.wrong or not clients.next else 0


if __name__ == "__main__":
    sys.exit(main())
