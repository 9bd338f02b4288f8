"""Writes what debian.sh gives to the programs: small models with the inputs and outputs that each program expects, a
tone, two pictures, and mass spectra.

    inputs.py FOLDER"""
import base64
import math
import os
import random
import struct
import sys
import wave
import zlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

FLOAT, INT64 = T.FLOAT, T.INT64
node, value = helper.make_node, helper.make_tensor_value_info


def save(path, nodes, inputs, outputs, **constants):
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, initializers),
                              opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def weights(seed, *dims, scale=0.2):
    return (np.random.default_rng(seed).standard_normal(dims) * scale).astype(np.float32)


def video(folder):
    """Classes and features of a frame, for GStreamer, which wants a description beside the model."""
    save(f"{folder}/video.onnx",
         [node("Cast", ["x"], ["f"], to=FLOAT), node("Div", ["f", "most"], ["d"]),
          node("Transpose", ["d"], ["t"], perm=[0, 3, 1, 2]), node("Conv", ["t", "w"], ["c"], pads=[1] * 4),
          node("Relu", ["c"], ["r"]), node("GlobalAveragePool", ["r"], ["g"]), node("Flatten", ["g"], ["a"]),
          node("MatMul", ["a", "m"], ["s"]), node("Softmax", ["s"], ["y"])],
         [value("x", T.UINT8, [1, 32, 32, 3])], [value("y", FLOAT, [1, 10]), value("r", FLOAT, [1, 8, 32, 32])],
         most=np.float32(255), w=weights(1, 8, 3, 3, 3), m=weights(2, 8, 10, scale=0.5))
    with open(f"{folder}/video.onnx.modelinfo", "w", encoding="utf-8") as file:
        file.write("[modelinfo]\nversion=1.0\ngroup-id=test\n")
        for name, side, dtype, dims in (("x", "input", "uint8", "1,32,32,3\nranges=0.0,255.0"),
                                        ("y", "output", "float32", "1,10"), ("r", "output", "float32", "1,8,32,32")):
            file.write(f"[{name}]\ndir={side}\ntype={dtype}\ndims={dims}\nid=test-{name}\ndims-order=row-major\n")


def filter_of_sound(folder):
    save(f"{folder}/filter.onnx",
         [node("Reshape", ["input", "three"], ["a"]), node("Conv", ["a", "w"], ["b"], pads=[4, 4]),
          node("Tanh", ["b"], ["c"]), node("Conv", ["c", "v"], ["d"], pads=[4, 4]),
          node("Reshape", ["d", "two"], ["output"])],
         [value("input", FLOAT, [1, 512])], [value("output", FLOAT, [1, 512])],
         three=np.array([1, 1, 512]), two=np.array([1, 512]), w=weights(3, 4, 1, 9, scale=0.3), v=weights(4, 1, 4, 9))
    with wave.open(f"{folder}/tone.wav", "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        times = np.arange(512 * 600) * 2 * math.pi / 512
        file.writeframes((9000 * np.sin(6 * times) + 5000 * np.sin(37 * times + 1)).astype("<i2").tobytes())


def features(folder):
    """Keypoints, descriptors and scores of pictures of 128 x 128 pixels, for COLMAP."""
    save(f"{folder}/features.onnx",
         [node("Conv", ["image", "s"], ["c"], pads=[2] * 4), node("Sigmoid", ["c"], ["g"]),
          node("AveragePool", ["g"], ["p"], kernel_shape=[8, 8], strides=[8, 8]), node("Reshape", ["p", "flat"], ["f"]),
          node("Reshape", ["max_keypoints", "one"], ["k0"]), node("Min", ["k0", "hundred"], ["k"]),
          node("TopK", ["f", "k"], ["best", "at"]), node("Max", ["best", "min_score"], ["scores"]),
          node("Conv", ["image", "w"], ["d"], pads=[4] * 4, strides=[8, 8]),
          node("LpNormalization", ["d"], ["u"], axis=1), node("Reshape", ["u", "columns"], ["v"]),
          node("Transpose", ["v"], ["rows"]),
          node("Gather", ["rows", "at"], ["descriptors"]),
          node("Mod", ["at", "width"], ["x"]), node("Div", ["at", "width"], ["y"]),
          node("Unsqueeze", ["x", "last"], ["x1"]), node("Unsqueeze", ["y", "last"], ["y1"]),
          node("Concat", ["x1", "y1"], ["xy"], axis=2), node("Cast", ["xy"], ["xyf"], to=FLOAT),
          node("Mul", ["xyf", "step"], ["m"]), node("Sub", ["m", "start"], ["keypoints"])],
         [value("image", FLOAT, ["B", 3, "H", "W"]), value("max_keypoints", INT64, []), value("min_score", FLOAT, [])],
         [value("keypoints", FLOAT, ["B", "N", 2]), value("descriptors", FLOAT, ["B", "N", 128]),
          value("scores", FLOAT, ["B", "N"])],
         s=weights(5, 1, 3, 5, 5), w=weights(6, 128, 3, 9, 9, scale=0.05), flat=np.array([1, -1]), one=np.array([1]),
         hundred=np.array([100]), columns=np.array([128, -1]), width=np.array(16), last=np.array([2]),
         step=np.float32(0.125), start=np.float32(0.9375))
    os.mkdir(f"{folder}/pictures")
    squares = np.random.default_rng(7).integers(0, 256, (16, 40)).astype(np.uint8)
    for name, begin in ("a", 0), ("b", 2):
        pixels = np.kron(squares[:, begin:begin + 16], np.ones((8, 8), np.uint8))
        rows = b"".join(b"\0" + row.tobytes() for row in pixels)
        with open(f"{folder}/pictures/{name}.png", "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
            for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", 128, 128, 8, 0, 0, 0, 0)),
                               (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
                file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def voice(folder):
    """Samples from numbers of phonemes, with the inputs of Piper's voices."""
    save(f"{folder}/voice.onnx",
         [node("Gather", ["table", "input"], ["e"]), node("Transpose", ["e"], ["t"], perm=[0, 2, 1]),
          node("Conv", ["t", "w"], ["c"], pads=[1, 1]), node("Transpose", ["c"], ["u"], perm=[0, 2, 1]),
          node("Slice", ["scales", "first", "second"], ["noise"]), node("Mul", ["u", "noise"], ["m"]),
          node("Tanh", ["m"], ["y"]), node("Reshape", ["y", "shape"], ["samples"]),
          node("Cast", ["input_lengths"], ["n"], to=FLOAT), node("Sub", ["n", "n"], ["zero"]),
          node("Add", ["samples", "zero"], ["output"])],
         [value("input", INT64, ["batch", "phonemes"]), value("input_lengths", INT64, ["batch"]),
          value("scales", FLOAT, [3])], [value("output", FLOAT, ["batch", 1, 1, "time"])],
         table=weights(8, 300, 16, scale=0.5), w=weights(9, 64, 16, 3, scale=0.3), first=np.array([0]),
         second=np.array([1]), shape=np.array([1, 1, 1, -1]))


def cursor(folder):
    """Boxes, confidences and classes of YOLO, for YARF."""
    save(f"{folder}/cursor.onnx",
         [node("Conv", ["images", "w"], ["c"], strides=[32, 32]), node("Sigmoid", ["c"], ["s"]),
          node("Reshape", ["s", "shape"], ["r"]), node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
          node("Mul", ["t", "most"], ["output0"])],
         [value("images", FLOAT, [1, 3, 640, 640])], [value("output0", FLOAT, [1, 400, 6])],
         w=weights(10, 6, 3, 16, 16, scale=0.1), shape=np.array([1, 6, -1]),
         most=np.array([640, 640, 640, 640, 1, 0], np.float32))


def isotopes(mass, charge, total):
    """The peaks of a protein's isotopes, as a Poisson distribution."""
    mean = mass * 0.000545
    for k in range(int(mean + 5 * math.sqrt(mean)) + 3):
        part = math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1))
        if part > 0.004:
            yield (mass + k * 1.00235) / charge + 1.00727646, total * part


def term(number, name, text=""):
    return f'<cvParam cvRef="MS" accession="MS:{number}" name="{name}" value="{text}"/>'


def spectrum(index, minute, peaks, target=None):
    """An element of mzML. target: m/z and charge of the ion whose fragments the peaks are."""
    peaks = sorted(peaks)
    arrays = ""
    for column, number, name in (0, 1000514, "m/z array"), (1, 1000515, "intensity array"):
        data = base64.b64encode(struct.pack(f"<{len(peaks)}d", *(peak[column] for peak in peaks))).decode()
        arrays += (f'<binaryDataArray encodedLength="{len(data)}">{term(1000523, "64-bit float")}'
                   f'{term(1000576, "no compression")}{term(number, name)}<binary>{data}</binary></binaryDataArray>')
    precursor = ""
    if target is not None:
        window = "".join(term(number, f"isolation window {name}", text) for number, name, text in (
            (1000827, "target m/z", target[0]), (1000828, "lower offset", 1.5), (1000829, "upper offset", 1.5)))
        ion = (term(1000744, "selected ion m/z", target[0]) + term(1000041, "charge state", target[1]) +
               term(1000042, "peak intensity", 1e6))
        activation = term(1000422, "beam-type collision-induced dissociation")
        precursor = (
            f'<precursorList count="1"><precursor spectrumRef="controllerType=0 controllerNumber=1 scan={index}">'
            f'<isolationWindow>{window}</isolationWindow><selectedIonList count="1"><selectedIon>{ion}</selectedIon>'
            f"</selectedIonList><activation>{activation}</activation></precursor></precursorList>")
    kind = term(1000579, "MS1 spectrum") if target is None else term(1000580, "MSn spectrum")
    start = (f'<cvParam cvRef="MS" accession="MS:1000016" name="scan start time" value="{minute:.4f}" unitCvRef="UO" '
             'unitAccession="UO:0000031" unitName="minute"/>')
    return (f'<spectrum index="{index}" id="controllerType=0 controllerNumber=1 scan={index + 1}" '
            f'defaultArrayLength="{len(peaks)}">{term(1000511, "ms level", 1 if target is None else 2)}{kind}'
            f'{term(1000127, "centroid spectrum")}{term(1000130, "positive scan")}<scanList count="1">'
            f'{term(1000795, "no combination")}<scan>{start}</scan></scanList>{precursor}'
            f'<binaryDataArrayList count="2">{arrays}</binaryDataArrayList></spectrum>')


def spectra(folder):
    """Two proteins that elute over 24 survey spectra, and their fragments, for TopFD."""
    rng = random.Random(5)
    proteins = (8451.3, range(7, 13), 8), (12360.9, range(10, 18), 14)

    def noisy(peaks):
        return [(mz * (1 + rng.gauss(0, 2e-6)), height * rng.uniform(0.9, 1.1)) for mz, height in peaks]

    listed = []
    for scan in range(24):
        peaks = [(rng.uniform(500, 1700), rng.uniform(50, 400)) for _ in range(60)]
        for mass, charges, apex in proteins:
            for charge in charges:
                part = math.exp(-((scan - apex) / 3) ** 2 - ((charge - (charges[0] + charges[-1]) / 2) / 2) ** 2)
                peaks += noisy(isotopes(mass, charge, 1e6 * part)) if part > 0.01 else []
        listed.append(spectrum(len(listed), 10 + scan * 0.05, peaks))
        for mass, charges, apex in proteins:
            if abs(scan - apex) > 2:
                continue
            charge, fragments = (charges[0] + charges[-1]) // 2, random.Random(mass)
            peaks = [(rng.uniform(300, 1900), rng.uniform(20, 150)) for _ in range(40)]
            for _ in range(25):
                part = fragments.uniform(900, mass * 0.8)
                peaks += noisy(isotopes(part, max(1, min(charge, int(part / 900))), fragments.uniform(5e3, 5e4)))
            target = max(isotopes(mass, charge, 1), key=lambda peak: peak[1])[0]
            listed.append(spectrum(len(listed), 10.01 + scan * 0.05, peaks, (target, charge)))
    with open(f"{folder}/proteins.mzML", "w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<mzML xmlns="http://psi.hupo.org/ms/mzml" version="1.1.0">'
                   '<cvList count="2"><cv id="MS" fullName="PSI-MS" version="4.1" URI="x"/><cv id="UO" fullName="UO" '
                   f'version="1" URI="x"/></cvList><fileDescription><fileContent>{term(1000579, "MS1 spectrum")}'
                   '</fileContent></fileDescription><softwareList count="1"><software id="s" version="1">'
                   f'{term(1000799, "custom unreleased software tool", "s")}</software></softwareList>'
                   '<instrumentConfigurationList count="1"><instrumentConfiguration id="i">'
                   f'{term(1000031, "instrument model")}</instrumentConfiguration></instrumentConfigurationList>'
                   '<dataProcessingList count="1"><dataProcessing id="d"><processingMethod order="0" softwareRef="s">'
                   f'{term(1000544, "Conversion to mzML")}</processingMethod></dataProcessing></dataProcessingList>'
                   f'<run id="r" defaultInstrumentConfigurationRef="i"><spectrumList count="{len(listed)}" '
                   f'defaultDataProcessingRef="d">{"".join(listed)}</spectrumList></run></mzML>')


if __name__ == "__main__":
    for write in video, filter_of_sound, features, voice, cursor, spectra:
        write(sys.argv[1])
