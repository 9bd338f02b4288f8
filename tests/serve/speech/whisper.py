"""A small Whisper with random weights: its ONNX files, in the forms that optimum exports, its tokenizer and settings,
and the same model in numpy, which says which tokens a sound has. The rules of tokens, times and windows are written
here once more, after openai/whisper and transformers."""
import json
import math
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

RATE, FRAMES, MELS, WIDTH, HEADS, POSITIONS, MOST = 16000, 3000, 80, 16, 2, 1500, 64
HEAD = WIDTH // HEADS
LETTERS = [chr(c) for c in range(33, 127)] + ["\u0120"]  # the last one is the space of byte-level tokenizers
LANGUAGES = ["en", "de", "fr", "haw"]
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>"] + [f"<|{code}|>" for code in LANGUAGES] + [
    "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
TIMES = [f"<|{i * 0.02:.2f}|>" for i in range(1501)]
WORDS = LETTERS + SPECIAL + TIMES
ID = {word: i for i, word in enumerate(WORDS)}
END, START, NO_TIMES, FIRST = (ID[x] for x in ("<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|0.00|>"))
SUPPRESSED, BEGIN_SUPPRESSED = [ID["#"], ID["<|startoflm|>"], ID["<|startofprev|>"]], [ID["\u0120"], END]


erf = np.vectorize(math.erf, otypes=[np.float64])


def filters():
    """Slaney's filters, of area 1."""
    def mel(hz):
        return np.where(hz < 1000, hz * 3 / 200, 15 + np.log(np.maximum(hz, 1) / 1000) * 27 / np.log(6.4))

    def hertz(m):
        return np.where(m < 15, m * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (m - 15)))
    edges = hertz(np.linspace(mel(np.float64(0)), mel(np.float64(RATE / 2)), MELS + 2))
    bins = np.linspace(0, RATE / 2, 201)
    up = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def log_mel(samples):
    """Whisper's spectrogram of samples, which are padded with silence to a window."""
    samples = np.pad(samples, (0, max(0, RATE * 30 - len(samples))))
    padded = np.pad(samples, 200, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    frames = np.stack([padded[i:i + 400] for i in range(0, len(samples) - 159, 160)]) * window
    power = np.abs(np.fft.rfft(frames)) ** 2
    logs = np.log10(np.maximum(filters() @ power.T, 1e-10))
    return (np.maximum(logs, logs.max() - 8) + 4) / 4


class Model:
    def __init__(self, seed):
        self.heard = {}  # of windows that were encoded
        self.said = {}  # of windows, prompts and forms that were decoded
        random = np.random.default_rng(seed)

        def weights(*shape, scale=1.0):
            return (random.standard_normal(shape) * scale).astype(np.float32)
        self.w = {"conv1": weights(WIDTH, MELS, 3, scale=0.15), "conv2": weights(WIDTH, WIDTH, 3, scale=0.4),
                  "where": weights(POSITIONS, WIDTH, scale=0.3), "words": weights(len(WORDS), WIDTH),
                  "places": weights(MOST, WIDTH, scale=0.7)}
        for name in ("e", "s", "c"):
            for part in "qkvo":
                self.w[name + part] = weights(WIDTH, WIDTH, scale=0.5 if part != "q" else 1.0)
        for name in ("eu", "du"):
            self.w[name] = weights(WIDTH, 4 * WIDTH, scale=0.4)
            self.w[name[0] + "d"] = weights(4 * WIDTH, WIDTH, scale=0.3)
        self.w["bias"] = np.zeros(len(WORDS), np.float32)
        self.w["bias"][FIRST:] = -7
        self.w["bias"][END + 1:FIRST] = -6
        self.w["bias"][START + 1:START + 1 + len(LANGUAGES)] = -4
        self.w["ramp"] = np.zeros((MOST, len(WORDS)), np.float32)  # the end is the more probable the later it is
        self.w["ramp"][:, END] = np.linspace(-6, 6, MOST)

    # The model in numpy, in double.

    def get(self, name):
        return self.w[name].astype(np.float64)

    @staticmethod
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    @staticmethod
    def gelu(x):
        return x * 0.5 * (1 + erf(x / np.sqrt(2)))

    def attend(self, name, x, source, causal):
        q, k, v = (y @ self.get(name + part) for y, part in ((x, "q"), (source, "k"), (source, "v")))
        made = []
        for h in range(HEADS):
            cut = slice(h * HEAD, (h + 1) * HEAD)
            scores = q[:, cut] @ k[:, cut].T / np.sqrt(HEAD)
            if causal:
                before = len(source) - len(x)
                scores = np.where(np.tri(len(x), len(source), before, dtype=bool), scores, -np.inf)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            made.append(scores / scores.sum(-1, keepdims=True) @ v[:, cut])
        return np.concatenate(made, -1) @ self.get(name + "o")

    def conv(self, x, name, stride):
        x = np.pad(x, ((0, 0), (1, 1)))
        steps = (x.shape[1] - 3) // stride + 1
        return sum(self.get(name)[:, :, i] @ x[:, i:i + stride * (steps - 1) + 1:stride] for i in range(3))

    def encode(self, mel):
        x = self.gelu(self.conv(self.gelu(self.conv(mel, "conv1", 1)), "conv2", 2)).T + self.get("where")
        x = x + self.attend("e", self.norm(x), self.norm(x), False)
        x = x + self.gelu(self.norm(x) @ self.get("eu")) @ self.get("ed")
        return self.norm(x)

    def decode(self, tokens, heard, before):
        """The logits after each token, and what the tokens behind them attend to. before: that of the tokens before."""
        x = self.get("words")[tokens] + self.get("places")[len(before):len(before) + len(tokens)]
        seen = np.concatenate([before, self.norm(x)])
        x = x + self.attend("s", self.norm(x), seen, True)
        x = x + self.attend("c", self.norm(x), heard, False)
        x = x + self.gelu(self.norm(x) @ self.get("du")) @ self.get("dd")
        logits = self.norm(x) @ self.get("words").T + self.get("bias")
        return logits + self.get("ramp")[len(before):len(before) + len(tokens)], seen

    # The rules.

    @staticmethod
    def mask(logits, written, times):
        logits = logits.copy()
        if not written:
            logits[BEGIN_SUPPRESSED] = -np.inf
        logits[SUPPRESSED] = -np.inf
        if not times:
            return logits
        logits[NO_TIMES] = -np.inf
        last = len(written) >= 1 and written[-1] >= FIRST
        before = len(written) < 2 or written[-2] >= FIRST
        if last and before:
            logits[FIRST:] = -np.inf
        elif last:
            logits[:END] = -np.inf
        stamps = [t for t in written if t >= FIRST]
        if stamps:
            logits[FIRST:stamps[-1] + (0 if last and not before else 1)] = -np.inf
        if not written:
            logits[:FIRST] = -np.inf
            logits[FIRST + 50 + 1:] = -np.inf
        probable = logits - np.logaddexp.reduce(logits)
        if np.logaddexp.reduce(probable[FIRST:]) > probable[:FIRST].max():
            logits[:FIRST] = -np.inf
        return logits

    def window(self, heard, prompt, times):
        """Tokens of a window, the mean of their logarithms, the probability of no speech."""
        written, total, silent, seen = [], 0.0, None, np.zeros((0, WIDTH))
        while True:
            logits, seen = self.decode(written[-1:] or prompt, heard, seen)
            if silent is None:
                row = logits[prompt.index(START)]
                silent = np.exp(row[ID["<|nospeech|>"]] - np.logaddexp.reduce(row))
            masked = self.mask(logits[-1], written, times)
            best = np.argsort(masked)[::-1][:2]
            assert masked[best[0]] - masked[best[1]] > 1e-3, "a near tie: choose another seed"
            total += masked[best[0]] - np.logaddexp.reduce(masked)
            if best[0] != END:
                written.append(int(best[0]))
            if best[0] == END or len(prompt) + len(written) == MOST:
                return written, total / (len(written) + 1), silent

    def detect(self, heard):
        logits = self.decode([START], heard, np.zeros((0, WIDTH)))[0][0]
        return LANGUAGES[int(np.argmax(logits[START + 1:START + 1 + len(LANGUAGES)]))]

    def transcribe(self, samples, language=None, task="transcribe", times=False, prompt=""):
        mel = log_mel(samples)
        frames = max(1, len(samples) // 160 if len(samples) > 30 * RATE else -(-len(samples) // 160))
        times = times or frames > FRAMES
        segments, seek = [], 0
        while seek < frames:
            part = np.zeros((MELS, FRAMES))
            cut = mel[:, seek:seek + FRAMES]
            part[:, :cut.shape[1]] = cut
            name = part.tobytes()
            if name not in self.heard:
                self.heard[name] = self.encode(part)
            heard = self.heard[name]
            language = language or self.detect(heard)
            before = [ID["<|startofprev|>"]] + encode(" " + prompt)[-(MOST // 2 - 1):] if prompt and seek == 0 else []
            start = before + [START, ID[f"<|{language}|>"], ID[f"<|{task}|>"]] + ([] if times else [NO_TIMES])
            if (name, tuple(start), times) not in self.said:
                self.said[name, tuple(start), times] = self.window(heard, start, times)
            written, mean, silent = self.said[name, tuple(start), times]
            size = min(FRAMES, frames - seek)
            moved = size
            made, pairs = [], [i for i in range(1, len(written)) if min(written[i - 1:i + 1]) >= FIRST]
            if pairs:
                alone = written[-1] >= FIRST > written[-2]
                for begin, end in zip([0] + pairs, pairs + ([len(written)] if alone else [])):
                    made.append((written[begin:end], written[begin] - FIRST, written[end - 1] - FIRST))
                moved = size if alone else 2 * (written[pairs[-1] - 1] - FIRST)
            else:
                stamps = [t - FIRST for t in written if t >= FIRST]
                made.append((written, stamps[0] if stamps else 0, stamps[1] if len(stamps) > 1 else size / 2))
            for tokens, begin, end in made:
                tokens = [t for t in tokens if t < FIRST]
                if tokens:
                    segments.append({"seek": seek, "start": seek / 100 + begin * 0.02, "end": seek / 100 + end * 0.02,
                                     "tokens": tokens, "avg_logprob": mean, "no_speech_prob": silent})
            seek += moved if times else FRAMES
        return language, segments

    # The model as ONNX.

    def save(self, folder, form, multilingual=True, under="onnx", positions=False, thresholds=(None, None, None)):
        """form: merged, pair, or plain: a decoder without states. thresholds: of log probability, compression, no speech."""
        path = os.path.join(folder, under)
        os.makedirs(path, exist_ok=True)
        save(self.encoder(), os.path.join(path, "encoder_model.onnx"))
        if form == "merged":
            save(self.merged(positions), os.path.join(path, "decoder_model_merged.onnx"))
        else:
            save(self.one(False, form == "pair", positions), os.path.join(path, "decoder_model.onnx"))
        if form == "pair":
            save(self.one(True, True, positions), os.path.join(path, "decoder_with_past_model.onnx"))
        write(folder, "config.json", {
            "model_type": "whisper", "d_model": WIDTH, "decoder_attention_heads": HEADS, "num_mel_bins": MELS,
            "max_target_positions": MOST, "decoder_start_token_id": START, "eos_token_id": END})
        write(folder, "generation_config.json", {
            "max_length": 448, "suppress_tokens": SUPPRESSED, "begin_suppress_tokens": BEGIN_SUPPRESSED,
            "is_multilingual": multilingual, "max_initial_timestamp_index": 50, "no_timestamps_token_id": NO_TIMES,
            "decoder_start_token_id": START, "eos_token_id": END, "num_beams": 1,
            **dict(zip(("logprob_threshold", "compression_ratio_threshold", "no_speech_threshold"), thresholds))})
        write(folder, "preprocessor_config.json", {
            "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": MELS, "hop_length": 160, "n_fft": 400,
            "chunk_length": 30, "sampling_rate": RATE, "dither": 0.0})
        write(folder, "tokenizer.json", {
            "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"}, "added_tokens": [
                {"id": ID[word], "content": word, "special": word in SPECIAL} for word in SPECIAL + TIMES],
            "model": {"type": "BPE", "merges": [], "vocab": {word: ID[word] for word in LETTERS}}})

    def constants(self, names):
        return [numpy_helper.from_array(self.w[name], name) for name in names]

    def encoder(self):
        g = Graph()
        x = "input_features"
        for name, stride in (("conv1", 1), ("conv2", 2)):
            x = g.gelu(g.add("Conv", [x, name], kernel_shape=[3], pads=[1, 1], strides=[stride]))
        x = g.add("Add", [g.add("Transpose", [x], perm=[0, 2, 1]), "where"])
        y = g.norm(x)
        x = g.add("Add", [x, g.attend("e", y, *g.keys("e", y), None)])
        x = g.add("Add", [x, g.feed(g.norm(x), "e")])
        g.add("Identity", [g.norm(x)], "last_hidden_state")
        return g.model([("input_features", TensorProto.FLOAT, ["batch", MELS, FRAMES])],
                       [("last_hidden_state", TensorProto.FLOAT, ["batch", POSITIONS, WIDTH])],
                       self.constants(["conv1", "conv2", "where", "eq", "ek", "ev", "eo", "eu", "ed"]))

    DECODER = ["words", "places", "bias", "ramp"] + [a + b for a in "sc" for b in "qkvo"] + ["du", "dd"]

    @staticmethod
    def decoder(g, with_past, has_states, positions=False, dummies=False):
        """Adds the nodes of a decoder, whose outputs are logits and, with has_states, present.*."""
        x = g.add("Gather", ["words", "input_ids"])
        if positions:
            place = "cache_position"
        else:
            first = g.size("past_key_values.0.decoder.key", 2) if with_past else g.const(np.array([0], np.int64))
            last = g.add("Add", [first, g.size("input_ids", 1)])
            place = g.add("Range", [g.add("Squeeze", [first]), g.add("Squeeze", [last]), g.const(np.int64(1))])
        x = g.add("Add", [x, g.add("Gather", ["places", place])])
        y = g.norm(x)
        key, value = g.keys("s", y)
        if with_past:
            key, value = (g.add("Concat", [f"past_key_values.0.decoder.{name}", now], axis=2)
                          for name, now in (("key", key), ("value", value)))
        x = g.add("Add", [x, g.attend("s", y, key, value, g.causal(key, y))])
        if with_past:
            cross = [f"past_key_values.0.encoder.{name}" for name in ("key", "value")]
        else:
            cross = g.keys("c", "encoder_hidden_states")
        x = g.add("Add", [x, g.attend("c", g.norm(x), *cross, None)])
        x = g.add("Add", [x, g.feed(g.norm(x), "d")])
        scores = g.add("MatMul", [g.norm(x), g.add("Transpose", ["words"], perm=[1, 0])])
        scores = g.add("Add", [g.add("Add", [scores, "bias"]), g.add("Gather", ["ramp", place])])
        outputs = [g.add("Identity", [scores])]
        if has_states:
            outputs += [key, value]
            if with_past and dummies:  # as in a merged decoder
                outputs += [g.const(np.zeros((0, HEADS, 1, HEAD), np.float32)) for _ in range(2)]
            elif not with_past:
                outputs += list(cross)
        return outputs

    INPUTS = [("input_ids", TensorProto.INT64, ["batch", "tokens"]),
              ("encoder_hidden_states", TensorProto.FLOAT, ["batch", POSITIONS, WIDTH])]
    STATES = [f"0.{a}.{b}" for a in ("decoder", "encoder") for b in ("key", "value")]

    def states(self, prefix, names):
        return [(prefix + name, TensorProto.FLOAT, ["batch", HEADS, f"length {name[2]}", HEAD]) for name in names]

    LOGITS = ("logits", TensorProto.FLOAT, ["batch", "tokens", len(WORDS)])

    def one(self, with_past, has_states, positions):
        g = Graph()
        made = self.decoder(g, with_past, has_states, positions)
        inputs = self.INPUTS[:1] + self.states("past_key_values.", self.STATES) if with_past else list(self.INPUTS)
        inputs += [("cache_position", TensorProto.INT64, ["tokens"])] if positions else []
        outputs = [self.LOGITS] + self.states("present.", self.STATES if not with_past else self.STATES[:2])
        outputs = outputs if has_states else outputs[:1]
        for name, output in zip(made, outputs):
            g.add("Identity", [name], output[0])
        return g.model(inputs, outputs, self.constants(self.DECODER))

    def merged(self, positions):
        branches, outputs = [], [self.LOGITS] + self.states("present.", self.STATES)
        for with_past in (True, False):
            g = Graph("y" if with_past else "n")
            made = self.decoder(g, with_past, True, positions, dummies=True)
            kinds = [(name, TensorProto.FLOAT, [None] * len(output[2])) for name, output in zip(made, outputs)]
            branches.append(g.graph([], kinds, []))
        g = Graph()
        g.nodes.append(helper.make_node("If", ["use_cache_branch"], [output[0] for output in outputs],
                                        then_branch=branches[0], else_branch=branches[1]))
        inputs = self.INPUTS + self.states("past_key_values.", self.STATES) + [("use_cache_branch", TensorProto.BOOL, [1])]
        inputs += [("cache_position", TensorProto.INT64, ["tokens"])] if positions else []
        return g.model(inputs, outputs, self.constants(self.DECODER))


class Graph:
    """Nodes of a graph, named by numbers."""

    def __init__(self, prefix="v"):
        self.nodes, self.prefix = [], prefix

    def add(self, op, inputs, output=None, **attributes):
        output = output or f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def const(self, array):
        return self.add("Constant", [], value=numpy_helper.from_array(np.asarray(array)))

    def size(self, name, axis):
        return self.add("Shape", [name], start=axis, end=axis + 1)

    def norm(self, x):
        return self.add("LayerNormalization", [x, self.const(np.ones(WIDTH, np.float32))], axis=-1)

    def gelu(self, x):
        erf = self.add("Erf", [self.add("Mul", [x, self.const(np.float32(0.5 ** 0.5))])])
        return self.add("Mul", [self.add("Mul", [x, self.const(np.float32(0.5))]), self.add("Add", [erf, self.const(np.float32(1))])])

    def heads(self, x):
        return self.add("Transpose", [self.add("Reshape", [x, self.const(np.array([0, 0, HEADS, HEAD], np.int64))])],
                        perm=[0, 2, 1, 3])

    def keys(self, name, x):
        return [self.heads(self.add("MatMul", [x, name + part])) for part in "kv"]

    def causal(self, key, x):
        """Which keys each of the last tokens may see."""
        all_, now = self.size(key, 2), self.size(x, 1)
        first = self.add("Sub", [all_, now])
        zero, one = self.const(np.int64(0)), self.const(np.int64(1))
        columns = self.add("Range", [zero, self.add("Squeeze", [all_]), one])
        rows = self.add("Add", [self.add("Range", [zero, self.add("Squeeze", [now]), one]), first])
        sees = self.add("LessOrEqual", [columns, self.add("Unsqueeze", [rows, self.const(np.array([1], np.int64))])])
        return self.add("Where", [sees, self.const(np.float32(0)), self.const(np.float32(-1e30))])

    def attend(self, name, x, key, value, mask):
        q = self.heads(self.add("MatMul", [x, name + "q"]))
        scores = self.add("MatMul", [q, self.add("Transpose", [key], perm=[0, 1, 3, 2])])
        scores = self.add("Mul", [scores, self.const(np.float32(HEAD ** -0.5))])
        scores = self.add("Add", [scores, mask]) if mask else scores
        y = self.add("MatMul", [self.add("Softmax", [scores], axis=-1), value])
        y = self.add("Reshape", [self.add("Transpose", [y], perm=[0, 2, 1, 3]), self.const(np.array([0, 0, WIDTH], np.int64))])
        return self.add("MatMul", [y, name + "o"])

    def feed(self, x, name):
        return self.add("MatMul", [self.gelu(self.add("MatMul", [x, name + "u"])), name + "d"])

    def graph(self, inputs, outputs, constants):
        return helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info(*one) for one in inputs],
                                 [helper.make_tensor_value_info(*one) for one in outputs], constants)

    def model(self, inputs, outputs, constants):
        return helper.make_model(self.graph(inputs, outputs, constants), ir_version=8,
                                 opset_imports=[helper.make_opsetid("", 17)])


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def encode(text):
    return [ID["\u0120" if c == " " else c] for c in text]


def text_of(tokens):
    return "".join(WORDS[t].replace("\u0120", " ") for t in tokens if t < END)
