"""Programs of Debian that use ONNX Runtime, called as modules, and their results (see debian.sh).

    programs.py PROGRAM INPUT RESULT        RESULT: a file of numpy
    programs.py compare NAME THEIRS OURS    two folders"""
import importlib.util
import os
import sqlite3
import sys
import types

import numpy as np

LARGEST = 1e-5  # difference, of the largest value


def module_of(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gstreamer(model):
    """The tensors that onnxinference attaches to frames."""
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstAnalytics", "1.0")
    from gi.repository import Gst, GstAnalytics

    Gst.init(None)
    pipeline = Gst.parse_launch(
        "videotestsrc num-buffers=3 pattern=smpte ! video/x-raw,format=RGB,width=32,height=32 ! onnxinference "
        f"optimization-level=enable-extended model-file={model} ! appsink name=sink sync=false")
    pipeline.set_state(Gst.State.PLAYING)
    values = []
    while (sample := pipeline.get_by_name("sink").emit("pull-sample")) is not None:
        meta = GstAnalytics.buffer_get_tensor_meta(sample.get_buffer())
        for i in range(meta.num_tensors):
            _, view = meta.get(i).data.map(Gst.MapFlags.READ)
            values.append(np.frombuffer(bytes(view.data), np.float32))
    pipeline.set_state(Gst.State.NULL)
    return np.concatenate(values)


def recorded(path):
    """The end of a recording of a tone that repeats after 512 samples, as the amplitudes of its frequencies, which do
    not depend on its beginning."""
    with open(path, "rb") as file:
        data = file.read()
    samples = np.frombuffer(data[data.find(b"data") + 8:], np.float32, offset=0)
    block = samples[len(samples) // 2:][:512]
    if len(block) < 512 or np.abs(block).max() < 0.01:
        raise ValueError(f"{path} is silent: {len(samples)} samples")
    return np.abs(np.fft.rfft(block))


def features(path):
    """Keypoints, as parts of the picture of 128 pixels, and descriptors of COLMAP's database."""
    parts = []
    for table, size in ("keypoints", 128), ("descriptors", 1):
        for rows, data in sqlite3.connect(path).execute(f"SELECT rows, data FROM {table} ORDER BY image_id"):
            if rows == 0:
                raise ValueError(f"no {table} in {path}")
            parts.append(np.frombuffer(data, np.float32) / size)
    return np.concatenate(parts)


def piper(model):
    """Speech of calibre's module, from espeak-ng's phonemes."""
    module = module_of("piper", "/usr/lib/calibre/calibre/plugins/piper.so")
    letters = [*range(32, 127), *range(0x250, 0x2FF)]
    voice = types.SimpleNamespace(
        espeak_voice_name="en-us", sample_rate=16000, num_speakers=1, length_scale=1.0, noise_scale=0.667, noise_w=0.8,
        sentence_delay=0.1, normalize_volume=False, model_type="piper", speed=1.0, style=b"",
        phoneme_id_map={letter: [letter % 300] for letter in letters})
    module.initialize("")
    module.set_voice(voice, model)
    module.start("The quick brown fox jumps over the lazy dog. After a while, it sleeps in the warm sun.")
    parts, last = [], False
    while not last:
        data, _, _, last = module.next(False)
        parts.append(np.frombuffer(data, np.float32))
    return np.concatenate(parts)


def yarf(model):
    """The cursor detector, whose package lacks its model."""
    from pathlib import Path

    from PIL import Image

    for name in "yarf", "yarf.rf_libraries", "yarf.rf_libraries.variables":
        sys.modules[name] = types.ModuleType(name)
    settings = types.ModuleType("yarf.rf_libraries.variables.video_input_vars")
    settings.DEFAULT_CURSOR_DETECTION_CONFIDENCE = 0.1
    sys.modules[settings.__name__] = settings
    folder = "/work/yarf/usr/lib/python3/dist-packages/yarf/rf_libraries/libraries/image"
    detector = module_of("cursor_detector", f"{folder}/cursor_detector.py")
    detector._MODEL_PATH = Path(model)
    picture = Image.fromarray(np.random.default_rng(1).integers(0, 255, (480, 800, 3), dtype=np.uint8))
    found = detector.CursorDetector().detect(picture)
    return np.array([found.x, found.y, found.cursor_type])


def compare(name, theirs, ours):
    """Compares two folders of results; False: they differ."""
    largest, count = 0.0, 0
    for folder, _, files in os.walk(theirs):
        for file in files:
            paths = [os.path.join(folder, file), os.path.join(ours, os.path.relpath(folder, theirs), file)]
            if file == "result.npy":
                a, b = map(np.load, paths)
                if a.shape != b.shape or not np.isfinite(b).all():
                    print(f"FAIL {name}: {a.shape} and {b.shape}")
                    return False
                largest, count = float(np.abs(a - b).max() / np.abs(a).max()), a.size
            elif name == "topfd":
                with open(paths[0], "rb") as one, open(paths[1], "rb") as other:
                    if one.read() != other.read():
                        print(f"FAIL {name}: {file} differs")
                        return False
                count += 1
    ok = largest <= LARGEST and count > 0
    what = f"{count} equal files" if name == "topfd" else f"{count} values, largest difference {largest:.1e}"
    print(f"{'ok' if ok else 'FAIL'} {name}: {what}")
    return ok


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        sys.exit(0 if compare(*sys.argv[2:]) else 1)
    np.save(sys.argv[3], globals()[sys.argv[1]](sys.argv[2]))
