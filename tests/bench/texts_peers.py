#!/usr/bin/python3
"""Texts by inlay and by llama.cpp from the same GGUF files, which have random weights:

    texts_peers.py ROOT INLAY INLAY_SERVE [--threads 1,2] [--clients 1,8,32] [--rounds 3] [--clock cpu | wall]
        [--only steps | servers | types | contexts | opening] [--archs llama,...] [--kinds Q4_0,...]

ROOT is a Debian root with llama.cpp (llama-server, llama-bench, llama-batched-bench); needs root, for chroot, and for
`types` the Python package inlay. The programs take turns.

steps: for each type of weights, tokens in a second of CPU time: of prompts of 128 and of 512, and of steps of 1 and of 8
    texts; medians of the rounds. Processes are pinned, and what they do before is subtracted (llama.cpp) or not measured
    (inlay), so other work on the machine matters little. With two threads, CPU time includes waiting for each other:
    `--clock wall`, for an idle machine, uses the times of the programs, the best of the rounds.
servers: inlay-serve and llama-server by /v1/completions, streamed and not, on as many CPUs as threads: tokens a second,
    CPU time of the server for a generated token, which includes its share of the prompt, the time to the first token, and
    p99 of the time between two tokens of a text; medians of the rounds. Last, how many tokens agree before the first
    difference.
types: for each architecture of tests/formats and each type of weights, the greedy tokens compared with llama.cpp's from
    the same file and from its weights as F32 (llama.cpp rounds activations to 8 bits otherwise), and tokens a second of
    a prompt and of one text on one thread, the fastest of the rounds.
contexts: for each type, by inlay-serve and llama-server (with flash attention): seconds to the first token of prompts of
    4,000 and 16,000 tokens, and the mean ms of the tokens after them, the fastest of the rounds. `chrt -r 1` makes other
    programs wait.
opening: for each type, seconds and peak memory (VmHWM) of processes that make one token after a prompt of a few: `inlay
    generate` without packs in the cache and with them, `llama-completion`; and peak memory of `inlay chat`, inlay-serve
    and `inlay generate --draft`, as a multiple of the file."""
import argparse
import http.client
import json
import multiprocessing
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats"))
import test_gguf as gguf

PROMPT, TOKENS, WORDS = 64, 32, 31728
LARGE = gguf.Sizes(1024, 16, 2, 64, 4864, 8, 1024, WORDS)  # 0.17 billion weights
WIDE = gguf.Sizes(2048, 32, 8, 64, 8192, 8, 4096, WORDS)  # as Llama 3.2 1B, but 8 layers and fewer tokens
MIDDLE = gguf.Sizes(512, 8, 2, 64, 1536, 4, 512)
ARCHS = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "granite", "minicpm") + gguf.MIXTURES
KINDS = ("Q4_0", "Q4_K", "Q6_K", "Q8_0", "F16") + tuple(gguf.FLOATED)


def inlay_rate(args, path, threads, rows, columns, past):
    command = [args.inlay, "bench", path, "--seconds", "1", "--intra-threads", str(threads), "--last-logits", "1",
               "--input", "last_logits=[0]"]
    for name, size in (("batch_size", rows), ("sequence_length", columns), ("past_sequence_length", past),
                       ("total_sequence_length", past + columns)):
        command += ["--dim", "%s=%d" % (name, size)]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return rows * columns * 1e3 / float(re.search(r"^min\s+([\d.]+) ms", out.stdout, re.M).group(1))


def llama(args, *command):
    return subprocess.run(["chroot", args.root, *command], capture_output=True, text=True, check=True).stdout


def llama_rates(args, path, threads, texts):
    """Tokens a second of a prompt, and of steps of these numbers of texts."""
    out = llama(args, "llama-batched-bench", "-m", path, "-t", str(threads), "-npp", "128", "-ntg", "16", "-npl",
                ",".join(map(str, texts)), "-c", "2048")
    rows = [[float(cell) for cell in line.strip("| \n").split("|")] for line in out.splitlines()
            if re.match(r"\|\s*128 ", line)]
    if len(rows) != len(texts):
        sys.exit("llama-batched-bench printed %d rows, not %d:\n%s" % (len(rows), len(texts), out))
    return [rows[0][5]] + [row[7] for row in rows]


def faster(now, before):
    return [max(pair) for pair in zip(now, before)]


def compared(ours, theirs):
    return " | ".join("%.1f, %.1f: %.2f" % (a, b, a / b) for a, b in zip(ours, theirs))


def write(args, name, data):
    """Returns the path here and in the root."""
    os.makedirs(os.path.join(args.root, "texts"), exist_ok=True)
    path = os.path.join(args.root, "texts", name)
    with open(path, "wb") as file:
        file.write(data)
    return path, "/texts/" + name


def pinned(threads):
    return ["taskset", "-c", "0-%d" % (threads - 1)]


def inlay_cpu(args, path, threads, rows, columns, past, runs):
    """ms of CPU time of a run."""
    command = [*pinned(threads), args.inlay, "bench", path, "--seconds", "1000", "--runs", str(runs), "--warmup", "1", "--json",
               "--intra-threads", str(threads), "--last-logits", "1", "--input", "last_logits=[0]"]
    for name, size in (("batch_size", rows), ("sequence_length", columns), ("past_sequence_length", past),
                       ("total_sequence_length", past + columns)):
        command += ["--dim", "%s=%d" % (name, size)]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(out.stdout)["cpu_ms"]


def llama_cpu(args, threads, runs, *command):
    """ms of CPU time of one run. {} in the command is replaced by the number of runs."""
    spent = []
    for count in (1, 1 + runs):
        process = subprocess.Popen([*pinned(threads), "chroot", args.root, *(one.format(count) for one in command)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit("%s failed" % " ".join(command))
        spent.append((used.ru_utime + used.ru_stime) * 1e3)
    return (spent[1] - spent[0]) / runs


def wall_rates(args, ours, theirs, threads):
    """Tokens a second of prompts of 128 and 512, and of steps of 1 and 8 texts."""
    prompts = []
    for size, runs in ((128, 4), (512, 2)):
        out = llama(args, "llama-bench", "-m", theirs, "-t", str(threads), "-n", "0", "-p", str(size), "-r", str(runs), "-o", "json")
        prompts.append(size * 1e9 / min(json.loads(out)[0]["samples_ns"]))
    return ([inlay_rate(args, ours, threads, rows, columns, past)
             for rows, columns, past in ((1, 128, 0), (1, 512, 0), (1, 1, 128), (8, 1, 128))],
            prompts + llama_rates(args, theirs, threads, (1, 8))[1:])


def steps(args):
    print("| type | threads | prompt of 128: inlay, llama.cpp | of 512 | 1 text | 8 texts |\n|-|-|-|-|-|-|")
    for kind in args.kinds:
        ours, theirs = write(args, "steps.gguf", gguf.make("llama", kind, sizes=LARGE, alike=True)[0])
        for threads in args.threads:
            prompt = ("llama-bench", "-m", theirs, "-t", str(threads), "-n", "0", "-r", "{}", "-p")
            text = ("llama-batched-bench", "-m", theirs, "-t", str(threads), "-c", "2048", "-npp", "128", "-ntg", "{}", "-npl")
            rounds = [], []
            if args.clock == "wall":
                every = [wall_rates(args, ours, theirs, threads) for _ in range(args.rounds)]
                print("| %s | %d | %s |" % (kind, threads, compared(*([max(one) for one in zip(*side)] for side in zip(*every)))),
                      flush=True)
                continue
            for _ in range(args.rounds):
                rounds[0].append([rows * columns * 1e3 / inlay_cpu(args, ours, threads, rows, columns, past, runs)
                                  for rows, columns, past, runs in ((1, 128, 0, 6), (1, 512, 0, 2), (1, 1, 128, 48), (8, 1, 128, 16))])
                rounds[1].append([tokens * 1e3 / llama_cpu(args, threads, runs, *command, last) for tokens, runs, command, last in (
                    (128, 6, prompt, "128"), (512, 2, prompt, "512"), (1, 48, text, "1"), (8, 16, text, "8"))])
            print("| %s | %d | %s |" % (kind, threads, compared(*([statistics.median(one) for one in zip(*every)] for every in rounds))),
                  flush=True)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


class Peer:
    """A server, started and ready."""

    def __init__(self, name, command, log, model="texts"):
        self.name, self.model = name, model
        with open(log, "w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        while True:
            with open(log, errors="replace") as file:
                text = file.read()
            if self.process.poll() is not None:
                sys.exit(name + ": " + text[-2000:])
            found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
            if found and ("ready" in text or "model loaded" in text):
                self.port = int(found.group(1))
                return
            time.sleep(0.1)

    def complete(self, prompt, streamed):
        """Returns the text and the times of its tokens."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "stream": streamed,
                "ignore_eos": True, "cache_prompt": False}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        begin, times, text = time.monotonic(), [], ""
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit("%s: %s" % (self.name, answer.read().decode()[:1000]))
        if streamed:
            for line in answer:
                if line.startswith(b"data: {"):
                    times.append(time.monotonic() - begin)
                    text += "".join(choice["text"] for choice in json.loads(line[6:])["choices"])
        else:
            reply = json.loads(answer.read())
            text = reply["choices"][0]["text"]
            if reply["usage"]["completion_tokens"] != TOKENS:
                sys.exit("%s: %s" % (self.name, reply["usage"]))
        connection.close()
        return text, times

    def cpu_ms(self):
        with open("/proc/%d/stat" % self.process.pid) as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) * 1e3 / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def prompt_of(number, size=PROMPT):
    return [(number * 7919 + k * 31) % WORDS + 266 for k in range(size)]


def p99(values):
    values = sorted(values)
    return values[min(len(values) - 1, int(0.99 * len(values)))]


def load(peer, clients, streamed, first):
    """Texts of `clients` clients, one text for each client and two for a single one: tokens a second, CPU ms a token, and
    with streams s to the first token (median) and ms between tokens (p99)."""
    count = max(2, clients)
    times, numbers, lock = [], iter(range(first, first + count)), threading.Lock()

    def work():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            times.append(peer.complete(prompt_of(number), streamed)[1])

    begin, cpu = time.monotonic(), peer.cpu_ms()
    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, cpu = time.monotonic() - begin, peer.cpu_ms() - cpu
    if len(times) != count:
        sys.exit("%s: a request failed" % peer.name)
    numbers = [count * TOKENS / took, cpu / count / TOKENS]
    return numbers + ([statistics.median(one[0] for one in times),
                       p99([(b - a) * 1e3 for one in times for a, b in zip(one, one[1:])])] if streamed else [])


def agreeing(peers):
    """Words (tokens but for a few bytes) before the first difference of the servers' texts."""
    counts = []
    for number in range(4):
        a, b = (re.findall(r"[^.]*\.", peer.complete(prompt_of(number), False)[0]) for peer in peers)
        counts.append(next((i for i, pair in enumerate(zip(a, b)) if pair[0] != pair[1]), min(len(a), len(b))))
    return counts


def servers(args, ours, theirs):
    print("\n| threads | clients | streamed | tokens/s: inlay, llama-server | CPU ms a token | first token, s | between "
          "tokens, p99, ms |\n|-|-|-|-|-|-|-|")
    first = 100
    for threads in args.threads:
        peers, cpus = [], ["taskset", "-c", "0-%d" % (threads - 1)]
        try:
            peers.append(Peer("inlay-serve", [*cpus, args.serve, ours, "--port", "0", "--grpc-port", "-1", "--no-config",
                                              "--intra-threads", str(threads), "--prefix-memory", "0"],
                              os.path.join(args.root, "texts", "inlay.log")))
            peers.append(Peer("llama-server", [*cpus, "chroot", args.root, "llama-server", "-m", theirs, "-t", str(threads),
                                               "-np", "32", "-c", str(32 * 256), "--port", free_port(), "--host",
                                               "127.0.0.1",
                                               "--no-webui"], os.path.join(args.root, "texts", "llama.log")))
            same = agreeing(peers)  # also warms up
            for clients in args.clients:
                for streamed in (True, False):
                    rounds = {peer.name: [] for peer in peers}
                    for _ in range(args.rounds):
                        for peer in peers:
                            rounds[peer.name].append(load(peer, clients, streamed, first))
                        first += 100
                    a, b = ([statistics.median(column) for column in zip(*rounds[peer.name])] for peer in peers)
                    rest = " | %.2f, %.2f | %.0f, %.0f |" % (a[2], b[2], a[3], b[3]) if streamed else " | | |"
                    print("| %d | %d | %s | %.1f, %.1f: %.2f | %.1f, %.1f: %.2f%s" % (
                        threads, clients, "yes" if streamed else "no", a[0], b[0], a[0] / b[0], a[1], b[1], b[1] / a[1],
                        rest), flush=True)
        finally:
            for peer in peers:
                peer.stop()
    print("\nWords that agree before the first difference, of about %d, 4 prompts: %s" % (
        TOKENS, ", ".join(map(str, same))))


def greedy_of_llama(args, path, prompts, count):
    """The greedy tokens of llama.cpp, with floats in its cache."""
    peer = Peer("llama-server", ["chroot", args.root, "llama-server", "-m", path, "--port", free_port(), "--host",
                                 "127.0.0.1", "-c", "512", "-np", "1", "-t", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32",
                                 "--no-warmup", "--no-webui"], os.path.join(args.root, "texts", "greedy.log"))
    try:
        return [gguf.ask(peer.port, "completion", prompt=prompt, n_predict=count, temperature=0, return_tokens=True,
                         cache_prompt=False)["tokens"] for prompt in prompts]
    finally:
        peer.stop()


def agreement(ours, theirs):
    """llama.cpp ends a text at the token of its end."""
    return "%d of %d" % (sum(x == y for a, b in zip(ours, theirs) for x, y in zip(a, b)), sum(map(len, theirs)))


def types(args):
    import inlay
    print("\n| architecture | type | tokens equal to llama.cpp's with weights as F32 | of the same file | prompt of 128, "
          "tokens/s: inlay, llama.cpp | 1 text |\n|-|-|-|-|-|-|")
    for arch in args.archs:
        sizes = MIDDLE._replace(layers=7) if arch == "gemma3" else MIDDLE
        for kind in args.kinds:
            data, words = gguf.make(arch, kind, sizes=sizes)
            path, theirs = write(args, "type.gguf", data)
            prompts = gguf.prompts(words)
            with inlay.Session(path, config=False) as session:
                made = [gguf.greedy(session, prompt, gguf.NEW_TOKENS) for prompt in prompts]
            llama(args, "python3", "-c", gguf.DEQUANTIZE, theirs, "/texts/float.gguf")
            equal = [agreement(made, greedy_of_llama(args, other, prompts, gguf.NEW_TOKENS))
                     for other in ("/texts/float.gguf", theirs)]
            a, b = [0] * 2, [0] * 2
            for _ in range(args.rounds):
                a = faster([inlay_rate(args, path, 1, 1, 128, 0), inlay_rate(args, path, 1, 1, 1, 128)], a)
                b = faster(llama_rates(args, theirs, 1, (1,)), b)
            print("| %s | %s | %s | %s | %s |" % (arch, kind, *equal, compared(a, b)), flush=True)


def contexts(args):
    print("\n| type | tokens of the prompt | first token, s: inlay, llama-server | each further one, ms |\n|-|-|-|-|")
    for kind in args.kinds:
        ours, theirs = write(args, "contexts.gguf", gguf.make("llama", kind, sizes=LARGE._replace(context=20000), alike=True)[0])
        for size in (4000, 16000):
            rounds = [], []
            for number in range(args.rounds):
                for side, command in zip(rounds, (
                        [args.serve, ours, "--port", "0", "--grpc-port", "-1", "--no-config", "--intra-threads", "1"],
                        ["chroot", args.root, "llama-server", "-m", theirs, "-t", "1", "-np", "1", "-c", "17000", "-fa", "on",
                         "--port", free_port(), "--host", "127.0.0.1", "--no-webui"])):
                    peer = Peer(os.path.basename(command[0]), [*pinned(1), *command], os.path.join(args.root, "texts", "log"),
                                "contexts")
                    try:
                        times = peer.complete(prompt_of(number, size), True)[1]
                    finally:
                        peer.stop()
                    side.append((times[0], (times[-1] - times[0]) / (len(times) - 1) * 1e3))
            a, b = ([min(one) for one in zip(*side)] for side in rounds)
            print("| %s | %d | %s |" % (kind, size, " | ".join("%.2f, %.2f: %.2f" % (x, y, y / x) for x, y in zip(a, b))),
                  flush=True)


def spent(command, cache, text=""):
    """Seconds to the first byte of output, and peak memory in MiB."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        process = subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "INLAY_CACHE_DIR": cache})
    os.read(process.stdout.fileno(), 1)
    took = time.monotonic() - begin
    process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit("%s failed" % " ".join(command))
    return took, used.ru_maxrss / 1024


def opening(args):
    print("\n| type | file, MiB | first token, s: without packs, with them, llama.cpp | peak memory, of the file | chat | serve | "
          "draft |\n|-|-|-|-|-|-|-|")
    text = ["-p", "the inner"]
    for kind in args.kinds:
        sizes = WIDE._replace(layers=WIDE.layers // 2) if kind == "F32" else WIDE
        # in a process of its own: the peak of this one would count for those that it starts
        maker = multiprocessing.get_context("fork").Process(target=lambda: write(
            args, "opening.gguf", gguf.make("llama", kind, sizes=sizes, alike=True)[0]))
        maker.start()
        maker.join()
        ours, theirs = os.path.join(args.root, "texts", "opening.gguf"), "/texts/opening.gguf"
        size = os.path.getsize(ours) / 2 ** 20
        flags = ["--no-config", "--intra-threads", "1"]
        generate = [args.inlay, "generate", ours, *text, "--tokens", "1", "--ignore-ends", *flags]
        peaks = []
        with tempfile.TemporaryDirectory() as cache:
            rows = [spent(generate, cache), spent(generate, cache)]
            rows.append(spent(["chroot", args.root, "llama-completion", "-m", theirs, *text, "-n", "1", "-no-cnv",
                               "--no-display-prompt", "-t", "1"], ""))
            peaks.append(spent([args.inlay, "chat", ours, "--tokens", "8", "--ignore-ends", *flags], cache, "the inner\n")[1])
            peer = Peer("inlay-serve", [args.serve, ours, "--port", "0", "--grpc-port", "-1", *flags, "--cache-dir", cache],
                        os.path.join(args.root, "texts", "log"), "opening")
            try:
                peer.complete(prompt_of(0), False)
                with open("/proc/%d/status" % peer.process.pid) as file:
                    peaks.append(int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) / 1024)
            finally:
                peer.stop()
            peaks.append(spent([args.inlay, "generate", ours, *text, "--tokens", "8", "--ignore-ends", "--draft", ours, *flags],
                               cache)[1])
        print("| %s | %.0f | %s | %s | %s |" % (kind, size, ", ".join("%.2f" % row[0] for row in rows), ", ".join(
            "%.2f" % (row[1] / size) for row in rows), " | ".join("%.2f" % (peak / size) for peak in peaks)), flush=True)


def main():
    def numbers(text):
        return [int(n) for n in text.split(",")]

    def names(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("inlay")
    parser.add_argument("serve")
    parser.add_argument("--threads", default="1,2", type=numbers)
    parser.add_argument("--clients", default="1,8,32", type=numbers)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("steps", "servers", "types", "contexts", "opening"))
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--archs", default=ARCHS, type=names)
    parser.add_argument("--kinds", default=KINDS, type=names)
    args = parser.parse_args()
    if args.only in (None, "servers"):
        ours, theirs = write(args, "texts.gguf", gguf.make("llama", "Q4_0", sizes=LARGE)[0])
    if args.only in (None, "steps"):
        steps(args)
    if args.only in (None, "servers"):
        servers(args, ours, theirs)
    if args.only in ("types", "contexts", "opening"):
        {"types": types, "contexts": contexts, "opening": opening}[args.only](args)


main()
