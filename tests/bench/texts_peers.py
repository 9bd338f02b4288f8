#!/usr/bin/python3
"""Texts by inlay and by llama.cpp with the same weights of 4 bits:

    texts_peers.py DIR INLAY INLAY_SERVE [--threads 1,2] [--clients 1,4,8,32] [--rounds 3]
        [--only steps | servers]

DIR holds sid/, a Debian root with llama.cpp and sid/llm/llm_q4_0.gguf, and llm_acc4.onnx, the same decoder; for the
servers also sid/llm/words.gguf, the same with a vocabulary of 32,000 tokens, which llama-server needs. Needs root, for
chroot. Prints tokens a second of steps of 1 and 8 texts behind 128 tokens, and of prompts of 128; then of both servers,
with the CPU time of a generated token, which includes its share of the prompt, the time to the first token (median and p99)
and the memory. The programs take turns; the fastest round counts, and the least CPU time."""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

PROMPT, TOKENS, WORDS = 128, 48, 32000


def inlay_rate(args, threads, rows, columns, past):
    out = subprocess.run([args.inlay, "bench", os.path.join(args.dir, "llm_acc4.onnx"), "--dim", "batch=%d" % rows, "--dim",
                          "seq=%d" % columns, "--grow", "past=%d+%d" % (past, columns), "--seconds", "3", "--intra-threads",
                          str(threads)] if past else
                         [args.inlay, "bench", os.path.join(args.dir, "llm_acc4.onnx"), "--dim", "batch=%d" % rows, "--dim",
                          "seq=%d" % columns, "--dim", "past=0", "--dim", "total=%d" % columns, "--seconds", "3",
                          "--intra-threads", str(threads)], capture_output=True, text=True, check=True)
    return rows * columns * 1e3 / float(re.search(r"^median\s+([\d.]+) ms", out.stdout, re.M).group(1))


def llama_rates(args, threads):
    """Tokens a second of prompts, and of 1 and 8 texts."""
    out = subprocess.run(["chroot", os.path.join(args.dir, "sid"), "llama-batched-bench", "-m", "/llm/llm_q4_0.gguf", "-t",
                          str(threads), "-npp", str(PROMPT), "-ntg", "32", "-npl", "1,8", "-c", "2048"],
                         capture_output=True, text=True, check=True)
    rows = [[float(cell) for cell in line.strip("| \n").split("|")] for line in out.stdout.splitlines()
            if re.match(r"\|\s*%d " % PROMPT, line)]
    return rows[0][5], rows[0][7], rows[1][7]


def steps(args):
    print("| threads | prompt of 128: inlay, llama.cpp | 1 text | 8 texts |\n|-|-|-|-|")
    for threads in args.threads:
        ours, theirs = [0, 0, 0], [0, 0, 0]
        for _ in range(args.rounds):
            now = [inlay_rate(args, threads, 1, PROMPT, 0), inlay_rate(args, threads, 1, 1, PROMPT),
                   inlay_rate(args, threads, 8, 1, PROMPT)]
            ours = [max(pair) for pair in zip(ours, now)]
            theirs = [max(pair) for pair in zip(theirs, llama_rates(args, threads))]
        print("| %d | %s |" % (threads, " | ".join("%.1f, %.1f: %.2f" % (a, b, a / b) for a, b in zip(ours, theirs))),
              flush=True)


class Peer:
    def __init__(self, name, command, port, log):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)
        while True:
            text = open(log).read()
            if self.process.poll() is not None:
                sys.exit(name + ": " + text[-2000:])
            found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
            if found and ("ready" in text or "model loaded" in text):
                self.port = int(found.group(1))
                return
            time.sleep(0.3)

    def stream(self, prompt, result):
        body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "stream": True,
                           **({"ignore_eos": True} if self.name == "llama-server" else {})}).encode()
        begin, first, count = time.monotonic(), None, 0
        with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d/v1/completions" % self.port, body,
                                                           {"Content-Type": "application/json"})) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    count += 1
                    first = first if first is not None else time.monotonic() - begin
        result.append((first, count))

    def memory(self):
        process = self.process.pid
        return int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % process).read()).group(1)) / 1024


    def cpu_ms(self):
        words = open("/proc/%d/stat" % self.process.pid).read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) * 1e3 / os.sysconf("SC_CLK_TCK")


def measure(peer, clients, texts):
    results, prompts = [], iter([[(i * 7919 + k * 31) % (WORDS - 300) + 300 for k in range(PROMPT)] for i in range(texts)])
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                prompt = next(prompts, None)
            if prompt is None:
                return
            peer.stream(prompt, results)

    begin, cpu = time.monotonic(), peer.cpu_ms()
    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    firsts = sorted(first for first, _ in results)
    return (texts * TOKENS / took, (peer.cpu_ms() - cpu) / texts / TOKENS, statistics.median(firsts),
            firsts[min(len(firsts) - 1, int(0.99 * len(firsts)))])


def servers(args):
    folder = os.path.join(args.dir, "models", "m")
    os.makedirs(os.path.join(folder, "1"), exist_ok=True)
    if not os.path.exists(os.path.join(folder, "1", "model.onnx")):
        os.link(os.path.join(args.dir, "llm_acc4.onnx"), os.path.join(folder, "1", "model.onnx"))
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump({"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                   "decoder": {"type": "ByteLevel"},
                   "added_tokens": [], "model": {"type": "BPE", "merges": [],
                                                 "vocab": {"t%d" % i: i for i in range(WORDS)}}}, file)
    shutil.rmtree(os.path.join(args.dir, "cache"), ignore_errors=True)
    threads = str(max(args.threads))
    peers = [Peer("inlay", [args.serve, os.path.join(args.dir, "models"), "--port", "0", "--grpc-port", "-1", "--no-config",
                            "--intra-threads", threads, "--prefix-memory", "0"], 0, os.path.join(args.dir, "inlay.log")),
             Peer("llama-server", ["chroot", os.path.join(args.dir, "sid"), "llama-server", "-m", "/llm/words.gguf", "-t",
                                   threads, "-np", "32", "-c", str(32 * 256), "--port", "8791", "--host", "127.0.0.1",
                                   "--no-webui"], 8791, os.path.join(args.dir, "llama.log"))]
    print("\n| clients | tokens/s: inlay, llama-server | CPU ms a token | first token, median, s | p99, s | memory, MiB |\n|-|-|-|-|-|-|")
    try:
        for clients in args.clients:
            best = {peer.name: None for peer in peers}
            for _ in range(args.rounds):
                for peer in peers:
                    now = measure(peer, clients, max(4, 2 * clients))
                    old = best[peer.name] or now
                    best[peer.name] = (max(now[0], old[0]), min(now[1], old[1]), *(now if now[0] > old[0] else old)[2:])
            a, b = (best[peer.name] for peer in peers)
            print("| %d | %.1f, %.1f: %.2f | %.1f, %.1f: %.2f | %.2f, %.2f | %.2f, %.2f | %.0f, %.0f |" %
                  (clients, a[0], b[0], a[0] / b[0], a[1], b[1], b[1] / a[1], a[2], b[2], a[3], b[3], peers[0].memory(), peers[1].memory()), flush=True)
    finally:
        for peer in peers:
            peer.process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("inlay")
    parser.add_argument("serve")
    parser.add_argument("--threads", default="1,2", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--clients", default="1,4,8,32", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("steps", "servers"))
    args = parser.parse_args()
    if args.only != "servers":
        steps(args)
    if args.only != "steps":
        servers(args)


main()
