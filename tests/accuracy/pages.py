"""Tokens of manual pages, English and Chinese, as samples for a language model with a cache:

    pages.py FILE.npz --model MODEL.onnx --tokenizer tokenizer.json [--samples 16] [--tokens 256] [--seed 1]

and compares models on them:

    pages.py --model FLOAT.onnx --tokenizer tokenizer.json --beside OTHER.onnx ... [--samples 12] [--seed 7] [--caches]

which prints a line with the perplexity and the divergence from the first model for each model, and with --caches for the
first with its keys and values in 8 and 4 bits, and keys in 8 and values in 4 (option kv_cache_bits). The pages are those of
the packages manpages and manpages-zh. The seed selects the pages; even and odd seeds use disjoint pages. The Python
package inlay must be installed (sdk/bindings/python/README.md).
"""
import argparse
import glob
import gzip
import json
import os
import random
import re

import numpy

FOLDERS = ["/usr/share/man/man[578]", "/usr/share/man/zh_CN/man*"]
# The pre-tokenizer of GPT-2, with the approximations of \p{L} and \p{N} in Python's re.
PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_letters():
    """The character of each byte in the vocabulary of byte-level BPE."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


class Tokenizer:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            model = json.load(file)["model"]
        pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
        self.vocabulary, self.rank = model["vocab"], {p: i for i, p in enumerate(pairs)}
        self.letters, self.known = byte_letters(), {}

    def piece(self, text):
        if text not in self.known:
            parts = [self.letters[b] for b in text.encode()]
            while len(parts) > 1:
                best = min(range(len(parts) - 1), key=lambda i: self.rank.get((parts[i], parts[i + 1]), 1 << 30))
                if (parts[best], parts[best + 1]) not in self.rank:
                    break
                parts[best:best + 2] = [parts[best] + parts[best + 1]]
            self.known[text] = [self.vocabulary[p] for p in parts]
        return self.known[text]

    def encode(self, text):
        return [t for p in PIECES.findall(text) for t in self.piece(p)]


def read_page(path):
    """The text of a page, without macros."""
    with gzip.open(path, "rt", encoding="utf-8", errors="ignore") as file:
        kept = [line.strip() for line in file if line[:1] not in ".'" and line.strip()]
    return re.sub(r"\\f.|\\&|\\[-e]|\\\(..|\\", "", " ".join(kept))


def samples(tokenizer, count, tokens, seed, begin):
    """Rows [count, tokens] that begin with the token `begin`; every second one is Chinese if pages are installed."""
    dice = random.Random(seed)
    lists = [sorted(glob.glob(pattern + "/*.gz")) for pattern in FOLDERS]
    lists = [[p for i, p in enumerate(paths) if i % 2 == seed % 2] for paths in lists if len(paths) > 1]
    rows, misses = [], 0
    while len(rows) < count and misses < 1000 and lists:
        row = tokenizer.encode(read_page(dice.choice(lists[len(rows) % len(lists)])))
        misses = misses + 1 if len(row) < tokens else 0
        if len(row) >= tokens:
            at = dice.randrange(len(row) - tokens + 2)
            rows.append([begin] + row[at:at + tokens - 1])
    if len(rows) < count:
        raise SystemExit("too few pages with that many tokens: install manpages and manpages-zh, or reduce --tokens")
    return numpy.asarray(rows, numpy.int64)


def feeds(session, rows):
    """The inputs of the model for each row: tokens, positions, a mask of ones, and empty states."""
    out = []
    for row in rows:
        feed = {}
        for i in session.inputs:
            if i.name == "input_ids":
                feed[i.name] = row[None]
            elif i.name == "position_ids":
                feed[i.name] = numpy.arange(len(row))[None]
            elif i.name == "attention_mask":
                feed[i.name] = numpy.ones((1, len(row)), numpy.int64)
            else:
                dims = [d if isinstance(d, int) else 1 if "batch" in str(d) else 0 for d in i.shape]
                feed[i.name] = numpy.zeros(dims, numpy.dtype(i.dtype.replace("float", "float32")))
        out.append(feed)
    return out


def log_softmax(x):
    x = x.astype(numpy.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(axis=-1, keepdims=True))


def logits(path, rows, bits):
    import inlay

    session = inlay.Session(path, kv_cache_bits=bits)
    return [log_softmax(numpy.asarray(session.run(feed)["logits"])[0]) for feed in feeds(session, rows)]


def compare(args, rows):
    first = None
    caches = [(args.model, bits) for bits in ("8", "8/4", "4")] if args.caches else []
    print("| model | MiB | perplexity | divergence from float |\n|---|---|---|---|")
    for path, bits in [(p, "model") for p in [args.model] + args.beside] + caches:
        out = logits(path, rows, bits)
        first = out if first is None else first
        loss = numpy.mean([-o[numpy.arange(len(r) - 1), r[1:]].mean() for o, r in zip(out, rows)])
        kl = numpy.mean([(numpy.exp(f) * (f - o)).sum(axis=-1).mean() for f, o in zip(first, out)])
        name = os.path.basename(path) + ("" if bits == "model" else f", keys and values in {bits} bits")
        print(f"| {name} | {os.path.getsize(path) / 2**20:.1f} | {numpy.exp(loss):.2f} | "
              f"{kl:.4f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--beside", nargs="*", default=[])
    parser.add_argument("--caches", action="store_true")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--begin", type=int, default=1, help="the first token of each text")
    args = parser.parse_args()
    rows = samples(Tokenizer(args.tokenizer), args.samples, args.tokens, args.seed, args.begin)
    if args.file is None:
        compare(args, rows)
        return
    import inlay

    inputs = feeds(inlay.Session(args.model), rows)
    # One array for each input, with a sample in each row.
    numpy.savez_compressed(args.file, **{k: numpy.stack([f[k] for f in inputs]) for k in inputs[0]})


if __name__ == "__main__":
    main()
