#!/usr/bin/python3
"""llama.cpp's published vocabularies: the ids of its texts are those that it states.

    vocabularies.py FOLDER

FOLDER has files of models/ of https://github.com/ggml-org/llama.cpp: ggml-vocab-NAME.gguf, and beside it NAME.gguf.inp
with texts and NAME.gguf.out with their ids. The vocabularies have no weights, and many belong to architectures that
inlay lacks; each is tested with the weights of a small llama. Vocabularies of BERT are left out. The last line has the
counts. Needs python3-numpy and python3-onnx; INLAY_LIBRARY and PYTHONPATH as for the Python package."""
import pathlib
import struct
import sys

import numpy as np

import test_gguf

SEPARATOR = "\n__ggml_vocab_test__\n"
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 4

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def value(self, kind):
        if kind == 8:
            size = self.number("Q")
            self.at += size
            return self.data[self.at - size:self.at].decode("utf-8")
        if kind == 9:
            kind, count = self.number("I"), self.number("Q")
            return [self.value(kind) for _ in range(count)]
        return self.number(NUMBERS[kind])


def keys(path):
    reader = Reader(path.read_bytes())
    reader.number("I")
    reader.number("Q")
    found = {}
    for _ in range(reader.number("Q")):
        name = reader.value(8)
        found[name] = reader.value(reader.number("I"))
    return found


def tokenizer(found):
    """A session with the tokenizer of these keys, in a small model."""
    more = [(name, value) for name, value in found.items() if name.startswith("tokenizer.ggml.")]
    words = len(found["tokenizer.ggml.tokens"]) - 269 # beyond those of the tests
    return test_gguf.tokenizer_of(test_gguf.make("llama", "F32", more,
                                                 sizes=test_gguf.Sizes(32, 2, 1, 16, 32, 1, words=words))[0])


def main():
    passed = failed = 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.gguf")):
        texts, ids = path.with_suffix(".gguf.inp"), path.with_suffix(".gguf.out")
        if not texts.exists() or not ids.exists():
            continue
        found = keys(path)
        if found["tokenizer.ggml.model"] == "bert":
            continue
        pairs = list(zip(texts.read_bytes().decode().split(SEPARATOR), ids.read_text().split("\n")))
        good = 0
        with tokenizer(found) as session:
            for text, line in pairs:
                want = [int(one) for one in line.split()]
                got = session.run({"text": np.array([text], object)})["ids"][0].tolist()
                if got[:1] == [found.get("tokenizer.ggml.bos_token_id")] and got != want:
                    got = got[1:] # the files have the ids of the text alone
                good += got == want
                if got != want:
                    print(f"{path.name}: {text!r}: {got}, not {want}")
        passed, failed = passed + good, failed + len(pairs) - good
        print(f"{path.name}: {good} of {len(pairs)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
