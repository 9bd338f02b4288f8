"""A table of texts through the operators on texts, each compared with the definition of its project."""
import re
import unittest

import numpy as np
from onnx import TensorProto, helper

import inlay

# Letters with and without case, combining marks, other scripts, emoji, white space, texts without letters.
TEXTS = [chr(c) for c in (*range(0x20, 0x7F), *range(0xA0, 0x100))]
TEXTS += """
    ÉCOLE École XÄ STRASSE Straße GRÜẞE Île ŒUVRE Çelik ŁÓDŹ Žluťoučký KŮŇ Ǆungla ǅungla ǆungla Ǉ ǈ ǉ Ǌ ǋ ǌ Ǳ ǲ ǳ
    İstanbul ISPARTA ısı DİYARBAKIR ƏLİ ΟΔΥΣΣΕΥΣ Ὀδυσσεύς ΆΈΉΊΌΎΏ ΪΫ ΞΕΝΟΣ ἈΡΧΗ ἁγνός Ὠδή ᾈ ᾳ ϴ ϐ Ϗ
    МОСКВА Ёлка ЇЖАК Ђорђе Ѫ Ѹ ԱՐԱՐԱՏ Հայաստան ᲗᲑᲘᲚᲘᲡᲘ თბილისი Ꭰ ꭰ Ⰰ ⰰ Ⲁ ⲁ 𐐀𐐨 𞤀𞤢 Ａｂｃ Ⓐⓐ Ⅷⅷ K Å Ω Ⱥ ⱥ ɐ Ɐ
    e\u0301 E\u0301COLE A\u030a n\u0303 \u0301 Z\u0335\u0321 日本語 東京TOWER カタカナ 한국어 ไทย हिन्दी שלום مَرْحَبًا
    😀 👩‍👩‍👧‍👦 🇩🇪 ✌🏽 ❤️ 𝔘𝔫𝔦 ﬁ ﬀ ŉ ſ ß µ ª º ½ ٣ ৩ x² H₂O 12.5 a,b;c ,, ; -- don't naïve-ÉTÉ A_b_C""".split()
TEXTS += ["", " ", "  a  b ", "\t\n x\r\v\f", "\u00a0É\u00a0", "\u2003é\u3000b", "\u200bz\u200b", "\ufeffB", "a\u0085b", "A" * 300 + "É",
          "É" * 300, "a b\u2028c", "ÀÉ ÎÕ Ü", " É,é;Ë ", "ΑΒΓ αβγ", "АБВ абв"]
KINDS = {"O": TensorProto.STRING, "l": TensorProto.INT64, "?": TensorProto.BOOL}


def run(op, inputs, outputs=1, domain="ai.onnx.contrib", **attributes):
    names, made = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, KINDS[x.dtype.char], [None] * x.ndim) for n, x in zip(names, inputs)],
        [helper.ValueInfoProto(name=n) for n in made])
    imports = [helper.make_opsetid("", 20)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    with inlay.Session(model.SerializeToString(), config=False) as session:
        results = session.run(dict(zip(names, inputs)))
        return results[made[0]] if outputs == 1 else [results[n] for n in made]


def array(*words):
    return np.array(words, dtype=object)


def lower(c):
    """ToLower of onnxruntime-extensions (base/string_utils.cc)."""
    code = ord(c)
    moves = (0x41 <= code <= 0x5A or (0xC0 <= code <= 0xDE and code != 0xD7) or 0x1F08 <= code <= 0x1F68
             or 0x410 <= code <= 0x42F or c in "ΙΚΛΜΝΟΠ")
    return chr(code + 32) if moves else c


def one_to_one(change):
    """A change of case that leaves characters alone that map to several."""
    return lambda text: "".join(change(c) if len(change(c)) == 1 else c for c in text)


def split_bytes(text, separators, skip_empty):
    """StringSplit of onnxruntime-extensions: each byte of the separators separates; without any, texts become bytes."""
    if text == "":
        return []
    if separators == "":
        return [text.encode()[i:i + 1].decode(errors="surrogateescape") for i in range(len(text.encode()))]
    parts = re.split("[" + re.escape(separators) + "]", text)
    return [part for part in parts if part or not skip_empty]


class Texts(unittest.TestCase):
    def each(self, op, definition, domain="ai.onnx.contrib", words=TEXTS, **attributes):
        got = run(op, [array(*words)], domain=domain, **attributes)
        wrong = [(text, y, definition(text)) for text, y in zip(words, got.tolist()) if y != definition(text)]
        self.assertEqual(wrong, [], (op, attributes))

    def test_functions(self):
        self.assertGreaterEqual(len(TEXTS), 200)
        self.each("StringLower", lambda text: "".join(map(lower, text)))
        self.each("StringUpper", lambda text: re.sub("[a-z]", lambda m: m[0].upper(), text))
        self.each("StringStrip", lambda text: text.strip(" \t\n\r\f\v") or text)
        self.each("StringLength", len)

    def test_case(self):
        """StringNormalizer of ONNX; its reference implementation also maps one character to several."""
        words = [text for text in TEXTS if text]
        for action, change in (("LOWER", str.lower), ("UPPER", str.upper)):
            self.each("StringNormalizer", one_to_one(change), "", words, case_change_action=action)
        every = [chr(c) for c in range(1, 0x20000) if not 0xD800 <= c < 0xE000]
        every = [c for i, c in enumerate(every) if i % 37 == 0 or c.lower() != c or c.upper() != c]
        for action, change in (("LOWER", str.lower), ("UPPER", str.upper)):
            self.each("StringNormalizer", one_to_one(change), "", every, case_change_action=action)
        for stop in ("ǅungla", "ÉCOLE", "ẞ", "ΟΔΥΣΣΕΥΣ"):
            fold = one_to_one(str.lower)
            got = run("StringNormalizer", [array(*words)], domain="", is_case_sensitive=0, stopwords=[stop])
            self.assertEqual(got.tolist(), [text for text in words if fold(text) != fold(stop)])

    def test_pairs(self):
        left, right = array(*TEXTS), array(*TEXTS[1:], TEXTS[0])
        for domain in ("ai.onnx.contrib", ""):
            got = run("StringConcat", [left, right], domain=domain)
            self.assertEqual(got.tolist(), [a + b for a, b in zip(left, right)])
        self.assertEqual(run("StringEqual", [left, right]).tolist(), [a == b for a, b in zip(left, right)])
        got = run("StringJoin", [left, array("é"), np.array([0], np.int64)])
        self.assertEqual(got.tolist(), ["é".join(TEXTS)])
        words = sorted({text for text in TEXTS if text.strip() == text and len(text.split()) == 1 and text.isprintable()})
        table = "\n".join(f"{text}\t<{i}>" for i, text in enumerate(words))
        self.assertEqual(run("StringMapping", [array(*words)], map=table).tolist(), [f"<{i}>" for i in range(len(words))])

    def test_split(self):
        for separators, skip in ((" ", True), (" ", False), (",;", False), (" \t", True), ("", True), ("", False)):
            got = run("StringSplit", [array(*TEXTS), array(separators), np.array([skip])], 3)
            parts = [split_bytes(text, separators, skip) for text in TEXTS]
            self.assertEqual(got[1].tolist(), [part for row in parts for part in row])
            self.assertEqual(got[0].tolist(), [[i, j] for i, row in enumerate(parts) for j in range(len(row))])
            self.assertEqual(got[2].tolist(), [len(TEXTS), max(map(len, parts))])
        for delimiter in (None, " ", "é", ","):
            got = run("StringSplit", [array(*TEXTS)], 2, "", **({} if delimiter is None else {"delimiter": delimiter}))
            parts = [re.split("[ \t-\r]+", text.strip(" \t\n\v\f\r")) if delimiter is None else text.split(delimiter)
                     for text in TEXTS]
            parts = [[] if delimiter is None and row == [""] else row for row in parts]
            self.assertEqual(got[1].tolist(), [len(row) for row in parts])
            self.assertEqual([row[:n] for row, n in zip(got[0].tolist(), got[1])], parts)

    def test_expressions(self):
        """RE2 matches characters; its classes are those of ASCII."""
        for pattern in (".", r"\w+", r"\W", r"\s+", r"\d", "[^a-z]", "[à-ÿ]", "É|é", "(?i)é", "(?i)ǆ", "^.", ".$", r"\bé"):
            want = [re.sub(pattern, lambda m: f"<{m[0]}>", text, flags=re.ASCII if "(?i)" not in pattern else 0)
                    for text in TEXTS if "\n" not in text]
            got = run("StringRegexReplace", [array(*(t for t in TEXTS if "\n" not in t)), array(pattern), array(r"<\0>")])
            wrong = [(w, g) for w, g in zip(want, got.tolist()) if w != g]
            self.assertEqual(wrong, [], pattern)


if __name__ == "__main__":
    unittest.main()
