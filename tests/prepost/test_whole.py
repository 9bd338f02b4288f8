"""Whole models by `inlay pipe`: a model of Whisper's form converts a melody in a sound file to words, and one of an OCR
model's form converts digits in a picture to text. The weights are constructed for known outputs; other tests cover the
parts."""
import json
import os
import subprocess
import tempfile
import unittest
import wave

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper, save
from PIL import Image, ImageDraw, ImageFont

INLAY = os.environ["INLAY_CLI"]
NOTES = {"do": 523.25, "re": 587.33, "mi": 659.26, "fa": 698.46, "so": 783.99, "la": 880.0, "ti": 987.77}
SPACE = "\u0120"  # a space in byte-level BPE
WORDS = ["<|end|>", "<|start|>"] + [SPACE + n for n in NOTES]
LENGTH, SPAN = 60, 50  # notes of half a second, 50 frames of the spectrogram, in 30 seconds


def put(text, path):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def info(name, dims, kind=T.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def constant(name, values, kind=np.float32):
    return numpy_helper.from_array(np.array(values, kind), name)


def mel_filters():
    """Whisper's 80 bands over 201 bins: Slaney's scale and norm."""
    edges = np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), 82)
    hz = np.where(edges < 15, edges * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (edges - 15)))
    bins = np.arange(201) * 40.0
    up = (bins - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - bins) / (hz[2:] - hz[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (hz[2:] - hz[:-2]))[:, None]


def steps(begin, past):
    """The decoder: self attention over the words so far, with weight 0, and attention to the next span of the audio."""
    node = helper.make_node
    grown = [node("Concat", [p, "keys"], [o], axis=2) for p, o in zip(past, ("present_key_self_0", "present_value_self_0"))]
    if not past:
        grown = [node("Identity", ["keys"], ["present_key_self_0"]), node("Identity", ["keys"], ["present_value_self_0"])]
    return [
        node("Cast", [begin], ["ids_f"], to=T.FLOAT), node("Mul", ["ids_f", "nought"], ["still"]),
        node("Unsqueeze", ["still", "heads_axes"], ["keys"]), *grown,
        node("Shape", ["present_key_self_0"], ["shape"]), node("Gather", ["shape", "two"], ["length"]),
        node("Sub", ["length", "prompt"], ["span"]), node("Gather", ["places", "span"], ["place"]),
        node("Unsqueeze", ["place", "query_axes"], ["query"]),
        node("Transpose", ["present_key_cross_0"], ["keys_t"], perm=[0, 1, 3, 2]), node("MatMul", ["query", "keys_t"], ["fit"]),
        node("Mul", ["fit", "sharp"], ["sharp_fit"]), node("Softmax", ["sharp_fit"], ["seen"], axis=-1),
        node("MatMul", ["seen", "present_value_cross_0"], ["heard"]), node("Squeeze", ["heard", "one_axis"], ["heard_row"]),
        node("ReduceSum", ["present_value_self_0"], ["nothing"], keepdims=0), node("Add", ["heard_row", "nothing"], ["row"]),
        node("MatMul", ["row", "to_words"], ["logits"]),
    ]


def shared():
    return [constant("nought", 0), constant("heads_axes", [1, 3], np.int64), constant("two", 2, np.int64),
            constant("prompt", 1, np.int64), constant("places", np.eye(LENGTH)), constant("query_axes", [0, 1, 2], np.int64),
            constant("sharp", 60), constant("one_axis", [1], np.int64),
            constant("to_words", np.eye(len(NOTES) + 1, len(WORDS))[:, [0] + [len(WORDS) - 1] + list(range(1, len(NOTES) + 1))])]


def melody_model(beams):
    """BeamSearch as exporters write Whisper: the encoder reads [1, 80, 3000] and starts the decoder with its prompt."""
    node, bands = helper.make_node, mel_filters()
    kernel = np.zeros((len(NOTES) + 1, 80, SPAN), np.float32)  # the loudness of each note, and a threshold for silence
    for i, hz in enumerate(NOTES.values()):
        weights = np.array([np.interp(hz, np.arange(201) * 40.0, band) for band in bands])
        kernel[i + 1] = (weights / weights.sum())[:, None] / SPAN
    bias = np.array([0.2] + [0] * len(NOTES), np.float32)
    front = [
        node("Conv", ["encoder_input_ids", "kernel", "bias"], ["spans"], strides=[SPAN]),
        node("Transpose", ["spans"], ["encoder_hidden_states"], perm=[0, 2, 1]),
        node("Unsqueeze", ["encoder_hidden_states", "one_axis"], ["present_value_cross_0"]),
        node("Unsqueeze", ["places", "both_axes"], ["present_key_cross_0"]),
    ]
    cross = [info("present_key_cross_0", [1, 1, LENGTH, LENGTH]), info("present_value_cross_0", [1, 1, LENGTH, len(NOTES) + 1])]
    own = [info("present_key_self_0", ["n", 1, "l", 1]), info("present_value_self_0", ["n", 1, "l", 1])]
    encoder = helper.make_graph(
        front + steps("decoder_input_ids", []), "encoder",
        [info("encoder_input_ids", [1, 80, 3000]), info("decoder_input_ids", [1, "p"], T.INT32)],
        [info("logits", [1, 1, len(WORDS)]), info("encoder_hidden_states", [1, LENGTH, len(NOTES) + 1])] + own + cross,
        shared() + [constant("kernel", kernel), constant("bias", bias), constant("both_axes", [0, 1], np.int64)])
    names = ["past_key_self_0", "past_value_self_0", "past_key_cross_0", "past_value_cross_0"]
    body = steps("input_ids", names[:2])
    for n in body:
        for i, name in enumerate(n.input):
            n.input[i] = name.replace("present_key_cross", "past_key_cross").replace("present_value_cross", "past_value_cross")
    decoder = helper.make_graph(
        body, "decoder",
        [info("input_ids", ["n", 1], T.INT32), info(names[0], ["n", 1, "l", 1]), info(names[1], ["n", 1, "l", 1]),
         info(names[2], ["n", 1, LENGTH, LENGTH]), info(names[3], ["n", 1, LENGTH, len(NOTES) + 1])],
        [info("logits", ["n", 1, len(WORDS)])] + own, shared())
    search = node("BeamSearch", ["input_features", "most", "least", "beams", "given", "", "", "", "", "", "start"], ["sequences"],
                  domain="com.microsoft", encoder=encoder, decoder=decoder, model_type=2, eos_token_id=0, pad_token_id=0,
                  early_stopping=1)
    graph = helper.make_graph(
        [search], "whisper", [info("input_features", [1, 80, 3000])], [info("sequences", [1, 1, 32], T.INT32)],
        [constant("most", [32], np.int32), constant("least", [0], np.int32), constant("beams", [beams], np.int32),
         constant("given", [1], np.int32), constant("start", [[1]], np.int32)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=8)


def tokenizer():
    return json.dumps({"model": {"type": "BPE", "vocab": {w: i for i, w in enumerate(WORDS)}, "merges": []},
                       "added_tokens": [{"id": i, "content": WORDS[i], "special": True} for i in range(2)],
                       "decoder": {"type": "ByteLevel"}})


def play(path, notes, rate=16000):
    t = np.arange(rate // 2) / rate
    sound = np.concatenate([np.sin(2 * np.pi * NOTES[n] * t) * np.hanning(len(t)) ** 0.1 for n in notes])
    with wave.open(path, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes((sound * 20000).astype("<i2").tobytes())


DIGITS = "0123456789"
TALL, WIDE = 24, 14


FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"


def font(height):
    return ImageFont.truetype(FONT, int(height * 0.9))


def drawn(text, scale):
    picture = Image.new("L", (WIDE * scale * len(text), TALL * scale), 255)
    for i, c in enumerate(text):
        ImageDraw.Draw(picture).text((i * WIDE * scale, 0), c, font=font(TALL * scale), fill=0)
    return picture


def digits_model():
    """A template for each digit: steps [1, digits, classes]; class 0 is the blank of CTC."""
    node = helper.make_node
    shapes = np.stack([np.asarray(drawn(c, 1), np.float32) / 127.5 - 1 for c in DIGITS])
    kernel = np.concatenate([np.zeros((1, 1, TALL, WIDE), np.float32), shapes[:, None]])
    bias = np.concatenate([[-1e3], -(shapes ** 2).sum((1, 2)) / 2]).astype(np.float32)
    nodes = [node("Conv", ["x", "kernel", "bias"], ["fit"], strides=[TALL, WIDE]),
             node("Squeeze", ["fit", "height"], ["row"]), node("Transpose", ["row"], ["steps"], perm=[0, 2, 1]),
             node("Unsqueeze", ["steps", "two"], ["each"]), node("Mul", ["each", "none"], ["zeros"]),
             node("Add", ["zeros", "blank"], ["blanks"]), node("Concat", ["each", "blanks"], ["pairs"], axis=2),
             node("Reshape", ["pairs", "flat"], ["scores"]), node("Softmax", ["scores"], ["y"], axis=-1)]
    # A blank follows each digit; otherwise two equal digits would become one.
    blank = np.array([[0.0] + [-1e6] * len(DIGITS)], np.float32)
    graph = helper.make_graph(
        nodes, "ocr", [info("x", [1, 1, TALL, "W"])], [info("y", [1, "T", len(DIGITS) + 1])],
        [constant("kernel", kernel), constant("bias", bias), constant("height", [2], np.int64), constant("two", [2], np.int64),
         constant("none", 0), constant("blank", blank), constant("flat", [1, -1, len(DIGITS) + 1], np.int64)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


class Whole(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def inlay(self, *arguments):
        done = subprocess.run([INLAY, *arguments, "--no-config", "--quiet"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def text_of(self, model, file):
        told = json.loads(self.inlay("run", model, "--input", "file=" + file, "--json"))
        return next(o["values"] for o in told["outputs"] if o["name"] == "text")[0]

    def test_sound_to_text(self):
        words = put(tokenizer(), self.path("tokenizer.json"))
        for beams in (1, 3):
            save(melody_model(beams), self.path("whisper.onnx"))
            self.inlay("pipe", self.path("whisper.onnx"), "--pre", "audio,mel:whisper", "--post", "detokenize:" + words, "-o",
                       self.path("whole.onnx"))
            for notes in (["do", "mi", "so", "so", "la"], ["ti", "re"], ["fa"] * 3 + ["do"]):
                for rate in (16000, 22050):
                    play(self.path("tune.wav"), notes, rate)
                    self.assertEqual(self.text_of(self.path("whole.onnx"), self.path("tune.wav")), " " + " ".join(notes))

    @unittest.skipUnless(os.path.exists(FONT), "needs fonts-dejavu-core")
    def test_picture_to_text(self):
        keys = put("\n".join(DIGITS), self.path("keys.txt"))
        save(digits_model(), self.path("ocr.onnx"))
        self.inlay("pipe", self.path("ocr.onnx"), "--pre", f"decode:grey,resize:{TALL},normalise", "--post", "ctc:" + keys, "-o",
                   self.path("whole.onnx"))
        for text in ("2718281828", "0011", "7"):
            for form, scale in (("png", 1), ("png", 3), ("jpg", 2), ("webp", 2)):
                drawn(text, scale).save(self.path("line." + form))
                self.assertEqual(self.text_of(self.path("whole.onnx"), self.path("line." + form)), text, (form, scale))


if __name__ == "__main__":
    unittest.main()
