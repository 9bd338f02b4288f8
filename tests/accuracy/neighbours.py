"""Sentence embeddings: compares the nearest neighbours of Debian's package descriptions:

    neighbours.py cal.npz --model MODEL.onnx --tokenizer tokenizer.json [--texts 64] [--seed 1]      samples
    neighbours.py --tokenizer tokenizer.json FLOAT.onnx [OTHER.onnx | ort:MODEL.onnx ...] [--texts 200] [--seed 2]

The models are those of sentence-transformers with a WordPiece tokenizer: inputs `input_ids`, `attention_mask` and
optionally `token_type_ids`, output a row for each token; the mean of the rows is the embedding. A row shows the share
of the five nearest neighbours that equals that of the first model, and the minimum cosine of an embedding with that
of the first model. The descriptions are those of `apt-cache dumpavail`.
"""
import argparse
import json
import random
import re
import subprocess
import unicodedata

import numpy

import models

NEAREST = 5


class Tokenizer:
    """The tokenizer of BERT: lower case, no accents, words and punctuation separated, longest known piece first."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.vocabulary = json.load(file)["model"]["vocab"]

    def pieces(self, word):
        out, at = [], 0
        while at < len(word):
            end = len(word)
            while end > at and ("##" if at else "") + word[at:end] not in self.vocabulary:
                end -= 1
            if end == at:
                return [self.vocabulary["[UNK]"]]
            out.append(self.vocabulary[("##" if at else "") + word[at:end]])
            at = end
        return out

    def __call__(self, text, most):
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        ids = [i for word in re.findall(r"\w+|[^\w\s]", text) for i in self.pieces(word)]
        return [self.vocabulary["[CLS]"]] + ids[:most - 2] + [self.vocabulary["[SEP]"]]


def descriptions(count, seed):
    said = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    texts = sorted(set(re.findall(r"^Description(?:-en)?: (.+)$", said, re.M)))
    if len(texts) < count:
        raise SystemExit(f"apt-cache dumpavail has {len(texts)} descriptions; run apt-get update")
    return random.Random(seed).sample(texts, count)


def feeds(tokenizer, texts, tokens):
    ids = [tokenizer(text, tokens) for text in texts]
    padded = numpy.array([i + [0] * (tokens - len(i)) for i in ids], numpy.int64)
    mask = numpy.array([[1] * len(i) + [0] * (tokens - len(i)) for i in ids], numpy.int64)
    return {"input_ids": padded, "attention_mask": mask, "token_type_ids": numpy.zeros_like(padded)}


def embed(name, inputs, data):
    model, rows = models.open_model(name), []
    for i in range(len(data["input_ids"])):
        mask = data["attention_mask"][i]
        out = model.run({k: data[k][i:i + 1] for k in inputs})[0][0]
        mean = (out * mask[:, None]).sum(axis=0) / mask.sum()
        rows.append(mean / numpy.linalg.norm(mean))
    return numpy.stack(rows), model.ms()


def nearest(rows):
    alike = rows @ rows.T - 2 * numpy.eye(len(rows))
    return numpy.argsort(-alike, axis=1)[:, :NEAREST]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--model", help="write samples for this model to the first argument")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    data = feeds(Tokenizer(args.tokenizer), descriptions(args.texts, args.seed), args.tokens)
    path = args.model or args.models[0].removeprefix("ort:")
    inputs = [i for i in models.Inlay(path, 1).inputs if i in data]
    if args.model:
        numpy.savez_compressed(args.models[0], **{k: data[k][:, None] for k in inputs})
        return
    first = None
    print("| model | MiB | the same neighbours | least cosine | ms a text |\n|---|---|---|---|---|")
    for name in args.models:
        rows, ms = embed(name, inputs, data)
        first = rows if first is None else first
        same = numpy.mean([len(set(a) & set(b)) / NEAREST for a, b in zip(nearest(first), nearest(rows))])
        print(f"{models.label(name)} | {100 * same:.1f} % | {(rows * first).sum(axis=1).min():.4f} | {ms:.2f} |", flush=True)


if __name__ == "__main__":
    main()
