#!/usr/bin/env python3
"""test_random.py - random models in GGUF: provider cpu computes what provider reference does, for any sizes, a type of
its own for each matrix, tied embeddings, caches of few bits, memory limits, levels and threads. Damaged files are refused
in one line, or run.

test_random.py FIRST COUNT tries other seeds; it prints the models that differ."""
import os
import random
import struct
import sys
import tempfile
import unittest

import numpy as np

import test_gguf

ARCHS = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "granite", "minicpm", "lfm2", "granitehybrid-dense") + tuple(
    arch for arch in test_gguf.MIXTURES if arch not in test_gguf.LATENT)  # whose sizes are fixed
STEPS = 2


class Mixed(test_gguf.Writer):
    """Each matrix has a random type; perhaps there is no matrix of the output."""
    rng = None

    def __init__(self, arch, others, more=()):
        super().__init__(arch, others, more)
        self.tied, self.blocks = self.rng.random() < 0.3, self.rng.random() < 0.7

    def tensor(self, name, shape, kind, data):
        if name == "output.weight" and self.tied:
            return
        plain = ("gate_inp", "conv1d", "conv.weight", "ssm_norm")
        if len(shape) > 1 and name.endswith(".weight") and not any(part in name for part in plain):
            kinds = [k for k, (_, elements, *_) in test_gguf.TYPES.items() if shape[-1] % elements == 0 and (
                "exps" not in name or (elements > 1) == self.blocks)]
            kind = self.rng.choice(kinds) if kinds else kind
            data = test_gguf.matrix(np.random.default_rng(self.rng.randrange(1 << 30)), int(np.prod(shape[:-1])),
                                    shape[-1], kind, 1 if "embd" in name else 1 / np.sqrt(shape[-1]))
        super().tensor(name, shape, kind, data)


def random_model(rng):
    """Bytes of a model, the number of its tokens, and its name."""
    arch, unit = rng.choice(ARCHS), rng.choice((32, 32, 256))
    apart = arch.startswith(("gemma", "qwen3"))  # the size of heads is not width / heads
    while True:
        keys, width = rng.choice((1, 2, 3, 4)), unit * rng.choice((1, 2, 3))
        heads, size = keys * rng.choice((1, 2, 3, 4)), rng.choice((16, 32, 64, 80, 128))
        if apart or (width % heads == 0 and width // heads % 2 == 0):
            break
    sizes = test_gguf.Sizes(width, heads, keys, size if apart else width // heads, unit * rng.choice((1, 2, 5)),
                            rng.choice((1, 2, 3)), 64, rng.choice((0, 1, 7)))
    writer, Mixed.rng, test_gguf.Writer = test_gguf.Writer, rng, Mixed
    try:
        return *test_gguf.make(arch, "F32", sizes=sizes), f"{arch} {tuple(sizes)}"
    finally:
        test_gguf.Writer = writer


def logits_of(session, prompts, chosen):
    """The last logits after the prompts and after further tokens; chosen: these tokens, or None for the most probable
    ones, which are returned."""
    feeds = {i.name: np.zeros([len(prompts)] + [size if isinstance(size, int) else 0 for size in i.shape[1:]], i.dtype)
             for i in session.inputs if i.name.startswith("past")}
    ids, total, made, tokens = np.array(prompts), 0, [], []
    for step in range(STEPS):
        total += ids.shape[1]
        out = session.run({"input_ids": ids, "attention_mask": np.ones((len(prompts), total), np.int64), **feeds})
        made.append(out["logits"][:, -1])
        ids = made[-1].argmax(-1)[:, None] if chosen is None else chosen[step]
        tokens.append(ids)
        feeds = {name: out[name.replace("past_key_values", "present")] for name in feeds}
    return np.array(made), tokens


def difference(seed, folder):
    """How a random model differs between the providers; None: not."""
    import inlay
    rng = random.Random(seed)
    data, count, name = random_model(rng)
    path = os.path.join(folder, "model.gguf")
    with open(path, "wb") as file:
        file.write(data)
    # attention with soft caps or sinks has no cache of few bits
    bits = rng.choice(("model", "model", "8", "4", "8/4")) if not name.startswith(("gemma2", "gpt-oss")) else "model"
    options = {"level": rng.choice((0, 1, 2, 99)), "intra_threads": rng.choice((1, 2))}
    if rng.random() < 0.2:
        options.update(memory_limit=f"host={len(data) + (12 << 20)}", cache_dir=folder, cache_max_bytes=1 << 28)
    length, rows = rng.choice((1, 2, 7, 17)), rng.choice((1, 1, 2, 3))
    prompts = [[rng.randrange(3, count - 3) for _ in range(length)] for _ in range(rows)]
    with inlay.Session(path, ["reference"], config=False, kv_cache_bits=bits) as session:
        wanted, chosen = logits_of(session, prompts, None)
    options.update(kv_cache_bits=bits, provider_options={"cpu": {"activations": "exact"}})
    try:
        with inlay.Session(path, config=False, **options) as session:
            made, _ = logits_of(session, prompts, chosen)
    except inlay.errors.LimitExceeded as limit:
        return None if "memory_limit" in options else f"seed {seed}: {name}: {limit}"
    error = np.abs(made - wanted).max() / np.abs(wanted).max()
    # a sum in another order may round a code of the cache to the next one
    return None if error <= {"model": 2e-3, "8": 0.03}.get(bits, 0.3) else f"seed {seed}: {name} {options} {error}"


def damage(rng, data):
    """Bytes of the head are others, or the file is cut short."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, how = rng.randrange(4, data.index(b"output_norm.weight") + 60), rng.random()
        if how < 0.5:
            made[at] ^= 1 << rng.randrange(8)
        elif how < 0.95:
            made[at:at + 8] = struct.pack("<Q", rng.choice((0, 1, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)))
        else:
            return made[:at]
    return made


class Random(unittest.TestCase):
    def test_providers(self):
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(16):
                self.assertIsNone(difference(seed, folder))

    def test_casts_apart(self):
        """Experts of 16 bits whose Casts are in the region of another provider, as in small regions with a limit."""
        import inlay
        data, _ = test_gguf.make("mixtral", "F16", sizes=test_gguf.Sizes(256, 4, 2, 64, 512, 1))
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(data)
            file.flush()
            with inlay.Session(file.name, ["reference"], config=False) as session:
                wanted = test_gguf.logits_of(session, [5, 6, 7])
            with inlay.Session(file.name, config=False, pin="op:Cast=reference") as session:
                np.testing.assert_allclose(test_gguf.logits_of(session, [5, 6, 7]), wanted, rtol=1e-4, atol=1e-4)

    def test_damaged(self):
        import inlay
        rng = random.Random(1)
        models = [test_gguf.make(*case)[0] for case in (("llama", "Q4_0"), ("qwen2moe", "Q8_0"), ("gemma2", "F16"))]
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            for turn in range(100):
                file.seek(0)
                file.truncate()
                file.write(damage(rng, models[turn % 3]))
                file.flush()
                try:
                    with inlay.Session(file.name, config=False) as session:
                        test_gguf.logits_of(session, [3, 5, 7])
                except inlay.InlayError as error:
                    self.assertRegex(str(error), r"\A[^\x00-\x1f]+\Z")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        with tempfile.TemporaryDirectory() as place:
            for one in range(int(sys.argv[1]), sum(map(int, sys.argv[1:]))):
                found = difference(one, place)
                if found is not None:
                    print(found, flush=True)
    else:
        unittest.main()
