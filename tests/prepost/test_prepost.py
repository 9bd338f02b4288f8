"""The plug-ins prepost and image_decoder, compared with Pillow, formulas in numpy and brute force."""
import io
import itertools
import json
import os
import struct
import subprocess
import tempfile
import unittest
import zlib

import numpy as np
from onnx import TensorProto, helper
from PIL import Image

import inlay

OURS, THEIRS = "inlay.prepost", "com.microsoft.extensions"
RNG = np.random.default_rng(7)


def run(op, inputs, outputs=1, domain=OURS, **attrs):
    """The outputs of a model of one node. The model's inputs have the types of the arrays, and dynamic sizes."""
    kinds = {np.dtype("uint8"): TensorProto.UINT8, np.dtype("float32"): TensorProto.FLOAT,
             np.dtype("int64"): TensorProto.INT64, np.dtype("O"): TensorProto.STRING}
    names = [f"x{i}" for i in range(len(inputs))]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, kinds[x.dtype], [None] * x.ndim) for n, x in zip(names, inputs)],
        [helper.ValueInfoProto(name=n) for n in made])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)] if domain else [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with inlay.Session(model.SerializeToString(), config=False) as session:
        results = session.run(dict(zip(names, inputs)))
        return results[made[0]] if outputs == 1 else [results[n] for n in made]


def saved(picture, form, **options):
    file = io.BytesIO()
    picture.save(file, form, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def picture(mode="RGB", width=37, height=23):
    """Waves with some noise: neither flat nor random."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (3 + c) + c) * np.cos(y / (4 + c)) + RNG.normal(0, 9, x.shape) for c in range(4)]
    rgba = Image.fromarray(np.stack(planes, -1).clip(0, 255).astype(np.uint8), "RGBA")
    return rgba.convert("RGB").convert(mode) if mode not in ("RGBA", "LA") else rgba.convert(mode)


def texts(*words):
    return np.array(words, dtype=object)


class Strings(unittest.TestCase):
    """Operators of onnxruntime-extensions, compared with Python's strings."""
    WORDS = texts("Straße 7", "", " \t", "naïve", "ABC xyz", "日本")

    def ext(self, op, inputs, outputs=1, **attrs):
        for domain in ("ai.onnx.contrib", THEIRS):
            got = run(op, inputs, outputs, domain=domain, **attrs)
        return got

    def test_each_text(self):
        w = self.WORDS
        upper = [("".join(c.upper() if c < "\x80" else c for c in x)) for x in w]
        self.assertEqual(list(self.ext("StringUpper", [w])), upper)
        self.assertEqual(list(self.ext("StringStrip", [w])), [x.strip() or x for x in w])
        self.assertEqual(list(self.ext("StringLength", [w])), [len(x) for x in w])
        self.assertEqual(self.ext("StringUpper", [w.reshape(2, 3)]).shape, (2, 3))

    def test_pairs(self):
        a, b = self.WORDS.reshape(2, 3), texts("x", "", "ABC xyz")
        both = self.ext("StringConcat", [a, b])
        self.assertEqual(both.tolist(), [[p + q for p, q in zip(row, b)] for row in a])
        self.assertEqual(self.ext("StringEqual", [a, a[:, 1:2]]).tolist(), [[x == row[1] for x in row] for row in a])
        self.assertEqual(self.ext("StringConcat", [a[:, :, None], b[:2]]).shape, (2, 3, 2))
        with self.assertRaises(Exception):
            self.ext("StringConcat", [a, b[:2]])

    def test_join(self):
        a = self.WORDS.reshape(2, 3)
        for axis in (0, 1):
            got = self.ext("StringJoin", [a, texts("-+"), np.array([axis])])
            want = ["-+".join(x) for x in (a if axis else a.T)]
            self.assertEqual(list(got), want)
        with self.assertRaises(Exception):
            self.ext("StringJoin", [a, texts("-"), np.array([2])])

    def test_split(self):
        lines = texts("a,b;;c", "", ",", "x")
        for skip in (0, 1):
            places, pieces, shape = self.split(lines, ",;", skip)
            want = [(r, p) for r, x in enumerate(lines) for p in x.replace(";", ",").split(",") if x and (p or not skip)]
            self.assertEqual(list(pieces), [p for _, p in want])
            self.assertEqual([int(r) for r in places[:, 0]], [r for r, _ in want])
            self.assertEqual(list(shape), [4, max(places[:, 1]) + 1])
        places, pieces, shape = self.split(texts("ab", "", "c"), "", 0)
        self.assertEqual((list(pieces), places.tolist(), list(shape)), (["a", "b", "c"], [[0, 0], [0, 1], [2, 0]], [3, 2]))

    def split(self, lines, sep, skip):
        names = ["x", "sep", "skip"]
        node = helper.make_node("StringSplit", names, ["i", "t", "s"], domain=THEIRS)
        kinds = [TensorProto.STRING, TensorProto.STRING, TensorProto.BOOL]
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, k, [None]) for n, k in zip(names, kinds)],
                                  [helper.ValueInfoProto(name=n) for n in ("i", "t", "s")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(THEIRS, 1)],
                                  ir_version=8)
        with inlay.Session(model.SerializeToString(), config=False) as session:
            got = session.run(dict(zip(names, [lines, texts(sep), np.array([bool(skip)])])))
            return got["i"], got["t"], got["s"]

    def test_tables(self):
        w = texts("a", "b c", "z", "a")
        self.assertEqual(list(self.ext("StringMapping", [w], map="a\tx\nb c\tlong text\n\na\ty")), ["y", "long text", "z", "y"])
        got = self.ext("StringToVector", [w.reshape(2, 2)], map="a\t1 2\nb c\t-3 4", unk="0 9")
        self.assertEqual(got.tolist(), [[[1, 2], [-3, 4]], [[0, 9], [1, 2]]])
        back = self.ext("VectorToString", [got], map="1 2\ta\n-3 4\tb c", unk="?")
        self.assertEqual(back.tolist(), [["a", "b c"], ["?", "a"]])
        self.assertEqual(list(self.ext("VectorToString", [np.array([5, 6])], map="5\tfive", unk="-")), ["five", "-"])
        for attrs in (dict(map="a 1", unk="0"), dict(map="a\t1\nb\t1 2", unk="0"), dict(map="a\tx", unk="0"),
                      dict(map="a\t1", unk="0 0")):
            with self.assertRaises(Exception):
                self.ext("StringToVector", [w], **attrs)
        with self.assertRaises(Exception):
            self.ext("VectorToString", [np.zeros((2, 3), np.int64)], map="1 2\ta", unk="?")

    def test_segments(self):
        x = RNG.normal(size=(5, 2, 3)).astype(np.float32)
        ids = np.array([0, 0, 1, 2, 2])
        want = np.stack([x[ids == i].sum(0) for i in range(3)])
        np.testing.assert_allclose(self.ext("SegmentSum", [x, ids]), want, 1e-6)
        for bad in ([0, 2, 2, 2, 2], [-1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0]):
            with self.assertRaises(Exception):
                self.ext("SegmentSum", [x, np.array(bad)])


class Resize(unittest.TestCase):
    FILTERS = {"nearest": 0, "box": 4, "bilinear": 2, "hamming": 5, "bicubic": 3, "lanczos": 1}

    def test_bytes_are_pillows(self):
        for mode in ("L", "RGB", "RGBA"):
            x = np.asarray(picture(mode))
            planes = x if x.ndim == 3 else x[..., None]
            for name, number in self.FILTERS.items():
                for height, width in ((23, 11), (5, 37), (48, 80), (7, 9), (1, 1), (23, 37)):
                    # Pillow multiplies RGBA by alpha before it resizes; it does not do so with single planes.
                    want = np.stack([np.asarray(Image.fromarray(planes[..., c]).resize((width, height), number))
                                     for c in range(planes.shape[2])], -1)
                    got = run("ResizeImage", [planes], height=height, width=width, filter=name)
                    np.testing.assert_array_equal(got, want, f"{mode} {name} {height}x{width}")

    def test_floats_are_pillows(self):
        x = np.asarray(picture("L")).astype(np.float32) / 7
        for name, number in self.FILTERS.items():
            for height, width in ((11, 19), (40, 61)):
                want = np.asarray(Image.fromarray(x).resize((width, height), number))
                got = run("ResizeImage", [x[..., None]], height=height, width=width, filter=name)[..., 0]
                np.testing.assert_allclose(got, want, 1e-5, 1e-5)

    def test_sizes(self):
        x = np.zeros((30, 60, 3), np.uint8)
        for want, attrs in (((15, 30), dict(height=15)), ((20, 40), dict(width=40)),
                            ((20, 40), dict(height=40, width=40, fit="inside")),
                            ((40, 80), dict(height=40, width=40, fit="cover")),
                            ((30, 60), dict(height=90, width=90, fit="inside", shrink_only=1)),
                            ((32, 64), dict(height=90, width=90, fit="inside", shrink_only=1, multiple=32))):
            self.assertEqual(run("ResizeImage", [x], **attrs).shape[:2], want, attrs)

    def test_batches(self):
        x = np.stack([np.asarray(picture()) for _ in range(3)])
        got = run("ResizeImage", [x], height=9, width=13)
        for i in range(3):
            np.testing.assert_array_equal(got[i], np.asarray(Image.fromarray(x[i]).resize((13, 9), 2)))

    def test_letterbox(self):
        x = np.asarray(picture("RGB", 40, 20))
        got, place = run("Letterbox", [x], 2, height=64, width=64)
        np.testing.assert_array_equal(got[16:48], np.asarray(Image.fromarray(x).resize((64, 32), 2)))
        self.assertTrue((got[:16] == 114).all() and (got[48:] == 114).all())
        np.testing.assert_allclose(place, [1.6, 0, 16, 40, 20], 1e-6)

    def test_crop_and_normalise(self):
        x = np.asarray(picture("RGB", 40, 30))
        np.testing.assert_array_equal(run("CropImage", [x], height=10, width=20), x[10:20, 10:30])
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        want = ((x / 255 - mean) / std).transpose(2, 0, 1)[None]
        got = run("NormalizeImage", [x], mean=mean, std=std)
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)
        np.testing.assert_array_equal(run("ImageFromPlanes", [got], mean=mean, std=std), x)


class Pictures(unittest.TestCase):
    def files(self):
        rgb, grey = picture(), picture("L")
        for form, pictures, options in (
                ("PNG", [rgb, grey, picture("1"), picture("P"), picture("RGBA"), picture("LA")], {}),
                ("JPEG", [rgb, grey], {"quality": 90}), ("JPEG", [rgb], {"progressive": True, "subsampling": 2}),
                ("WEBP", [rgb], {"lossless": True}), ("TIFF", [rgb, grey, picture("1")], {}),
                ("TIFF", [rgb], {"compression": "tiff_lzw"}), ("JPEG2000", [rgb, grey], {}),
                ("BMP", [rgb, grey, picture("1"), picture("P")], {}), ("PPM", [rgb, grey, picture("1")], {})):
            for p in pictures:
                yield f"{form} {p.mode} {options}", saved(p, form, **options)

    def test_decoded_as_by_pillow(self):
        for name, file in self.files():
            want = np.asarray(Image.open(io.BytesIO(file.tobytes())).convert("RGB")).astype(int)
            for op, domain, attrs in (("DecodeImage", THEIRS, {"color_space": "rgb"}), ("ImageDecoder", "", {})):
                got = run(op, [file], domain=domain, **attrs).astype(int)
                self.assertEqual(got.shape, want.shape, name)
                self.assertLessEqual(np.abs(got - want).max(), 1, f"{name} {op}")

    def test_orders(self):
        file = saved(picture(), "PNG")
        rgb = run("ImageDecoder", [file], domain="")
        np.testing.assert_array_equal(run("ImageDecoder", [file], domain="", pixel_format="BGR"), rgb[..., ::-1])
        np.testing.assert_array_equal(run("DecodeImage", [file], domain="ai.onnx.contrib"), rgb[..., ::-1])
        grey = run("ImageDecoder", [file], domain="", pixel_format="Grayscale")
        np.testing.assert_array_equal(grey[..., 0], np.asarray(Image.fromarray(rgb).convert("L")))

    def test_sixteen_bits(self):
        deep = (np.arange(12, dtype=np.uint16) * 5461).reshape(3, 4)
        got = run("ImageDecoder", [saved(Image.fromarray(deep.astype(np.int32), "I").convert("I;16"), "PNG")], domain="")
        np.testing.assert_array_equal(got[..., 0], deep >> 8)

    def test_encoded(self):
        x = np.asarray(picture())
        for form in ("png", "bmp", "ppm"):
            file = run("EncodeImage", [x], domain=THEIRS, format=form, color_space="rgb")
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(file.tobytes()))), x)
        for form in ("jpg", "webp"):
            file = run("EncodeImage", [x[..., ::-1].copy()], domain=THEIRS, format=form)
            self.assertLess(np.abs(np.asarray(Image.open(io.BytesIO(file.tobytes()))).astype(int) - x).mean(), 9)

    def test_lying_headers(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
        half = struct.pack(">IIBBBBB", 9000, 9000, 8, 2, 0, 0, 0)
        small = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", half) + chunk(b"IDAT", zlib.compress(b"x")) + chunk(b"IEND", b"")
        bmp = b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, 60000, 60000, 1, 24, 0) + bytes(20)
        for file, words in ((png, "too early"), (png + chunk(b"IDAT", b""), "max_pixels"), (small, "more than the file can hold"), (b"P6 9999 9999 255 abc", "short"),
                            (bmp, "BMP"), (b"", "not an image"), (b"GIF89a", "not an image"),
                            (saved(picture(), "JPEG").tobytes()[:300], "JPEG"),
                            (saved(picture(), "PNG").tobytes()[:300], "PNG")):
            with self.assertRaisesRegex(inlay.InlayError, words):
                run("DecodeImage", [np.frombuffer(file, np.uint8)], domain=THEIRS)

    def test_mutants(self):
        """TIFF and JPEG 2000, for which prepost has no encoder; test_mutants.c tests the other formats."""
        rng = np.random.default_rng(2)
        node = helper.make_node("ImageDecoder", ["x"], ["y"])
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, [None])],
                                  [helper.make_tensor_value_info("y", TensorProto.UINT8, [None, None, 3])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
        with inlay.Session(model.SerializeToString(), config=False) as session:
            for form, options in (("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("JPEG2000", {})):
                file, refused = saved(picture(), form, **options), 0
                for _ in range(300):
                    made = file[:rng.integers(1, len(file))].copy() if rng.random() < 0.2 else file.copy()
                    made[rng.integers(0, len(made), 3)] = rng.integers(0, 256, 3)
                    made[rng.integers(0, min(len(made), 120))] = rng.integers(0, 256)
                    try:
                        session.run({"x": made})
                    except inlay.InlayError as error:
                        refused += 1
                        self.assertNotIn("\n", str(error))
                self.assertGreater(refused, 20, form)

    def test_colours(self):
        x = np.asarray(picture())
        for space, mode in (("ycbcr", "YCbCr"), ("hsv", "HSV"), ("grey", "L")):
            want = np.asarray(Image.fromarray(x).convert(mode)).astype(int).reshape(23, 37, -1)
            got = run("ConvertColor", [x], to=space)
            self.assertLessEqual(np.abs(got.astype(int) - want).max(), 1, space)
            if space != "grey":
                want = np.asarray(Image.fromarray(got, mode).convert("RGB")).astype(int)
                back = run("ConvertColor", [got], **{"from": space}).astype(int)
                self.assertLessEqual(np.abs(back - want).max(), 1, space)


class Sound(unittest.TestCase):
    @staticmethod
    def filters(rate, n_fft, mels):
        """Slaney's filters, as librosa.filters.mel writes them."""
        def hz(m):
            return np.where(m < 15, m * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (m - 15)))

        top = 15 + np.log(rate / 2 / 1000) / (np.log(6.4) / 27)
        edges = hz(np.linspace(0, top, mels + 2))
        bins = np.fft.rfftfreq(n_fft, 1 / rate)
        ramps = edges[:, None] - bins[None]
        width = np.diff(edges)
        weights = np.maximum(0, np.minimum(-ramps[:-2] / width[:-1, None], ramps[2:] / width[1:, None]))
        return weights * (2 / (edges[2:] - edges[:-2]))[:, None]

    def powers(self, x, n_fft, hop, mode):
        x = np.pad(x.astype(np.float64), n_fft // 2, mode)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
        frames = np.stack([x[i:i + n_fft] * window for i in range(0, len(x) - n_fft + 1, hop)], 1)
        return np.abs(np.fft.rfft(frames, axis=0)) ** 2

    def sound(self, seconds, rate):
        t = np.arange(int(seconds * rate)) / rate
        return (0.4 * np.sin(2 * np.pi * (200 + 900 * t) * t) + RNG.normal(0, 0.02, t.shape)).astype(np.float32)

    def test_whisper(self):
        x = self.sound(2.5, 16000)
        whole = np.pad(x, (0, 480000 - len(x)))
        mel = self.filters(16000, 400, 80) @ self.powers(whole, 400, 160, "reflect")[:, :-1]
        log = np.log10(np.maximum(mel, 1e-10))
        want = (np.maximum(log, log.max() - 8) + 4) / 4
        got = run("MelSpectrogram", [x[None]], log="whisper", samples=480000)
        self.assertEqual(got.shape, (1, 80, 3000))
        np.testing.assert_allclose(got[0], want, 1e-5, 1e-5)

    def test_librosa(self):
        x = self.sound(1, 22050)
        want = self.filters(22050, 2048, 128) @ self.powers(x, 2048, 512, "constant")
        got = run("MelSpectrogram", [x], sample_rate=22050, n_fft=2048, hop=512, mels=128, pad="zero")
        np.testing.assert_allclose(got[0], want, 1e-5, 1e-5 * want.max())
        got = run("MelSpectrogram", [x], sample_rate=22050, n_fft=2048, hop=512, mels=128, pad="zero", log="db")
        db = 10 * np.log10(np.maximum(want, 1e-10))
        np.testing.assert_allclose(got[0], np.maximum(db, db.max() - 80), 1e-5, 1e-4)

    def wav(self, data, rate, channels, bits, form=1):
        fmt = struct.pack("<HHIIHH", form, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
        body = b"fmt " + struct.pack("<I", 16) + fmt + b"data" + struct.pack("<I", len(data)) + data
        return np.frombuffer(b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body, np.uint8)

    def test_wav(self):
        x = self.sound(0.1, 16000)
        for kind, scale, bits, form in (("<i2", 32768, 16, 1), ("<i4", 2 ** 31, 32, 1), ("<f4", 1, 32, 3), ("<f8", 1, 64, 3)):
            file = self.wav((x.astype(np.float64) * scale).astype(kind).tobytes(), 16000, 1, bits, form)
            np.testing.assert_allclose(run("AudioDecoder", [file], domain=THEIRS)[0], x, 0, 1 / 32768)
        bytes3 = b"".join(int(v).to_bytes(3, "little", signed=True) for v in x * 8388607)
        np.testing.assert_allclose(run("AudioDecoder", [self.wav(bytes3, 16000, 1, 24)], domain=THEIRS)[0], x, 0, 1e-6)
        for length in (20, 44):
            with self.assertRaises(inlay.InlayError):
                run("AudioDecoder", [file[:length - 10]], domain=THEIRS)

    def test_rates(self):
        """A sine below half of both rates is the same sine after resampling."""
        for rate in (44100, 48000, 8000):
            t, u = np.arange(rate) / rate, np.arange(16000) / 16000
            file = self.wav((0.5 * np.sin(2 * np.pi * 1000 * t)).astype("<f4").tobytes(), rate, 1, 32, 3)
            got = run("AudioDecoder", [file], domain=THEIRS, downsampling_rate=16000, stereo_to_mono=1)[0]
            self.assertEqual(len(got), 16000)
            np.testing.assert_allclose(got[200:-200], 0.5 * np.sin(2 * np.pi * 1000 * u)[200:-200], 0, 2e-3)


class Answers(unittest.TestCase):
    def test_beam_is_the_best_text(self):
        """Compared with all paths: a beam for all prefixes finds the most probable text and its probability."""
        for _ in range(20):
            p = RNG.dirichlet([0.7] * 3, 5).astype(np.float32)
            texts = {}
            for path in itertools.product(range(3), repeat=5):
                text = "".join(" ab"[c] for c, _ in itertools.groupby(path) if c)
                texts[text] = texts.get(text, 0) + np.prod([p[t, c] for t, c in enumerate(path)], dtype=np.float64)
            best = max(texts, key=texts.get)
            text, sure = run("CtcDecode", [p], 2, alphabet="a\nb\n", beam=100)
            self.assertEqual((text[0], round(float(sure[0]), 5)), (best, round(texts[best], 5)))
            logits = (np.log(p) + 3).astype(np.float32)
            self.assertEqual(run("CtcDecode", [logits], 2, alphabet="a\nb", beam=100, scores="logits")[0][0], best)

    def test_boxes_against_numpy(self):
        centre = RNG.uniform(10, 90, (200, 2))
        size = RNG.uniform(5, 30, (200, 2))
        scores = RNG.uniform(0, 1, (200, 3))
        x = np.concatenate([centre, size, scores], 1).astype(np.float32)
        corner = np.concatenate([x[:, :2] - x[:, 2:4] / 2, x[:, :2] + x[:, 2:4] / 2], 1)
        kept = []
        for i in sorted(range(200), key=lambda i: -x[i, 4:].max()):
            kind = x[i, 4:].argmax()
            if x[i, 4:].max() <= 0.3:
                continue
            for k in kept:
                low, high = np.maximum(corner[i, :2], corner[k, :2]), np.minimum(corner[i, 2:], corner[k, 2:])
                both = np.prod(np.maximum(0, high - low))
                if x[k, 4:].argmax() == kind and both / (np.prod(x[i, 2:4]) + np.prod(x[k, 2:4]) - both) > 0.5:
                    break
            else:
                kept.append(i)
        boxes, _ = run("YoloBoxes", [x.T[None].copy()], 2, score=0.3, iou=0.5, most=1000)
        np.testing.assert_allclose(boxes[:, :4], corner[kept], 1e-4, 1e-4)
        old = np.concatenate([x[:, :4], np.ones((200, 1), np.float32), x[:, 4:]], 1)[None]
        np.testing.assert_array_equal(run("YoloBoxes", [old], 2, layout="v5", score=0.3, iou=0.5, most=1000)[0], boxes)

    def test_top(self):
        x = RNG.normal(0, 1, (4, 50)).astype(np.float32)
        names, scores, indices = run("TopKLabels", [x], 3, k=7, labels="\n".join(f"class {i}" for i in range(48)))
        np.testing.assert_array_equal(indices, np.argsort(-x, 1)[:, :7])
        np.testing.assert_array_equal(scores, -np.sort(-x, 1)[:, :7])
        self.assertEqual([list(r) for r in names],
                         [[f"class {i}" if i < 48 else str(i) for i in row] for row in indices])


class Pipe(unittest.TestCase):
    """`inlay pipe`, and `inlay run` on its output."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.image = picture("RGB", 40, 30)
        self.image.save(self.path("in.png"))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def inlay(self, *words, code=0):
        ran = subprocess.run([os.environ["INLAY_CLI"], *words, "--no-config"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, code, ran.stderr + ran.stdout)
        return ran.stdout if code == 0 else ran.stderr

    def model(self, nodes, inputs, outputs, constants=()):
        graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with open(self.path("m.onnx"), "wb") as f:
            f.write(model.SerializeToString())
        return self.path("m.onnx")

    def planes(self, height, width, out="y"):
        """A model that returns its input planes."""
        info = helper.make_tensor_value_info
        return self.model([helper.make_node("Identity", ["x"], [out])],
                          [info("x", TensorProto.FLOAT, [1, 3, height, width])],
                          [info(out, TensorProto.FLOAT, [1, 3, height, width])])

    def test_picture_in_picture_out(self):
        told = json.loads(self.inlay("pipe", self.planes(15, 20), "--pre", "decode,resize,normalise:imagenet", "--post",
                                     "image:imagenet,encode", "-o", self.path("w.onnx"), "--json"))
        self.assertEqual((told["inputs"], told["outputs"]), (["file"], ["encoded"]))
        self.inlay("run", self.path("w.onnx"), "--input", "file=" + self.path("in.png"), "--outputs", self.path("out"))
        file = np.load(self.path("out/encoded.npy"))
        got = np.asarray(Image.open(io.BytesIO(file.tobytes())))
        np.testing.assert_array_equal(got, np.asarray(self.image.resize((20, 15), 2)))

    def test_samples(self):
        """Pictures in a folder: other files are left out, a bad picture is named, and no random bytes are one."""
        self.inlay("pipe", self.planes(15, 20), "--pre", "decode,resize,normalise", "-o", self.path("w.onnx"))
        os.mkdir(self.path("pictures"))
        self.image.save(self.path("pictures/a.png"))
        with open(self.path("pictures/README.txt"), "w", encoding="utf-8") as f:
            f.write("about")
        words = ("compare", self.path("w.onnx"), self.path("w.onnx"), "--data", self.path("pictures"))
        self.inlay(*words)
        with open(self.path("pictures/b.png"), "wb") as f:
            f.write(b"no picture")
        self.assertRegex(self.inlay(*words, code=2), r"/pictures/b\.png: .*the 10 bytes are not an image")
        for verb in "run", "bench", "profile":
            self.assertIn("--input file=PICTURE", self.inlay(verb, self.path("w.onnx"), code=2))

    def test_sides_of_the_model(self):
        pre = "decode,resize:40x30,{},normalise:unit"
        for step, text in (("crop:15x21", "of width 21, but input 'x' of the model has width 20"),
                           ("letterbox:16x20", "of height 16, but input 'x' of the model has height 15"),
                           ("resize:15x10", "of width 10, but"), ("resize:20,crop:15x20", None), ("crop", None)):
            told = self.inlay("pipe", self.planes(15, 20), "--pre", pre.format(step), "-o", self.path("w.onnx"),
                              code=0 if text is None else 2)
            self.assertIn(text or "", told)

    def test_classes(self):
        info = helper.make_tensor_value_info
        m = self.model([helper.make_node("GlobalAveragePool", ["x"], ["p"]), helper.make_node("Flatten", ["p"], ["y"])],
                       [info("x", TensorProto.FLOAT, ["n", 3, 8, 8])], [info("y", TensorProto.FLOAT, ["n", 3])])
        with open(self.path("labels.txt"), "w", encoding="utf-8") as f:
            f.write("red\ngreen\nblue\n")
        Image.new("RGB", (20, 10), (10, 250, 100)).save(self.path("green.bmp"))
        self.inlay("pipe", m, "--pre", "decode,resize:cover=8x8,crop,normalise:unit", "--post",
                   f"softmax,topk:2:{self.path('labels.txt')}", "-o", self.path("w.onnx"))
        told = self.inlay("run", self.path("w.onnx"), "--input", "file=" + self.path("green.bmp"))
        self.assertIn('"green" "blue"', told)
        with open(self.path("four.txt"), "w", encoding="utf-8") as f:
            f.write("background\nred\ngreen\nblue")
        told = self.inlay("pipe", m, "--post", f"topk:2:{self.path('four.txt')}", "-o", self.path("w.onnx"), code=2)
        self.assertIn("3 classes, but", told)
        self.assertIn("has 4 labels", told)

    def test_text(self):
        info = helper.make_tensor_value_info
        names = ["input_ids", "attention_mask", "token_type_ids"]
        m = self.model([helper.make_node("Identity", [n], [n + "_out"]) for n in names],
                       [info(n, TensorProto.INT64, ["n", "t"]) for n in names],
                       [info(n + "_out", TensorProto.INT64, ["n", "t"]) for n in names])
        with open(self.path("vocab.txt"), "w", encoding="utf-8") as f:
            f.write("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n##s\n")
        self.inlay("pipe", m, "--pre", f"tokenize:{self.path('vocab.txt')}:max=6", "-o", self.path("w.onnx"))
        self.inlay("run", self.path("w.onnx"), "--input", "text=text:Hello worlds", "--outputs", self.path("out"))
        self.assertEqual(np.load(self.path("out/input_ids_out.npy")).tolist(), [[2, 4, 5, 6, 3]])
        self.assertEqual(np.load(self.path("out/attention_mask_out.npy")).tolist(), [[1] * 5])

    def test_boxes_lead_back(self):
        info = helper.make_tensor_value_info
        box = np.array([16, 16, 8, 8, 0.9], np.float32).reshape(1, 5, 1)  # the middle of a frame of 32
        m = self.model([helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Mul", ["s", "zero"], ["n"]),
                        helper.make_node("Add", ["box", "n"], ["y"])],
                       [info("x", TensorProto.FLOAT, [1, 3, 32, 32])], [info("y", TensorProto.FLOAT, [1, 5, 1])],
                       [helper.make_tensor("box", TensorProto.FLOAT, box.shape, box.ravel()),
                        helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])])
        self.inlay("pipe", m, "--pre", "decode,letterbox,normalise:unit", "--post", "boxes:v8", "-o", self.path("w.onnx"))
        self.inlay("run", self.path("w.onnx"), "--input", "file=" + self.path("in.png"), "--outputs", self.path("out"))
        # 40 x 30 in 32 x 32: scale 0.8, 4 above.
        np.testing.assert_allclose(np.load(self.path("out/boxes.npy")), [[15, 10, 25, 20, 0.9, 0]], 1e-4)

    def test_mistakes(self):
        m = self.planes(15, 20)
        for pre, words in (("decod", "did you mean 'decode'"), ("resize:0", "expected a size"), ("resize:8,decode", "first"),
                           ("decode,resize:8:foo=1", "unknown word 'foo=1'; `inlay pipe --steps`"), ("decode,normalise:x", "not half, unit"),
                           ("decode,normalise,resize", "it needs a picture"), ("tokenize:/none", "No such file"),
                           ("decode,topk", "it is a step of --post")):
            told = self.inlay("pipe", m, "--pre", pre, "-o", self.path("w.onnx"), code=2)
            self.assertIn(words, told)
            self.assertFalse(os.path.exists(self.path("w.onnx")))
        self.assertIn("--pre", self.inlay("pipe", m, "-o", self.path("w.onnx"), code=2))
        self.assertIn("has no input with that name", self.inlay("pipe", m, "--pre", "decode", "--input", "z", "-o",
                                                  self.path("w.onnx"), code=2))


if __name__ == "__main__":
    unittest.main()
