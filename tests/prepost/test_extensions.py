"""Operators of onnxruntime-extensions, compared with Python, numpy and published results."""
import json
import os
import pathlib
import random
import re
import subprocess
import unittest

import numpy as np
from onnx import TensorProto, helper

import inlay

EXT = "com.microsoft.extensions"
RNG = np.random.default_rng(11)
KINDS = {"O": TensorProto.STRING, "l": TensorProto.INT64, "f": TensorProto.FLOAT, "B": TensorProto.UINT8,
         "?": TensorProto.BOOL}


def run(op, inputs, outputs=1, domain="ai.onnx.contrib", **attrs):
    names, made = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, KINDS[x.dtype.char], [None] * x.ndim) for n, x in zip(names, inputs)],
        [helper.ValueInfoProto(name=n) for n in made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)], ir_version=8)
    with inlay.Session(model.SerializeToString(), config=False) as session:
        results = session.run(dict(zip(names, inputs)))
        return results[made[0]] if outputs == 1 else [results[n] for n in made]


def texts(*words):
    return np.array(words, dtype=object)


def ints(*values):
    return np.array(values, dtype=np.int64)


class Expressions(unittest.TestCase):
    def test_documented(self):
        source = np.array([["def myfunc():"], ["def dummy():"]], dtype=object)
        pattern = texts(r"def\s+([a-zA-Z_][a-zA-Z_0-9]*)\s*\(\s*\):")
        for op, rewrite in (("StringRegexReplace", r"static PyObject* py_\1(void) {"),
                            ("StringECMARegexReplace", "static PyObject* py_$1(void) {")):
            got = run(op, [source, pattern, texts(rewrite)])
            self.assertEqual(got.tolist(), [["static PyObject* py_myfunc(void) {"], ["static PyObject* py_dummy(void) {"]])
        for op in ("StringRegexSplitWithOffsets", "StringECMARegexSplitWithOffsets"):
            got = run(op, [texts("hello there"), texts(r"(\s)"), texts(r"\s")], 4)
            self.assertEqual([x.tolist() for x in got], [["hello", " ", "there"], [0, 5, 6], [5, 6, 11], [0, 3]])

    def test_re2(self):
        """The table of RE2's own tests of Replace and GlobalReplace."""
        for pattern, rewrite, text, once, each in (
                (r"(qu|[b-df-hj-np-tv-z]*)([a-z]+)", r"\2\1ay", "the quick brown fox jumps over the lazy dogs.",
                 "ethay quick brown fox jumps over the lazy dogs.",
                 "ethay ickquay ownbray oxfay umpsjay overay ethay azylay ogsday."),
                (r"\w+", r"\0-NOSPAM", "abcd.efghi@google.com", "abcd-NOSPAM.efghi@google.com",
                 "abcd-NOSPAM.efghi-NOSPAM@google-NOSPAM.com-NOSPAM"),
                ("^", "(START)", "foo", "(START)foo", "(START)foo"), ("^", "(START)", "", "(START)", "(START)"),
                ("$", "(END)", "", "(END)", "(END)"),
                ("b", "bb", "ababababab", "abbabababab", "abbabbabbabbabb"),
                ("b+", "bb", "bbbbbb", "bb", "bb"), ("b*", "bb", "bbbbbb", "bb", "bb"),
                ("b*", "bb", "aaaaa", "bbaaaaa", "bbabbabbabbabbabb"),
                ("a.*a", r"(\0)", "aba\naba", "(aba)\naba", "(aba)\n(aba)")):
            for want, all_of in ((once, 0), (each, 1)):
                got = run("StringRegexReplace", [texts(text), texts(pattern), texts(rewrite)], global_replace=all_of)
                self.assertEqual(got[0], want, (pattern, text))
        self.assertEqual(run("StringRegexReplace", [texts("日本é"), texts("."), texts("<\\0>")])[0], "<日><本><é>")
        self.assertEqual(run("StringRegexReplace", [texts("x\n"), texts("x$"), texts("-")])[0], "x\n")

    def test_ecma(self):
        """Python finds the same matches; the syntax of its replacements differs."""
        words = random.Random(5)
        for pattern in ("a*", "(a|b)+", "ab?", "[^a]*", "(?:)", "b|", "|b", "(a)(b)?"):
            lines = ["".join(words.choice("aabbc") for _ in range(words.randrange(9))) for _ in range(40)]
            for rewrite, theirs in (("-", "-"), ("[$&]", r"[\g<0>]"), ("$$1", "$1")):
                got = run("StringECMARegexReplace", [texts(*lines), texts(pattern), texts(rewrite)])
                self.assertEqual(list(got), [re.sub(pattern, theirs, x) for x in lines], (pattern, rewrite))
        self.assertEqual(run("StringECMARegexReplace", [texts("abc"), texts("(b)"), texts("<$`|$'|$1$2>")])[0], "a<a|c|b$2>c"
                         .replace("$2", ""))
        self.assertEqual(run("StringECMARegexReplace", [texts("aB"), texts("b"), texts("-")], ignore_case=1)[0], "a-")

    def test_split(self):
        words = random.Random(6)
        for op in ("StringRegexSplitWithOffsets", "StringECMARegexSplitWithOffsets"):
            lines = ["".join(words.choice("ab,; é") for _ in range(words.randrange(12))) for _ in range(30)]
            got = run(op, [texts(*lines), texts("([,; ])"), texts("[;]")], 4)
            pieces, begins, ends, rows = [], [], [], [0]
            for line in lines:
                at = 0
                for part in re.split("([,; ])", line):
                    if part and part not in ", ":
                        pieces.append(part)
                        begins.append(at)
                        ends.append(at + len(part.encode()))
                    at += len(part.encode())
                rows.append(len(pieces))
            self.assertEqual([x.tolist() for x in got], [pieces, begins, ends, rows])

    def test_refused(self):
        for pattern, said in (("(", "missing closing"), ("", "must not be empty")):
            with self.assertRaisesRegex(Exception, said):
                run("StringRegexReplace", [texts("a"), texts(pattern), texts("b")])
        with self.assertRaisesRegex(Exception, "limit"):
            run("StringRegexReplace", [texts("a" * 40 + "!"), texts("^(a+)+$"), texts("b")])


class Texts(unittest.TestCase):
    def test_hash(self):
        """Published values: the documentation of BigQuery and Redshift, the tests of Guava."""
        known = {"1footrue": -1541654101129638711, "2applefalse": 2794438866806483259, "3true": -4880158226897771312,
                 "alphabet": -2427165924636348523, "Amazon Redshift": 8085098817162212970, "test": 8581389452482819506,
                 "test" * 8: -4196240717365766262, "test" * 64: 3500507768004279527,
                 "dXB@tDQ-v5<H]rq2Pcc*s>nC-[Mdy": 8365906589669344754,
                 "F7479877-4690-4A44-AFC9-8FE987EA512F:some_other_id": 6862335115798125349}
        for buckets in (2, 1000003, (1 << 62) + 57):
            got = run("StringToHashBucketFast", [texts(*known), ints(buckets)])
            self.assertEqual(got.tolist(), [h % (1 << 64) % buckets for h in known.values()])
        with self.assertRaisesRegex(Exception, "1 or more"):
            run("StringToHashBucketFast", [texts("a"), ints(0)])

    def test_trie(self):
        words = random.Random(7)
        tokens = sorted({"".join(words.choice("abé\n'") for _ in range(words.randrange(1, 5))) for _ in range(90)} |
                        set("abé\n'"))
        vocab = "\n".join(f"{i + 1} {token!r} {len(token.encode())}" for i, token in enumerate(tokens))
        lines = ["".join(words.choice("abé\n'") for _ in range(words.randrange(30))) for _ in range(20)]
        want = []
        for line in lines:
            ids = []
            while line:
                best = max((t for t in tokens if line.startswith(t)), key=lambda t: len(t.encode()))
                ids.append(tokens.index(best) + 1)
                line = line[len(best):]
            want.append(ids)
        got = run("TrieTokenizer", [texts(*lines)], vocab=vocab)
        self.assertEqual([[i for i in row if i] for row in got.tolist()], want)
        self.assertEqual(list(run("TrieDetokenizer", [got], vocab=vocab)), lines)
        with self.assertRaisesRegex(Exception, "no token for the byte 0x7a"):
            run("TrieTokenizer", [texts("az")], vocab="1 'a' 1")
        with self.assertRaisesRegex(Exception, "line 2"):
            run("TrieTokenizer", [texts("a")], vocab="1 'a' 1\n2 'b' 2")
        with self.assertRaisesRegex(Exception, "not valid UTF-8"):
            run("TrieDetokenizer", [ints(1)], vocab=r"1 b'\xff' 1")

    def test_wordpiece(self):
        """The example of onnxruntime-extensions' documentation, after a split into words."""
        vocab = '{"want": 10, "##want": 11, "##ed": 12, "wa": 13, "un": 14, "runn": 15, "##ing": 16}'
        how = dict(vocab=vocab, suffix_indicator="##", unknown_token="[UNK]")
        lines = texts("unwanted running", "unwantedX running")
        words, _, _, rows = run("StringRegexSplitWithOffsets", [lines, texts(r"(\s)"), texts("")], 4)
        tokens, starts, begins, limits = run("WordpieceTokenizer", [words, rows], 4, **how)
        want = ["un", "##want", "##ed", "runn", "##ing", "un", "##want", "##ed", "[UNK]", "runn", "##ing"]
        self.assertEqual(list(tokens), want)
        self.assertEqual(starts.tolist()[:2] + [starts.tolist()[-1]], [0, 5, 11])
        alone = run("WordpieceTokenizer", [lines, ints()], 4, **how)
        self.assertEqual([list(alone[0])] + [x.tolist() for x in alone[1:]], [want, [0, 5, 11], [0, 5], [5, 11]])

    def test_bpe_decoder(self):
        keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
        spell = dict(zip(keep, keep))
        spell.update({b: 256 + i for i, b in enumerate(b for b in range(256) if b not in spell)})
        vocab = "\n".join(chr(spell[b]) for b in range(256))
        how = dict(id_vocab=vocab, byte_decoder="\n".join(f"{c}\t{b}" for b, c in spell.items()),
                   added_tokens="256\t<|end|>\n257\t<|x|>\n", all_special_ids="256\n")
        lines = ["naïve 日本\n", "", " a"]
        ids = [list(x.encode()) for x in lines]
        for row, line in zip(ids, lines):
            self.assertEqual(list(run("BpeDecoder", [ints(*row, 256)], skip_special_tokens=1, **how)), [line])
            self.assertEqual(list(run("BpeDecoder", [ints(*row, 257, 999)], unk_token="?", **how)), [line + "<|x|>?"])
        table = np.array([list(b"ab"), list(b"cd")], np.int64)
        self.assertEqual(list(run("BpeDecoder", [table], **how)), ["ab", "cd"])
        self.assertEqual(list(run("BpeDecoder", [ints(97, 256, 98)], whitespace_token=1, **how)), ["a <|end|> b"])

    def test_bert_decoder(self):
        words = ["[CLS]", "[SEP]", "i", "client", "-", "side", "(", "b", ")", ",", "##ing", "go", "\u3002", "[UNK]"]
        ids = ints(*[words.index(w) for w in ("[CLS]", "go", "##ing", ",", "client", "-", "side", "(", "b", ")", "i", "\u3002",
                                              "[SEP]")])
        how = dict(vocab_file="\n".join(words), skip_special_tokens=1)
        self.assertEqual(list(run("BertTokenizerDecoder", [ids], **how)), ["going, client-side (b) i\u3002"])
        plain = run("BertTokenizerDecoder", [ids], clean_up_tokenization_spaces=0, **how)
        self.assertEqual(list(plain), ["going , client - side ( b ) i \u3002"])
        ranges = np.array([[1, 3], [4, 7], [0, 0]], np.int64)
        self.assertEqual(list(run("BertTokenizerDecoder", [ids, ranges], use_indices=1, **how)), ["going", "client-side", ""])
        with self.assertRaisesRegex(Exception, "not a range"):
            run("BertTokenizerDecoder", [ids, np.array([[3, 99]], np.int64)], use_indices=1, **how)

    def test_clip(self):
        """Compared with byte-level BPE in a few lines of Python."""
        merges = [("l", "o"), ("lo", "w</w>"), ("lo", "w"), ("e", "r</w>"), ("low", "er</w>")]
        symbols = list("loweris,12") + [c + "</w>" for c in "loweris,12"] + ["".join(m) for m in merges]
        vocab = {s: i for i, s in enumerate(dict.fromkeys(symbols + ["<|startoftext|>", "<|endoftext|>"]))}

        def encode(text):
            ids = [vocab["<|startoftext|>"]]
            for word in re.findall(r"'s|'t|'re|'ve|'m|'ll|'d|[^\W\d_]+|\d|[^\s\w]+", text.lower()):
                parts = [*word[:-1], word[-1] + "</w>"]
                while True:
                    pairs = [(merges.index(p), i) for i, p in enumerate(zip(parts, parts[1:])) if p in merges]
                    if not pairs:
                        break
                    at = min(pairs)[1]
                    parts[at:at + 2] = ["".join(parts[at:at + 2])]
                ids += [vocab[p] for p in parts]
            return ids + [vocab["<|endoftext|>"]]

        lines = ["Lower LOW, slow", "2 wires  12", "low"]
        how = dict(vocab=str(vocab).replace("'", '"'), merges="#version: 0.2\n" + "\n".join(" ".join(m) for m in merges))
        ids, mask = run("CLIPTokenizer", [texts(*lines)], 2, **how)
        for line, row, there in zip(lines, ids.tolist(), mask.tolist()):
            self.assertEqual(row[:sum(there)], encode(line))
        cut = run("CLIPTokenizer", [texts(lines[0])], padding_length=4, **how)
        self.assertEqual(cut.tolist(), [encode(lines[0])[:3] + [vocab["<|endoftext|>"]]])


class Documented(unittest.TestCase):
    """The page prepost.md: its tables of operators, and each difference that no other test has."""

    def test_tables(self):
        page = pathlib.Path(__file__).parents[2].joinpath("sdk/docs/pages/prepost.md").read_text()
        table, absent = (page.split(head)[1].split("\n\n")[0] for head in ("| operator | domain | does |", "| operator | why |"))
        rows = [row.split("|") for row in table.splitlines() if row.startswith("| `")]
        named = {name for row in rows if "E" in row[2] for name in re.findall(r"`(\w+)`", row[1])}
        listed = json.loads(subprocess.run([os.environ["INLAY_CLI"], "providers", "--operators", "--json"], check=True,
                                           capture_output=True).stdout)["operators"]
        here = {row["operator"] for row in listed if row["domain"] in (EXT, "ai.onnx.contrib")}
        self.assertEqual(named, here)
        self.assertGreater(len(named), 35)
        missing = {name for row in absent.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])}
        self.assertGreater(len(missing), 8)
        self.assertEqual(missing & here, set())

    def test_expressions(self):
        for pattern, line, want in (("a(?=c)", "ab ac", "ab xc"), ("(?<!b)a", "ba ca", "ba cx"), (r"(a)\1", "aa ab", "x ab")):
            self.assertEqual(run("StringRegexReplace", [texts(line), texts(pattern), texts("x")])[0], want)
        self.assertEqual(run("StringECMARegexReplace", [texts("é日"), texts("."), texts("x")])[0], "x" * 5)

    def test_tokenizers(self):
        letters = [*"aelndofxt<|>", *(c + "</w>" for c in "aelndofxt<|>"), "al", "<|startoftext|>", "<|endoftext|>"]
        vocab = json.dumps({token: i for i, token in enumerate(letters)})
        ids = run("CLIPTokenizer", [texts("a <|endoftext|> a")], vocab=vocab, merges="#version: 0.2\na l\n")[0].tolist()
        self.assertEqual([letters[i] for i in ids[1:-1]], ["a</w>", "<", "|</w>", *"endoftex", "t</w>", "|", "></w>", "a</w>"])
        model = dict(vocab=vocab, merges="#version: 0.2\na l\n")
        pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\né\nł\n##b\n"
        for op, how, outputs, refused in (
                ("CLIPTokenizer", model, 3, "gives at most 2"), ("CLIPTokenizer", {**model, "added_token": "x"}, 1, "added_token"),
                ("GPT2Tokenizer", {**model, "model_name": "CodeGen"}, 1, "model_name"),
                ("RobertaTokenizer", {**model, "padding": 3}, 1, "no attribute 'padding'"),
                *((op, {"vocab_file": pieces, name: value}, 1, name) for op in ("BertTokenizer", "HfBertTokenizer")
                  for name, value in (("max_length", 4), ("suffix_indicator", "@@"), ("do_basic_tokenize", 0), ("max", 4)))):
            with self.assertRaisesRegex(Exception, refused):
                run(op, [texts("a", "a")], outputs, **how)
        plain = [x.tolist() for x in run("BertTokenizer", [texts("AB É", "Ł")], 3, vocab_file=pieces)]
        self.assertEqual(plain, [[2, 4, 7, 5, 3, 6, 3], [0] * 5 + [1] * 2, [1] * 7])
        pair = [x.tolist() for x in run("HfBertTokenizer", [texts("AB É", "Ł")], 3, vocab_file=pieces)]
        self.assertEqual(pair, [[plain[0]], [plain[2]], [plain[1]]])
        self.assertEqual(run("BertTokenizer", [texts("à")], vocab_file=pieces, strip_accents=1).tolist(), [2, 4, 3])
        with self.assertRaisesRegex(Exception, "must be two texts"):
            run("HfBertTokenizer", [texts("a")], vocab_file=pieces)


class Numbers(unittest.TestCase):
    def test_ragged(self):
        lengths = [2, 0, 3, 1]
        starts = ints(*np.cumsum([0] + lengths))
        values = ints(*range(10, 16))
        want = [[10, 11, -7], [-7] * 3, [12, 13, 14], [15, -7, -7]]
        self.assertEqual(run("RaggedTensorToDense", [starts, values, ints(-7), starts]).tolist(), want)
        places, shape = run("RaggedTensorToSparse", [starts], 2)
        self.assertEqual(places.tolist(), [[i, k] for i, n in enumerate(lengths) for k in range(n)])
        self.assertEqual(shape.tolist(), [4, 3])
        words = run("StringRaggedTensorToDense", [starts, texts(*"abcdef"), starts, texts("")])
        self.assertEqual(words.tolist(), [["a", "b", ""], ["", "", ""], ["c", "d", "e"], ["f", "", ""]])
        for bad in ((0, 3, 2, 6), (0, 2, 9), (-1, 2)):
            with self.assertRaisesRegex(Exception, "starts at"):
                run("RaggedTensorToDense", [starts, values, ints(-7), ints(*bad)])

    def test_segments(self):
        for _ in range(20):
            marks = RNG.integers(0, 3, RNG.integers(1, 30))
            position, value = run("SegmentExtraction", [marks], 2)
            edges = [0, *(np.flatnonzero(np.diff(marks)) + 1), len(marks)]
            spans = [(a, b) for a, b in zip(edges, edges[1:]) if marks[a]]
            self.assertEqual([tuple(p) for p in position], spans)
            self.assertEqual(value.tolist(), [marks[a] for a, _ in spans])

    def test_floats(self):
        x = RNG.normal(size=(3, 4, 5)).astype(np.float32)
        negative, positive = run("NegPos", [x], 2)
        np.testing.assert_array_equal(negative, np.minimum(x, 0))
        np.testing.assert_array_equal(positive, np.maximum(x, 0))
        for n in (1, 2, 7, 60):
            m = RNG.normal(size=(n, n)).astype(np.float32)
            np.testing.assert_allclose(run("Inverse", [m]), np.linalg.inv(m.astype(np.float64)), rtol=2e-6, atol=1e-6)
        with self.assertRaisesRegex(Exception, "is singular"):
            run("Inverse", [np.ones((3, 3), np.float32)])

    def test_transforms(self):
        for n, hop, samples in ((16, 4, 100), (400, 160, 1600), (15, 7, 40), (8, 8, 8)):
            sound = RNG.normal(size=(1, samples)).astype(np.float32)
            window = np.hanning(n + 1)[:-1].astype(np.float32)
            padded = np.pad(sound[0].astype(np.float64), n // 2)
            frames = np.stack([padded[t:t + n] * window for t in range(0, len(padded) - n + 1, hop)])
            want = np.fft.fft(frames, axis=1).T
            inputs = [sound, ints(n), ints(hop), window, ints(n)]
            got = run("STFT", inputs)
            np.testing.assert_allclose(got[0, ..., 0] + 1j * got[0, ..., 1], want, rtol=1e-6, atol=1e-5)
            squares = run("StftNorm", inputs, onesided=1)
            np.testing.assert_allclose(squares[0], np.abs(want[:n // 2 + 1]) ** 2, rtol=1e-5, atol=1e-5)
        with self.assertRaisesRegex(Exception, "equal to n_fft"):
            run("StftNorm", [sound, ints(8), ints(4), window[:7], ints(8)])

    def test_frames(self):
        colours = [(0, 0, 255), (0, 255, 0), (255, 0, 0), (255, 255, 0)]
        picture = RNG.integers(0, 255, (40, 60, 3)).astype(np.uint8)
        boxes = np.array([[5, 6, 30, 25, .5, 1], [20, 10, 55, 35, .9, 4], [-5, -5, 80, 80, .1, 1], [50, 30, 58, 38, .7, 2]],
                         np.float32)
        ranks = [2, 0, 2, 1]  # of classes 1, 4, 1, 2 by their best score
        for mode in ("XYXY", "XYWH", "CENTER_XYWH"):
            given = boxes.copy()
            if mode != "XYXY":
                given[:, 2:4] -= given[:, :2]
            if mode == "CENTER_XYWH":
                given[:, :2] += given[:, 2:4] / 2
            for thick in (1, 4, 5):
                want = picture.copy()
                for i in sorted(range(4), key=lambda i: (-ranks[i], boxes[i, 4])):
                    x0, y0, x1, y1 = (int(v) for v in boxes[i, :4])
                    x0, y0 = max(x0 - thick // 2, 0), max(y0 - thick // 2, 0)
                    x1, y1 = min(x1 + thick - thick // 2, 60), min(y1 + thick - thick // 2, 40)
                    for part in (np.s_[y0:y0 + thick, x0:x1], np.s_[y1 - thick:y1, x0:x1], np.s_[y0:y1, x0:x0 + thick],
                                 np.s_[y0:y1, x1 - thick:x1]):
                        want[part] = colours[ranks[i]]
                got = run("DrawBoundingBoxes", [picture, given], domain=EXT, thickness=thick, mode=mode)
                np.testing.assert_array_equal(got, want)


if __name__ == "__main__":
    unittest.main()
