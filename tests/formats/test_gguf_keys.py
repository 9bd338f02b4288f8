#!/usr/bin/env python3
"""test_gguf_keys.py - each key of host/formats/gguf_keys.def, for architectures that read it and for others: absent, at
another value, and of each type of GGUF. The greedy tokens are those of llama.cpp, which gguf_keys.json has; where a key has
a type or a value that is not supported, the refusal names it.

test_gguf_keys.py --make ROOT adds the cases that gguf_keys.json lacks, by hand: ROOT is as for test_gguf.py."""
import functools
import json
import os
import re
import sys
import unittest

import numpy as np

import test_gguf as files
from test_vision import vision

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = os.path.join(HERE, "gguf_keys.json")
TABLE = os.path.join(HERE, "..", "..", "host", "formats", "gguf_keys.def")
# The keys that are tried with an architecture: all, or those that it or one like it reads.
ARCHS = {"llama": "", "gemma3": "", "qwen2moe": "expert|scaling.finetuned", "qwen3moe": "expert|logit_scale",
         "mixtral": "expert", "gemma2": "window|cap|freq_base|attention.scale", "gemma": "window|cap|scale$",
         "qwen2": "window", "phi3": "window|dimension_count", "granite": "scale$|finetuned|expert|cap",
         "granitemoe": "scale$|finetuned|expert", "qwen35": "ssm|interval|recurrent|nextn",
         "qwen3next": "ssm|interval|recurrent|nextn|expert_(count|used|feed|shared)|dimension_count|attention.*length$",
         "qwen35moe": "ssm|interval|recurrent|nextn|expert_(count|used|feed|shared)|dimension_count|attention.*length$",
         "mistral3": "yarn|temperature|scaling|expert_count|dimension_count", "lfm2": "shortconv|head_count|window",
         "deepseek2": "mla|lora|dense|expert|yarn|temperature|scaling|attention.*length$|head_count|dimension",
         "lfm2moe": "expert|dense|shortconv|head_count_kv", "granitehybrid": "ssm|scale$|finetuned|expert_(used|shared)|head_count_kv",
         "minicpm": "scale$|finetuned|dimension_count", "llama4": "expert|window|interleave|freq_base|dimension_count",
         "cohere2": "layer_norm|logit_scale|window|freq_base|dimension_count", "command-r": "layer_norm|logit_scale",
         "gemma3n": "sliding|freq_base", "qwen2vl": "sections",
         "falcon-h1": "ssm|head_count|dimension_count|attention.*length$|feed_forward"}
# Another value of each key of the architecture. It changes the tokens of those that read it, or makes the file invalid.
VALUES = {
    ".context_length": 64, ".embedding_length": 32, ".block_count": 1, ".feed_forward_length": 32,
    ".attention.head_count": 2, ".attention.head_count_kv": 4, ".attention.key_length": 8, ".attention.value_length": 8,
    ".attention.layer_norm_rms_epsilon": 0.5, ".attention.layer_norm_epsilon": 0.5, ".attention.causal": False, ".attention.sliding_window": 3,
    ".attention.sliding_window_pattern": 3, ".attention.scale": 0.5, ".attn_logit_softcapping": 1.0,
    ".final_logit_softcapping": 0.125, ".logit_scale": 3.0, ".residual_scale": 0.25, ".embedding_scale": 5.0,
    ".expert_count": 3, ".expert_used_count": 1, ".expert_group_count": 2, ".expert_group_used_count": 1, ".expert_feed_forward_length": 32,
    ".expert_shared_feed_forward_length": 32, ".nextn_predict_layers": 1, ".rope.dimension_count": 8,
    ".rope.freq_base": 100.0, ".rope.freq_base_swa": 50.0, ".rope.scale_linear": 3.0, ".rope.scaling.factor": 3.0,
    ".rope.scaling.type": "none", ".rope.scaling.original_context_length": 16, ".rope.scaling.attn_factor": 2.0,
    ".rope.scaling.finetuned": False, ".rope.scaling.yarn_beta_fast": 2.0, ".rope.scaling.yarn_beta_slow": 0.25,
    ".rope.scaling.yarn_log_multiplier": 20.0, ".attention.temperature_scale": 2.0, ".attention.temperature_length": 4, ".full_attention_interval": 3,
    ".expert_shared_count": 2, ".expert_weights_scale": 0.25, ".expert_weights_norm": False, ".expert_gating_func": 1,
    ".leading_dense_block_count": 0, ".attention.kv_lora_rank": 16, ".attention.q_lora_rank": 16,
    ".attention.key_length_mla": 24, ".attention.value_length_mla": 8, ".attention.recurrent_layers": [True, True, False, False], ".shortconv.l_cache": 4, ".ssm.conv_kernel": 3, ".ssm.inner_size": 32,
    ".interleave_moe_layer_step": 1, ".rope.dimension_sections": [2, 2, 2, 0],
    ".ssm.state_size": 8, ".ssm.time_step_rank": 2, ".ssm.group_count": 1}
# Values that llama.cpp has and that are refused.
REFUSED = {".attention.causal", ".rope.dimension_sections"}
# Several keys together.
TOGETHER = (
    [("llama", more) for more in (
        {".rope.scaling.type": "linear", ".rope.scaling.factor": 4.0}, {".rope.scaling.type": "none", ".rope.scaling.factor": 4.0},
        {".rope.scaling.factor": 4.0, ".rope.scale_linear": 2.0}, {".rope.scaling.factor": 0.0},
        {".rope.scaling.type": "su", ".rope.scaling.factor": 4.0}, {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 32},
        {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 32, ".rope.scaling.attn_factor": 0.5},
        {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 32, ".rope.scaling.yarn_beta_fast": 2.0},
        {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0}, {".rope.scaling.type": "yarn", ".rope.scaling.factor": 0.5},
        {".rope.scaling.type": "yarn"}, {".rope.scaling.type": "longrope", ".rope.scaling.factor": 4.0})] +
    [("phi3", {".rope.dimension_count": 8, ".rope.scaling.factor": 2.0}), ("gemma3", {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 32}), ("gemma2", {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 32}),
     ("qwen2", {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 32}), ("minicpm", {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 32})] +
    [("gemma3", more) for more in (
        {".attention.sliding_window_pattern": [True, False, True, False, True, False, True]},
        {".attention.sliding_window_pattern": [1, 0, 0, 0, 0, 0, 1]}, {".attention.sliding_window_pattern": 0},
        {".attention.sliding_window": 0}, {".attention.sliding_window": None, ".rope.freq_base": 100.0},
        {".rope.scaling.factor": 4.0})] +
    [("gemma2", more) for more in (
        {".attention.sliding_window_pattern": [False, True]}, {".rope.scaling.factor": 4.0, ".rope.freq_base_swa": 50.0})] +
    [("granite", {".residual_scale": 0.0}), ("granite", {".embedding_scale": 0.0}), ("granite", {".attention.scale": 0.0}),
     ("llama", {".attention.head_count_kv": [2, 2], ".feed_forward_length": [128, 128], ".attention.head_count": [4, 4]}),
     ("mixtral", {".expert_used_count": [1, 1]}), ("mixtral", {".expert_group_count": 3, ".expert_group_used_count": 1}),
     ("qwen2moe", {".expert_group_count": 3, ".expert_group_used_count": 2}), ("deepseek2", {".expert_group_count": 2, ".expert_group_used_count": 1}),
     ("deepseek2", {".expert_group_count": 3, ".expert_group_used_count": 2, ".expert_weights_norm": False}), ("deepseek2", {".expert_gating_func": 1, ".expert_weights_norm": False}),
     ("deepseek2", {".attention.temperature_scale": 2.0, ".attention.temperature_length": 4}), ("deepseek2", {".rope.scaling.type": "linear"}),
     ("deepseek2", {".rope.scaling.yarn_log_multiplier": None, ".rope.scaling.attn_factor": 0.5}), ("deepseek2", {".rope.scaling.factor": 0.5}),
     ("deepseek2", {".rope.scaling.type": None}), ("lfm2", {".attention.head_count_kv": 2}), ("lfm2", {".attention.head_count_kv": [0, 2, 1, 0]}),
     ("lfm2", {".attention.sliding_window": 5}), ("deepseek2-lite", {}), ("deepseek2-lite", {".attention.q_lora_rank": 5}),
     ("deepseek2-lite", {".expert_weights_norm": True}), ("deepseek2-lite", {".attention.key_length_mla": 24}), ("llama", {".attention.head_count_kv": [2, 1]})])
CASES = [(arch, {key: value}) for arch in ARCHS for key in VALUES if re.search(ARCHS[arch], key)
         for value in (None, VALUES[key])] + [(arch, {}) for arch in ARCHS] + TOGETHER


def table():
    """The rows of the table: name, kind, readers, default."""
    with open(TABLE, encoding="utf-8") as f:
        return re.findall(r'^GGUF_KEY\(\w+, "([^"]+)", (\w+), (\w+), (\w+)\)$', f.read(), re.M)


def case_name(arch, more):
    return arch + " " + json.dumps(more)


@functools.cache
def model_of(arch):
    return files.write_model(arch, "F32")


def case_file(arch, more):
    model, count = model_of(arch)
    return model.bytes(more.items()), count


class Keys(unittest.TestCase):
    open = files.Gguf.open

    def tokens(self, arch, data, count):
        with self.open(data) as session:
            return files.greedy(session, files.prompts(count)[0], 4)

    def test_table(self):
        """Each key of an architecture has another value here."""
        names = [row[0] for row in table() if row[2] not in ("ENCODERS", "VISION", "DENSE", "STACK") and row[0] != ".pooling_type"]  # of embeddings, of images (test_vision.py)
        self.assertEqual([name for name in names if name[0] == "."], [key for key in names if key in VALUES])
        self.assertEqual(set(VALUES) - set(names), set())
        self.assertEqual(len(names), len(set(names)))

    def test_values(self):
        import inlay
        with open(TOKENS, encoding="utf-8") as f:
            wanted = json.load(f)
        changed = set()
        for arch, more in CASES:
            want, name = wanted[case_name(arch, more)], case_name(arch, more)
            data, count = case_file(arch, more)
            with self.subTest(name):
                try:
                    got = self.tokens(arch, data, count)
                except inlay.InlayError as error:
                    got = None
                    if want is not None:
                        self.assertLessEqual(set(more), REFUSED, f"{name}: {error}")
                        self.assertIn(list(more)[0], str(error))
                if got is not None:
                    self.assertEqual(got, want)
                if want != wanted[case_name(arch, {})]:
                    changed |= set(more)
        # The values show a key that is ignored, but for one, which changes logits only.
        self.assertEqual(set(VALUES) - changed, {".final_logit_softcapping"})
        for arch, key in (("gemma3", ".final_logit_softcapping"), ("granite", ".rope.scaling.finetuned")):
            logits = []
            for more in ({}, {key: VALUES[key]}):
                data, count = case_file(arch, more)
                with self.open(data) as session:
                    logits.append(files.logits_of(session, files.prompts(count)[0]))
            self.assertGreater(np.abs(logits[0] - logits[1]).max(), 0.05, key)

    def test_types(self):
        """Each type of a value is read, or refused by the key's name."""
        import inlay
        wholes, real = (0, 1, 2, 3, 4, 5, 10, 11), (6, 12)
        one = {"INT": 1, "EACH": 1, "FLOAT": 1.0, "FLAG": True, "TEXT": "a", "TEXTS": ["a"], "NUMBERS": [1], "LAYERS": 1}
        good = {"INT": wholes, "EACH": wholes, "FLOAT": wholes + real, "FLAG": (7,), "TEXT": (8,), "LAYERS": wholes}
        items = {"EACH": wholes, "LAYERS": wholes + (7,), "TEXTS": (8,), "NUMBERS": wholes + real}
        arch_of = {"ALL": "llama", "WINDOWS": "gemma3", "CAPS": "gemma3", "GEMMA2": "gemma2", "SCALES": "granite", "GRANITE": "granite",
                   "GRANITE_DENSE": "granite", "QWEN_MOE": "qwen3moe", "SHARED": "qwen2moe", "ENCODERS": "bert", "DELTA": "qwen35", "YARN": "mistral3", "VISION": "clip",
                   "LATENT": "deepseek2", "DENSE": "gemma-embedding", "GAPS": "lfm2", "ROUTED": "lfm2moe", "STATES": "qwen35", "SHORT": "lfm2", "STEPS": "llama4", "PLACES": "qwen2vl", "STACK": "qwen3vl", "MEANS": "bert", "LOGITS": "granite"}
        self.assertEqual({row[1] for row in table()}, set(one))
        for name, kind, readers, _ in table():
            arch = arch_of[readers]
            key = "tokenizer.ggml." + name[1:] if name[0] == ":" else name
            full = arch + key if key[0] == "." else key
            for number in list(files.NUMBERS) + [8]:
                value = "a" if number == 8 else True if number == 7 else 1
                for more, types in (((key, value, number), good), ((key, ([value] * 9, number), 9), items)):
                    data = (files.encoder(arch, [more]) if arch == "bert" else vision("clip", [more]) if arch == "clip" else
                            files.make(arch, "F32", [more])[0] if "dense" in key else model_of(arch)[0].bytes([more]))
                    if number in types.get(kind, ()):
                        try:
                            self.open(data).close()
                        except inlay.InlayError as error: # by the value
                            self.assertNotRegex(str(error), f"needs .* for the key '{full}'")
                    else:
                        with self.assertRaisesRegex(inlay.InlayError, f"needs .* for the key '{re.escape(full)}'", msg=str(more)):
                            self.open(data)

    def test_range(self):
        """Values that llama.cpp does not check."""
        import inlay
        for arch, key, value in (("gemma3", ".attention.sliding_window_pattern", [0, 1]),
                                 ("gemma3", ".attention.sliding_window_pattern", (-1, 5)),
                                 ("gemma2", ".attention.sliding_window", 0), ("llama", ".block_count", (1 << 63, 10)),
                                 ("llama", ".context_length", 0), ("", "general.alignment", 2),
                                 ("", "general.alignment", 24), ("llama", ".rope.freq_base", -1.0)):
            more = (key, *value) if isinstance(value, tuple) else (key, value)
            with self.assertRaisesRegex(inlay.InlayError, "rope" if "rope" in key else key if not arch else f"key '{arch}{key}'"):
                self.open(files.make(arch or "llama", "F32", [more])[0])

    def test_twice(self):
        import inlay
        model = files.Writer("llama", {})
        for _ in range(2):
            model.add(".block_count", 2)
        with self.assertRaisesRegex(inlay.InlayError, "has twice the key 'llama.block_count'"):
            self.open(model.bytes())

    def test_ignored(self):
        """Keys that llama.cpp does not read are listed; others are refused."""
        import inlay
        more = [(".tensor_data_layout", "Meta AI original pth"), (".ssm.inner_size", 3), (".logit_scale", 7.0),
                (".attention.sliding_window", 4)]
        with self.open(files.make("llama", "F32", more)[0]) as session:
            self.assertEqual(session.model.metadata["ignored keys"].split(), ["llama" + key for key, _ in sorted(
                more, key=lambda one: [k for k, _ in more].index(one[0]))])
        for key in (".ssm.", ".ssmx", ".attention.", ".tensor_data_layouts", ".tensor_data_layou"):
            with self.assertRaisesRegex(inlay.InlayError, f"a key that is not understood: 'llama{re.escape(key)}'"):
                self.open(files.make("llama", "F32", [(key, 1)])[0])


def record(root):
    with open(TOKENS, encoding="utf-8") as f:
        made = json.load(f)
    for arch, more in CASES:
        if case_name(arch, more) in made:
            continue
        data, count = case_file(arch, more)
        with open(os.path.join(root, "tmp", "float.gguf"), "wb") as f:
            f.write(data)
        with files.peer(root) as ready:
            made[case_name(arch, more)] = files.ask(
                files.PORT, "completion", prompt=files.prompts(count)[0], n_predict=4, temperature=0, return_tokens=True,
                cache_prompt=False, ignore_eos=False)["tokens"] if ready else None
        with open(TOKENS, "w", encoding="utf-8") as f:
            f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items()) + "\n}\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--make":
        record(sys.argv[2])
    else:
        unittest.main()
