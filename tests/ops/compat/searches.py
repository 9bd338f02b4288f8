"""BeamSearch, GreedySearch and Sampling of com.microsoft with decoders of one layer, compared with a search in numpy.

The decoders in the models cache past keys and values; those in numpy process all words in each step."""
import itertools

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from models import Case, constant, info, model

I32 = T.INT32
HEADS, SIZE, WORDS, LONGEST = 2, 3, 19, 24
WIDE = HEADS * SIZE
MICROSOFT = (("", 14), ("com.microsoft", 1))
EOS, PAD, START = 1, 0, 2


class Weights:
    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.table = {name: random.normal(size=shape).astype(np.float32) for name, shape in (
            ("words", (WORDS, WIDE)), ("places", (LONGEST, WIDE)), ("out", (WIDE, WORDS)), ("straight", (WIDE, WORDS)),
            ("read", (WORDS, WIDE)), ("crossed", (WIDE, WORDS)), ("hear", (WIDE, WIDE)))}

    def __getattr__(self, name):
        return self.table[name]

    def constants(self, *names):
        sizes = {"by_head": [0, -1, HEADS, SIZE], "together": [0, 0, WIDE], "one": [1], "zero": [0], "wide": [1, 2]}
        made = [constant(n, self.table[n]) for n in names]
        made += [constant(n, np.array(v, np.int64)) for n, v in sizes.items()]
        return made + [constant("scale", np.array(SIZE ** -0.5, np.float32)),
                       constant("much", np.array(1e4, np.float32)), constant("unit", np.array(1, np.float32))]


# ------------------------------------------------------------------ in numpy


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, kv, mask):
    """q [wide], kv [rows, wide], mask [rows]"""
    parts = []
    for h in range(HEADS):
        part = slice(h * SIZE, (h + 1) * SIZE)
        scores = (kv[:, part] @ q[part]) * np.float32(SIZE ** -0.5) + (mask - np.float32(1)) * np.float32(1e4)
        parts.append(softmax(scores.astype(np.float32)) @ (kv[:, part] * 0.5))
    return np.concatenate(parts)


def decoder_logits(w, words, mask):
    """The logits of the word after `words`; the mask selects the words that are attended to."""
    place = np.where(mask > 0, np.cumsum(mask > 0) - 1, 0)
    x = w.words[words] + w.places[place]
    return attend(x[-1], x, mask.astype(np.float32)) @ w.out + x[-1] @ w.straight


def crossed_logits(w, words, prompt, mask):
    x, read = w.words[words], w.read[prompt]
    return (attend(x[-1], x, np.ones(len(words), np.float32)) @ w.out + x[-1] @ w.straight
            + attend(x[-1], read, mask.astype(np.float32)) @ w.crossed)


LOWEST = -np.finfo(np.float32).max


def rules(scores, words, first, o):
    scores = scores.astype(np.float32).copy()
    for word in set(words) if o.get("repetition", 1) != 1 else ():
        scores[word] = scores[word] * o["repetition"] if scores[word] < 0 else scores[word] / o["repetition"]
    size = o.get("ngram", 0)
    for i in range(len(words) - size + 1) if size else ():
        if list(words[i:i + size - 1]) == list(words[len(words) - size + 1:]):
            scores[words[i + size - 1]] = LOWEST
    if "words" in o:
        scores[o["words"] == 0] = LOWEST
    if first and "first" in o:
        scores[o["first"][o["prompt"]] == 0] = LOWEST
    if len(words) < o.get("min_length", 0):
        scores[EOS] = LOWEST
    return scores


def beam_search(logits, start, o):
    """For one prompt: the best sequences, their scores, and the scores of all words in each step."""
    beams, max_length = o["beams"], o["max_length"]
    penalty = o.get("length_penalty", 1.0)
    rows = [(np.float32(0 if k == 0 else -1e9), list(start)) for k in range(beams)]
    found, steps, done = [], [], False

    def add(score, words):
        found.append((score / len(words) ** penalty, words))
        found.sort(key=lambda f: -f[0])
        del found[beams:]

    while not done and len(rows[0][1]) < max_length:
        table = []
        for score, words in rows:
            raw = logits(np.array(words)).astype(np.float32)
            log = raw - raw.max() - np.log(np.exp(raw - raw.max()).sum())
            table.append(rules(log, words, not steps, o) + score)
        steps.append(np.array(table))
        flat = np.concatenate(table)
        best = np.argsort(-flat, kind="stable")[:2 * beams]
        following = []
        for j, at in enumerate(best):
            words = rows[at // WORDS][1]
            if at % WORDS != EOS:
                following.append((flat[at], words + [int(at % WORDS)]))
            elif j < beams:
                add(flat[at], words)
            if len(following) == beams:
                break
        if len(found) == beams:
            done = o.get("early", 0) or found[-1][0] >= flat[best[0]] / len(rows[0][1]) ** penalty
        rows = following
    for score, words in () if done else rows:
        add(score, words)
    return found[:o.get("returned", 1)], steps


def beams_of(batch, o):
    """batch: (logits, first words) of each prompt."""
    returned, max_length, prompt = o.get("returned", 1), o["max_length"], len(batch[0][1])
    sequences = np.full((len(batch), returned, max_length), PAD, np.int32)
    scores = np.zeros((len(batch), returned), np.float32)
    steps = np.zeros((max_length - prompt, len(batch), o["beams"], WORDS), np.float32)
    for b, (logits, start) in enumerate(batch):
        found, table = beam_search(logits, start, dict(o, prompt=b))
        for k, (score, words) in enumerate(found):
            sequences[b, k, :len(words)] = words
            scores[b, k] = score
        steps[:len(table), b] = table
    return sequences, scores, steps


def greedy_of(batch, o, choose):
    rows = [list(start) for _, start in batch]
    done = [False] * len(rows)
    prompt = len(rows[0])
    last = None
    while len(rows[0]) < o["max_length"] and not all(done):
        picked = []
        last = []
        for b, (logits, _) in enumerate(batch):
            scores = rules(logits(np.array(rows[b])), rows[b], len(rows[b]) == prompt, dict(o, prompt=b))
            word = choose(scores)
            last.append(scores)
            done[b] = done[b] or word == EOS
            picked.append(PAD if done[b] else word)
        for row, word in zip(rows, picked):
            row.append(word)
    return np.array([r + [PAD] * (o["max_length"] - len(r)) for r in rows], np.int32), np.array(last, np.float32)


class Dice:
    """std::minstd_rand0, and the doubles that GCC's C++ library computes from it."""

    def __init__(self, seed):
        self.state = seed % 2147483647 or 1

    def double(self):
        drawn = []
        for _ in range(2):
            self.state = self.state * 16807 % 2147483647
            drawn.append(self.state - 1)
        return (drawn[0] + drawn[1] * 2147483646.0) / 2147483646.0 ** 2


def sampler(seed, top_p, temperature=1.0, filter_value=-1e20):
    dice = Dice(seed)

    def choose(scores):
        scores /= np.float32(temperature)
        order = np.argsort(scores, kind="stable")
        scores[order[np.cumsum(softmax(scores[order])) <= 1 - top_p]] = filter_value
        upto = np.cumsum(np.exp(scores.astype(np.float64) - scores.max()))
        return int(np.searchsorted(upto, dice.double() * upto[-1], side="right"))

    return choose


# ------------------------------------------------------------------ as graphs


class Nodes:
    def __init__(self):
        self.list, self.names = [], itertools.count()

    def put(self, op, *inputs, out=None, **attributes):
        out = out or f"v{next(self.names)}"
        self.list.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def heads(self, x, out=None):
        """[rows, length, wide] -> [rows, heads, length, size]"""
        return self.put("Transpose", self.put("Reshape", x, "by_head"), perm=[0, 2, 1, 3], out=out)

    def attend(self, q, k, v, mask):
        """mask [rows, keys] of int32, or None."""
        scores = self.put("Mul", self.put("MatMul", q, self.put("Transpose", k, perm=[0, 1, 3, 2])), "scale")
        if mask:
            mask = self.put("Unsqueeze", self.put("Cast", mask, to=T.FLOAT), "wide")
            scores = self.put("Add", scores, self.put("Mul", self.put("Sub", mask, "unit"), "much"))
        y = self.put("MatMul", self.put("Softmax", scores, axis=-1), v)
        return self.put("Reshape", self.put("Transpose", y, perm=[0, 2, 1, 3]), "together")

    def half(self, x, out=None):
        return self.put("Mul", x, "half", out=out)


HALF = constant("half", np.array(0.5, np.float32))


def decoder(w, prefix=""):
    """input_ids, position_ids, attention_mask, past_0 -> logits, present_0"""
    n = Nodes()
    x = n.put("Add", n.put("Gather", "words", "input_ids"), n.put("Gather", "places", "position_ids"))
    keys = n.heads(x)
    new = n.put("Concat", n.put("Unsqueeze", keys, "zero"), n.put("Unsqueeze", n.half(keys), "zero"), axis=0)
    n.put("Concat", "past_0", new, axis=3, out="present_0")
    parts = [n.put("Squeeze", n.put("Slice", "present_0", *ends), "zero") for ends in (("zero", "one"), ("one", "two"))]
    y = n.attend(keys, *parts, "attention_mask")
    n.put("Add", n.put("MatMul", y, "out"), n.put("MatMul", x, "straight"), out="logits")
    return helper.make_graph(n.list, prefix + "decoder", [
        info("input_ids", ["rows", "length"], I32), info("position_ids", ["rows", "length"], I32),
        info("attention_mask", ["rows", "all"], I32), info("past_0", [2, "rows", HEADS, "past", SIZE])],
        [info("logits", ["rows", "length", WORDS]), info("present_0", [2, "rows", HEADS, "present", SIZE])],
        w.constants("words", "places", "out", "straight") + [HALF, constant("two", np.array([2], np.int64))])


def crossed(n, ids, keys_before, cross, mask, names, out):
    x = n.put("Gather", "words", ids)
    q = n.heads(x)
    if keys_before:
        keys = n.put("Concat", keys_before[0], q, axis=2, out=names[0])
        values = n.put("Concat", keys_before[1], n.half(q), axis=2, out=names[1])
    else:
        keys, values = n.put("Identity", q, out=names[0]), n.half(q, out=names[1])
    y = n.put("MatMul", n.attend(q, keys, values, None), "out")
    y = n.put("Add", y, n.put("MatMul", n.attend(q, *cross, mask), "crossed"))
    n.put("Add", y, n.put("MatMul", x, "straight"), out=out)


SELF = ["present_key_self_0", "present_value_self_0"]
CROSS = ["present_key_cross_0", "present_value_cross_0"]


def encoder(w, runs):
    """The encoder, which computes keys and values; with `runs` also the first step of the decoder."""
    n = Nodes()
    hidden = n.put("Gather", "read", "encoder_input_ids", out="encoder_hidden_states")
    n.heads(hidden, out=CROSS[0])
    n.half(CROSS[0], out=CROSS[1])
    inputs = [info("encoder_input_ids", ["batch", "read_length"], I32),
              info("encoder_attention_mask", ["batch", "read_length"], I32)]
    cross = [info(c, ["batch", HEADS, "read_length", SIZE]) for c in CROSS]
    if not runs:
        return helper.make_graph(n.list, "encoder", inputs, cross, w.constants("read") + [HALF])
    crossed(n, "decoder_input_ids", None, CROSS, "encoder_attention_mask", SELF, "logits")
    outputs = [info("logits", ["batch", 1, WORDS]), info("encoder_hidden_states", ["batch", "read_length", WIDE])]
    outputs += [info(s, ["batch", HEADS, 1, SIZE]) for s in SELF]
    return helper.make_graph(n.list, "encoder", inputs + [info("decoder_input_ids", ["batch", 1], I32)],
                             outputs + cross, w.constants("read", "words", "out", "straight", "crossed") + [HALF])


def crossed_decoder(w, hidden):
    n = Nodes()
    past = ["past_key_self_0", "past_value_self_0", "past_key_cross_0", "past_value_cross_0"]
    crossed(n, "input_ids", past[:2], past[2:], "encoder_attention_mask", SELF, "logits")
    inputs = [info("input_ids", ["rows", 1], I32), info("encoder_attention_mask", ["rows", "read_length"], I32)]
    if hidden:
        inputs.append(info("encoder_hidden_states", ["rows", "read_length", WIDE]))
    inputs += [info(p, ["rows", HEADS, "past" if "self" in p else "read_length", SIZE]) for p in past]
    return helper.make_graph(n.list, "decoder", inputs, [info("logits", ["rows", 1, WORDS])] + [
        info(s, ["rows", HEADS, "present", SIZE]) for s in SELF],
        w.constants("words", "out", "straight", "crossed") + [HALF])


def whisper_logits(w, words, features):
    x, read = w.words[words], features @ w.hear
    return (attend(x[-1], x, np.ones(len(words), np.float32)) @ w.out + x[-1] @ w.straight
            + attend(x[-1], read, np.ones(len(read), np.float32)) @ w.crossed)


def whisper_step(n, ids, before, cross, names):
    """Causal attention, because the first run processes all words of the prompt."""
    x = n.put("Gather", "words", ids)
    q = n.heads(x)
    keys = n.put("Concat", before[0], q, axis=2, out=names[0]) if before else n.put("Identity", q, out=names[0])
    values = n.put("Concat", before[1], n.half(q), axis=2, out=names[1]) if before else n.half(q, out=names[1])
    scores = n.put("Mul", n.put("MatMul", q, n.put("Transpose", keys, perm=[0, 1, 3, 2])), "scale")
    if not before: # later words are masked
        shape = n.put("Shape", scores)
        square = n.put("Slice", shape, "two_last", "far")
        later = n.put("Trilu", n.put("Expand", "much", square), "one", upper=1)
        scores = n.put("Sub", scores, later)
    y = n.put("MatMul", n.put("Softmax", scores, axis=-1), values)
    y = n.put("MatMul", n.put("Reshape", n.put("Transpose", y, perm=[0, 2, 1, 3]), "together"), "out")
    y = n.put("Add", y, n.put("MatMul", n.attend(q, *cross, None), "crossed"))
    n.put("Add", y, n.put("MatMul", x, "straight"), out="logits")


def whisper_constants(w):
    return w.constants("words", "out", "straight", "crossed", "hear") + [
        HALF, constant("two_last", np.array([-2], np.int64)), constant("far", np.array([9], np.int64))]


def whisper_encoder(w):
    n = Nodes()
    hidden = n.put("MatMul", "encoder_input_ids", "hear", out="encoder_hidden_states")
    n.heads(hidden, out=CROSS[0])
    n.half(CROSS[0], out=CROSS[1])
    whisper_step(n, "decoder_input_ids", None, CROSS, SELF)
    return helper.make_graph(n.list, "encoder", [info("encoder_input_ids", ["batch", "frames", WIDE]),
                                                 info("decoder_input_ids", ["batch", "begin"], I32)],
                             [info("logits", ["batch", "begin", WORDS]), info("encoder_hidden_states", ["batch", "frames", WIDE])]
                             + [info(s, ["batch", HEADS, "begin", SIZE]) for s in SELF]
                             + [info(c, ["batch", HEADS, "frames", SIZE]) for c in CROSS], whisper_constants(w))


def whisper_decoder(w, hidden):
    n = Nodes()
    past = ["past_key_self_0", "past_value_self_0", "past_key_cross_0", "past_value_cross_0"]
    whisper_step(n, "input_ids", past[:2], past[2:], SELF)
    inputs = [info("input_ids", ["rows", 1], I32)]
    if hidden:
        inputs.append(info("encoder_hidden_states", ["rows", "frames", WIDE]))
    inputs += [info(p, ["rows", HEADS, "past" if "self" in p else "frames", SIZE]) for p in past]
    return helper.make_graph(n.list, "decoder", inputs, [info("logits", ["rows", 1, WORDS])] + [
        info(s, ["rows", HEADS, "present", SIZE]) for s in SELF], whisper_constants(w))


def search(op, settings, outputs, **attributes):
    """settings: (name, array) or None, in the order of the inputs; the first is an input, the others are constants."""
    (name, ids), rest = settings[0], [s for s in settings[1:] if s]
    names = ["" if s is None else s[0] for s in settings]
    node = helper.make_node(op, names, [o.name for o in outputs], domain="com.microsoft", eos_token_id=EOS,
                            pad_token_id=PAD, **attributes)
    return model([node], [info(name, list(ids.shape), I32)], outputs, [constant(n, a) for n, a in rest],
                 imports=MICROSOFT)


def one(name, value, dtype=np.int32):
    return None if value is None else (name, np.array([value], dtype))


def beam_settings(name, ids, o):
    f = np.float32
    return [(name, ids), one("max_length", o["max_length"]), one("min_length", o.get("min_length", 0)),
            one("num_beams", o["beams"]), one("num_return_sequences", o.get("returned", 1)),
            one("length_penalty", o.get("length_penalty", 1), f), one("repetition_penalty", o.get("repetition", 1), f),
            ("vocab_mask", o["words"]) if "words" in o else None,
            ("prefix_vocab_mask", o["first"]) if "first" in o else None]


def beam_outputs(ids, o, prompt):
    batch, returned = ids.shape[0], o.get("returned", 1)
    return [info("sequences", [batch, returned, o["max_length"]], I32), info("sequences_scores", [batch, returned]),
            info("scores", [o["max_length"] - prompt, batch, o["beams"], WORDS])][:2 if "ends" in o else 3]


def masks(seed):
    random = np.random.default_rng(seed)
    some = [(random.uniform(size=s) > 0.2).astype(np.int32) for s in ((WORDS,), (2, WORDS))]
    some[0][EOS] = some[1][:, EOS] = 1
    return {"words": some[0], "first": some[1]}


PROMPTS = np.array([[5, 7, 9, 4], [PAD, PAD, 3, 8]], np.int32)
# After the end of a prompt its scores are undefined: ONNX Runtime continues with those of other rows. So cases with `ends`
# do not request the scores.
BEAMS = {
    "plain": {"beams": 3, "max_length": 12},
    "one": {"beams": 1, "max_length": 9},
    "many": {"ends": True, "beams": 4, "max_length": 14, "returned": 3, "length_penalty": 2.0, "early": 1},
    "rules": {"ends": True, "beams": 3, "max_length": 12, "repetition": 1.5, "ngram": 2, "min_length": 8, "returned": 2, **masks(3)},
    "short": {"beams": 5, "max_length": 5},
}


def beam_cases():
    for seed, (name, o) in enumerate(BEAMS.items()):
        w = Weights(seed)
        batch = [(lambda words, m=np.array(p != PAD, np.int32):
                  decoder_logits(w, words, np.concatenate([m, np.ones(len(words) - len(m), np.int32)])), list(p))
                 for p in PROMPTS]
        extra = {"early_stopping": o.get("early", 0), "no_repeat_ngram_size": o.get("ngram", 0)}
        for first in (False, True) if name == "plain" else (False,):
            if first:
                extra["init_decoder"] = decoder(w, "init_")
            yield Case(f"beam_search_{name}" + ("_init" if first else ""),
                       search("BeamSearch", beam_settings("prompt", PROMPTS, o), beam_outputs(PROMPTS, o, 4),
                              decoder=decoder(w), **extra),
                       {"prompt": PROMPTS}, beams_of(batch, o), rtol=1e-4, atol=1e-4)


def crossed_cases():
    prompts = np.array([[PAD, 6, 11, 4, EOS], [3, 12, 8, 17, EOS]], np.int32)
    for seed, (name, runs, hidden, o) in enumerate([("encoder_runs", True, True, BEAMS["plain"]),
                                                    ("encoder_runs_bare", True, False, BEAMS["many"]),
                                                    ("encoder", False, False, BEAMS["rules"])]):
        w = Weights(40 + seed)
        batch = [(lambda words, p=p: crossed_logits(w, words, p, np.array(np.cumsum(p != PAD) > 0)), [START])
                 for p in prompts]
        yield Case(f"beam_search_{name}",
                   search("BeamSearch", beam_settings("prompt", prompts, o), beam_outputs(prompts, o, 1),
                          decoder=crossed_decoder(w, hidden), encoder=encoder(w, runs), model_type=1,
                          decoder_start_token_id=START, early_stopping=o.get("early", 0),
                          no_repeat_ngram_size=o.get("ngram", 0)),
                   {"prompt": prompts}, beams_of(batch, o), rtol=1e-4, atol=1e-4)


def whisper_cases():
    """Whisper's form: the encoder reads features, and begins the decoder with the words of decoder_input_ids."""
    for seed, (op, hidden, beams, begin) in enumerate((("BeamSearch", False, 1, [[START, 5, 7], [START, 9, 3]]),
                                                       ("BeamSearch", True, 3, [[START, 5, 7], [START, 9, 3]]),
                                                       ("WhisperBeamSearch", True, 2, [[START], [START]]))):
        w, begin = Weights(60 + seed), np.array(begin, np.int32)
        features = np.random.default_rng(seed).normal(size=(2, 5, WIDE)).astype(np.float32)
        o = {"beams": beams, "max_length": 12, "returned": 1, **({"ends": True} if op == "BeamSearch" else {})}
        batch = [(lambda words, f=f: whisper_logits(w, words, f), list(words)) for f, words in zip(features, begin)]
        settings = [("features", features), *beam_settings("", begin, o)[1:], None, ("begin", begin)]
        made = search(op, settings, beam_outputs(begin, o, begin.shape[1]), decoder=whisper_decoder(w, hidden),
                      encoder=whisper_encoder(w), model_type=2)
        made.graph.input[0].CopyFrom(info("features", list(features.shape)))
        yield Case(f"hears_{op}_{beams}", made, {"features": features}, beams_of(batch, o), rtol=1e-4, atol=1e-4)


def word_cases():
    for seed, (name, o) in enumerate([("plain", {"max_length": 12}),
                                      ("rules", {"max_length": 14, "repetition": 1.3, "ngram": 2, "min_length": 9,
                                                 **masks(5)})]):
        w = Weights(20 + seed)
        batch = [(lambda words, m=np.array(p != PAD, np.int32):
                  decoder_logits(w, words, np.concatenate([m, np.ones(len(words) - len(m), np.int32)])), list(p))
                 for p in PROMPTS]
        settings = [("prompt", PROMPTS), one("max_length", o["max_length"]), one("min_length", o.get("min_length", 0)),
                    one("repetition_penalty", o.get("repetition", 1), np.float32),
                    ("vocab_mask", o["words"]) if "words" in o else None,
                    ("prefix_vocab_mask", o["first"]) if "first" in o else None]
        outputs = [info("sequences", [2, o["max_length"]], I32)]
        extra = {"decoder": decoder(w), "no_repeat_ngram_size": o.get("ngram", 0)}
        yield Case(f"greedy_search_{name}", search("GreedySearch", settings, outputs, **extra), {"prompt": PROMPTS},
                   greedy_of(batch, o, lambda scores: int(scores.argmax()))[:1])
        settings += [None] * (8 - len(settings)) + [one("seed", 7 + seed)]
        heat = 1.0 + 0.5 * seed
        wanted = greedy_of(batch, o, sampler(7 + seed, np.float32(0.7), heat))
        extra.update(top_p=0.7, temperature=heat)
        yield Case(f"sampling_{name}", search("Sampling", settings, outputs, **extra), {"prompt": PROMPTS}, wanted[:1])
        outputs = outputs + [info("filtered_logits", [2, WORDS])] # ONNX Runtime's CPU kernel does not compute it
        yield Case(f"sampling_logits_{name}", search("Sampling", settings, outputs, **extra), {"prompt": PROMPTS}, wanted,
                   rtol=1e-4, atol=1e-4, peer=False)


def cases():
    yield from beam_cases()
    yield from crossed_cases()
    yield from whisper_cases()
    yield from word_cases()


# ------------------------------------------------------------------ refused models


def refusals():
    """(name, model, inputs, part of the message)"""
    w = Weights(0)
    for name, o, text in (("too_short", {"beams": 3, "max_length": 4}, "max_length is 4; it must be in [5,"),
                          ("too_many", {"beams": 3, "returned": 4, "max_length": 9}, "num_return_sequences is 4"),
                          ("no_beams", {"beams": 0, "max_length": 9}, "num_beams is 0; it must be in [1, 128]"),
                          ("min_length", {"beams": 1, "max_length": 9, "min_length": 9}, "min_length is 9"),
                          ("penalty", {"beams": 1, "max_length": 9, "repetition": 0.0}, "repetition_penalty is 0"),
                          ("mask", {"beams": 1, "max_length": 9, "words": np.ones(7, np.int32)}, "masks have 7 words")):
        made = search("BeamSearch", beam_settings("prompt", PROMPTS, o), [info("sequences", None, I32)],
                      decoder=decoder(w))
        yield name, made, {"prompt": PROMPTS}, text
    whisper = search("BeamSearch", beam_settings("prompt", PROMPTS, BEAMS["plain"]), [info("sequences", None, I32)],
                     decoder=decoder(w), model_type=2)
    yield "whisper", whisper, {"prompt": PROMPTS}, "supported are decoder-only models"


def broken_states(count):
    """A search whose state is overwritten between its steps: (model, inputs). Any result is legal, but not a crash."""
    ours, node = (("", 13), ("ai.inlay", 1)), helper.make_node
    nodes = [node("SearchStart", ["prompt", "longest", "", "beams"], ["i", "p", "m", "state", "r", "q"],
                  domain="ai.inlay", search="beam", eos_token_id=EOS, pad_token_id=PAD),
             node("ScatterElements", ["state", "at", "noise"], ["broken"]),
             node("SearchStep", ["logits", "broken"], ["go", "next", "ids", "rows", "place", "mask"], domain="ai.inlay"),
             node("SearchEnd", ["broken"], ["sequences"], domain="ai.inlay")]
    graph = model(nodes, [info("prompt", [2, 4], I32), info("at", ["n"], T.INT64), info("noise", ["n"], I32),
                          info("logits", [6, 1, WORDS])], [info("go", [], T.BOOL), info("sequences", None, I32)],
                  [constant("longest", np.array([9], np.int32)), constant("beams", np.array([3], np.int32))], imports=ours)
    random = np.random.default_rng(11)
    values = np.array([-(2**31), -1, 0, 1, 2, 3, 7, 100, 2**16, 2**26, 2**31 - 1], np.int32)
    for i in range(count):
        size = 1 if i % 2 else 3
        places = random.choice(25 if i % 4 else 150, size, replace=False)
        yield graph, {"prompt": PROMPTS, "at": places.astype(np.int64), "noise": random.choice(values, size),
                      "logits": random.normal(size=(6, 1, WORDS)).astype(np.float32)}
