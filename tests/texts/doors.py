"""Continues a prompt by inlay.TextModel: doors.py MODEL VECTORS PROMPT SEED. VECTORS: a model that makes embeddings."""
import asyncio
import sys

import numpy as np

import inlay

path, vectors, prompt, seed = sys.argv[1:]
how = {"temperature": 0.7, "top_p": 0.9, "seed": int(seed), "max_tokens": 60}


async def collect(text):
    return "".join([piece async for piece in text])


async def collect_both(model):
    return await asyncio.gather(collect(model.generate(prompt, **how)), collect(model.generate("z", **how)))


with inlay.TextModel(path) as model:
    text = model.generate(prompt, **how)
    pieces = list(text)
    assert len(pieces) > 1 and text.usage == (len(prompt), 60, text.usage.reused_tokens, "length"), text.usage
    assert len(text.tokens) == 60 and model.detokenize(model.tokenize("hello")) == "hello"
    assert str(model.generate(model.tokenize(prompt), **how)) == "".join(pieces)
    other = list(str(model.generate(prompt, **how, no_repeat_ngram_size=1)))
    assert len(set(other) - set(prompt)) == len(other) > 20, other
    assert str(model.generate(prompt, **how, typical_p=0.01, min_tokens=2)) != "".join(pieces)
    both = asyncio.run(collect_both(model))  # in the same runs
    assert both == ["".join(pieces), str(model.generate("z", **how))], both
    stopped = model.generate(prompt, **how)
    next(stopped)
    stopped.stop()
    assert pieces[0] in str(stopped) and stopped.usage.reason == "stopped", stopped.usage
    assert str(model.generate("a", grammar='root ::= "left"', seed=1)) == "left"
    assert int(str(model.generate("a", schema={"enum": [12]}, seed=1))) == 12
    for failing, kind in ((lambda: model.embed("a"), inlay.Unsupported), (lambda: model.render([]), inlay.NotFound),
                          (lambda: model.generate("a\0"), inlay.InvalidArgument),
                          (lambda: model.generate("a", adapter="x"), inlay.NotFound)):
        try:
            failing()
            sys.exit("accepted")
        except kind:
            pass
    left = model.generate(prompt, **how)  # in progress when the model is closed
    next(left)
try:
    next(left)
    sys.exit("a closed text has pieces")
except StopIteration:
    pass
with inlay.TextModel(vectors) as model:
    assert model.embeds
    vector = model.embed(["!!!!###", "!"])
    assert vector.shape == (2, 128) and np.allclose(vector[0][[33, 35]], [0.8, 0.6]) and vector[1][33] == 1, vector
print("".join(pieces))
