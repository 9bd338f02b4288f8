#!/usr/bin/env python3
"""`inlay pipe --post boxes` on every kind of detector: random predictions in the layout of the kind are decoded as
numpy decodes them, and what cannot be told is refused. INLAY_CLI is the program."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

INLAY = os.environ["INLAY_CLI"]
SIDE = 64
CELLS = 8 * 8 + 4 * 4 + 2 * 2
NAMES = ["person", "bike \"x\"", "dog's", "car"]
METADATA = {"description": "Ultralytics YOLO model", "stride": "32", "names": str(dict(enumerate(NAMES)))}


def inlay(*words, code=0):
    done = subprocess.run([INLAY, *map(str, words)], capture_output=True, text=True, check=False,
                          env=dict(os.environ, INLAY_CACHE_DIR=""))
    if done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}, not {code}: {words}\n{done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stderr


def corners(box):
    return np.concatenate([box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2], -1)


def overlap(a, b):
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared = np.prod(np.maximum(high - low, 0))
    return shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


def rotated_overlap(a, b):
    """The overlap of normal distributions with the moments of the boxes (centre, width, height, angle)."""

    def covariance(box):
        turn = np.array([[np.cos(box[4]), -np.sin(box[4])], [np.sin(box[4]), np.cos(box[4])]])
        return turn @ np.diag([box[2] ** 2 / 12, box[3] ** 2 / 12]) @ turn.T
    p, q = covariance(a), covariance(b)
    middle, d, det = (p + q) / 2, a[:2] - b[:2], np.linalg.det
    distance = d @ np.linalg.inv(middle) @ d / 8 + np.log(det(middle) / np.sqrt(det(p) * det(q))) / 2
    return 1 - np.sqrt(1 - np.exp(-distance))


def best(boxes, scores, measure, limit=0.45):
    """The indices of the kept predictions, best first."""
    classes, kept = scores.argmax(1), []
    for i in np.argsort(-scores.max(1), kind="stable"):
        rivals = [k for k in kept if classes[i] == classes[k]]
        if scores[i].max() > 0.25 and all(measure(boxes[i], boxes[k]) <= limit for k in rivals):
            kept.append(i)
    return np.array(kept, int)


class Boxes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.random = np.random.default_rng(5)

    def predictions(self, count, classes=len(NAMES)):
        box = np.concatenate([self.random.uniform(10, 50, (count, 2)), self.random.uniform(5, 20, (count, 2))], 1)
        scores = self.random.uniform(0, 0.24, (count, classes))
        chosen = self.random.choice(count, min(count, 25), replace=False)
        scores[chosen, self.random.integers(0, classes, len(chosen))] = self.random.uniform(0.3, 0.99, len(chosen))
        return box.astype(np.float32), scores.astype(np.float32)

    def model(self, outputs, metadata, size=SIDE):
        """A model whose outputs do not depend on its picture."""
        nodes = [helper.make_node("Identity", [f"{name}_c"], [name]) for name in outputs]
        weights = [numpy_helper.from_array(np.ascontiguousarray(value), f"{name}_c") for name, value in outputs.items()]
        info = helper.make_tensor_value_info
        values = [info(name, TensorProto.FLOAT, value.shape) for name, value in outputs.items()]
        picture = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, size, size])
        model = helper.make_model(helper.make_graph(nodes, "g", [picture], values, weights), ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17)])
        for key, value in metadata.items():
            helper.set_model_props(model, {**{p.key: p.value for p in model.metadata_props}, key: value})
        save(model, self.at / "m.onnx")
        return self.at / "m.onnx"

    def decoded(self, outputs, metadata, step="boxes"):
        inlay("pipe", self.model(outputs, metadata), "--post", step, "-o", self.at / "w.onnx")
        with tempfile.TemporaryDirectory() as folder:
            inlay("run", self.at / "w.onnx", "--outputs", folder)
            return {file.stem: np.load(file) for file in pathlib.Path(folder).iterdir()}

    def check(self, got, boxes, scores, kept, names=NAMES):
        classes = scores.argmax(1)[kept]
        want = np.concatenate([boxes[kept], scores.max(1)[kept, None], classes[:, None]], 1)
        np.testing.assert_allclose(got["boxes"], want, 1e-4, 1e-3)
        self.assertEqual(got["classes"].tolist(), [names[k] for k in classes])

    def test_detection(self):
        for version in "v8", "v5":
            box, scores = self.predictions(CELLS if version == "v8" else 3 * CELLS)
            kept = best(corners(box), scores, overlap)
            for metadata in METADATA, {**METADATA, "task": "detect"}:
                rows = np.concatenate([box, np.ones((len(box), 1), np.float32), scores], 1)[None]
                output = np.concatenate([box, scores], 1).T[None] if version == "v8" else rows
                self.check(self.decoded({"output0": output}, metadata), corners(box), scores, kept)

    def test_transposed(self):
        """The word v8 also names rows of the numbers of v8."""
        box, scores = self.predictions(CELLS)
        rows = np.concatenate([box, scores], 1)
        kept = best(corners(box), scores, overlap)
        for metadata, names in (METADATA, NAMES), ({}, list(map(str, range(len(NAMES))))):
            for output in rows[None], rows:
                self.check(self.decoded({"y": output}, metadata, "boxes:v8"), corners(box), scores, kept, names)

    def test_without_metadata(self):
        """The number of predictions distinguishes v8 from v5."""
        box, scores = self.predictions(CELLS)
        numbers = list(map(str, range(len(NAMES))))
        self.check(self.decoded({"y": np.concatenate([box, scores], 1).T[None]}, {}), corners(box), scores,
                   best(corners(box), scores, overlap), numbers)
        box, scores = self.predictions(3 * CELLS)
        rows = np.concatenate([box, np.ones((len(box), 1), np.float32), scores], 1)[None]
        self.check(self.decoded({"y": rows}, {}), corners(box), scores, best(corners(box), scores, overlap), numbers)

    def test_segmentation(self):
        box, scores = self.predictions(CELLS)
        numbers = self.random.normal(size=(CELLS, 6)).astype(np.float32)
        masks = self.random.normal(size=(1, 6, 5, 7)).astype(np.float32)
        kept = best(corners(box), scores, overlap)
        for metadata in {**METADATA, "task": "segment"}, METADATA, {}:
            output = np.concatenate([box, scores, numbers], 1).T[None]
            got = self.decoded({"output0": output, "output1": masks}, metadata)
            self.check(got, corners(box), scores, kept, NAMES if metadata else list(map(str, range(4))))
            want = 1 / (1 + np.exp(-np.einsum("nm,bmhw->nhw", numbers[kept], masks)))
            np.testing.assert_allclose(got["masks"], want, 1e-3, 1e-4)
        rows = np.concatenate([corners(box), scores.max(1)[:, None], scores.argmax(1)[:, None], numbers], 1)[kept]
        got = self.decoded({"output0": rows[None].astype(np.float32), "output1": masks},
                           {**METADATA, "task": "segment", "end2end": "True"})
        np.testing.assert_allclose(got["masks"], want, 1e-3, 1e-4)

    def test_pose(self):
        names = {**METADATA, "task": "pose", "names": "{0: 'person'}"}
        box, scores = self.predictions(CELLS, 1)
        kept = best(corners(box), scores, overlap)
        for points in (2, 3):
            keys = self.random.uniform(0, 64, (CELLS, 5 * points)).astype(np.float32)
            got = self.decoded({"output0": np.concatenate([box, scores, keys], 1).T[None]},
                               {**names, "kpt_shape": f"[5, {points}]"})
            self.check(got, corners(box), scores, kept, ["person"])
            np.testing.assert_allclose(got["keypoints"], keys[kept], 1e-5)

    def test_oriented(self):
        box, scores = self.predictions(CELLS)
        angle = self.random.uniform(-1, 1, (CELLS, 1)).astype(np.float32)
        kept = best(np.concatenate([box, angle], 1).astype(float), scores, rotated_overlap)
        got = self.decoded({"output0": np.concatenate([box, scores, angle], 1).T[None]}, {**METADATA, "task": "obb"})
        self.check(got, box, scores, kept)
        np.testing.assert_allclose(got["angles"], angle[kept], 1e-5)

    def test_end_to_end(self):
        box, scores = self.predictions(30)
        order = np.argsort(-scores.max(1))
        rows = np.concatenate([corners(box), scores.max(1)[:, None], scores.argmax(1)[:, None]], 1)[order][None]
        rows = rows.astype(np.float32)
        kept = order[scores.max(1)[order] > 0.25]
        for metadata in ({**METADATA, "task": "detect", "end2end": "True"}, METADATA,
                         {**METADATA, "args": "{'batch': 1, 'nms': True}"}):
            self.check(self.decoded({"output0": rows}, metadata), corners(box), scores, kept)

    def test_detr(self):
        box, scores = self.predictions(30)
        order = np.argsort(-scores.max(1))
        kept = order[scores.max(1)[order] > 0.25]
        output = np.concatenate([box / SIDE, scores], 1)[None]
        self.check(self.decoded({"output0": output}, {**METADATA, "description": "Ultralytics RTDETR-l"}), corners(box),
                   scores, kept)
        self.check(self.decoded({"output0": output}, METADATA), corners(box), scores, kept)
        (self.at / "labels.txt").write_text("\n".join(NAMES) + "\n")
        step = f"boxes:labels={self.at / 'labels.txt'}"
        logits = np.log(scores / (1 - scores))
        got = self.decoded({"logits": logits[None], "pred_boxes": box[None] / SIDE}, {}, step)
        self.check(got, corners(box), scores, kept)
        rest = np.concatenate([scores * 0.9, 1 - scores.sum(1, keepdims=True) * 0.9], 1)
        rest = np.maximum(rest, 1e-6) / np.maximum(rest, 1e-6).sum(1, keepdims=True)
        order = np.argsort(-rest[:, :-1].max(1))
        logits = np.log(rest)[None].astype(np.float32)
        got = self.decoded({"logits": logits, "pred_boxes": box[None] / SIDE}, {}, step)
        self.check(got, corners(box), rest[:, :-1], order[rest[:, :-1].max(1)[order] > 0.25])

    def test_refusals(self):
        """One line with the reason, from the step or, where shapes tell nothing, from the run; never boxes."""
        box, scores = self.predictions(CELLS)
        v8 = np.concatenate([box, scores], 1).T[None]
        for outputs, metadata, part in (
                ({"y": v8}, {**METADATA, "task": "classify"}, "softmax,topk"),
                ({"y": v8}, {**METADATA, "task": "depth"}, "task is 'depth'"),
                ({"y": v8}, {**METADATA, "task": "segment"}, "masks, height, width"),
                ({"y": v8}, {**METADATA, "task": "pose", "kpt_shape": "[17, 3]"}, "not a list of boxes"),
                ({"y": v8}, {**METADATA, "task": "obb"}, "has 3 classes, but the metadata 'names' has 4"),
                ({"y": v8}, {**METADATA, "task": "pose"}, "'kpt_shape' of a pose model is missing"),
                ({"y": v8[:, :, :50]}, {}, "may have any layout"),
                ({"y": v8}, {**METADATA, "names": "{0: 'a', 1: 'b'}"}, "has 4 classes, but the metadata 'names' has 2: give labels=FILE"),
                ({"y": v8}, {**METADATA, "names": "person"}, "not a list of names"),
                ({"y": v8.transpose(0, 2, 1)}, METADATA, "transposed v8 or detr: name the layout, as in boxes:v8"),
                ({"y": v8.transpose(0, 2, 1)}, {}, "name it, as in boxes:v8"),
                ({"y": v8[0, 0]}, METADATA, "not a list of predictions"),
                ({"logits": v8[:, :, :3], "pred_boxes": v8[:, :, :4]}, {}, "labels=FILE")):
            with self.subTest(part):
                text = inlay("pipe", self.model(outputs, metadata), "--post", "boxes", "-o", self.at / "w.onnx", code=2)
                self.assertIn(part, text)
                self.assertEqual(text.count("\n"), 1, text)
        pose = np.concatenate([box, scores, self.random.uniform(0, 600, (CELLS, 3)).astype(np.float32)], 1).T[None]
        inlay("pipe", self.model({"y": pose}, {}), "--post", "boxes", "-o", self.at / "w.onnx")
        self.assertIn("scores are from 0 to 1", inlay("run", self.at / "w.onnx", code=2))


if __name__ == "__main__":
    unittest.main()
