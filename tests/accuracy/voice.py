"""Voice detection on sentences of espeak-ng with pauses and noise:

    voice.py FLOAT.onnx [OTHER.onnx | ort:MODEL.onnx ...] [--seconds 60] [--seed 3] [--snr 10]

The models are those of Silero VAD from version 5 on: `input` [1, 576 or 512] at 16 kHz, `state` [2, 1, 128], `sr`. A
row shows the share of steps within speech or pauses in which the model is correct, and the share of steps in which it
decides like the first model. Needs espeak-ng.
"""
import argparse
import io
import random
import subprocess
import wave

import numpy

import models

RATE, STEP, BEFORE = 16000, 512, 64
VOICES = ["en-us", "en-gb", "de", "fr", "es", "it", "nl", "pl"]


def words():
    with open("/usr/share/common-licenses/GPL-3", encoding="utf-8") as file:
        return file.read().replace("<", "").replace(">", "").split()


def say(text, voice, speed):
    """Samples of the spoken text at 16 kHz, from -1 to 1."""
    said = subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "--stdout", text], check=True,
                          capture_output=True).stdout
    with wave.open(io.BytesIO(said)) as file:
        rate, data = file.getframerate(), file.readframes(2**24)
    sound = numpy.frombuffer(data, numpy.int16).astype(numpy.float32) / 32768
    at = numpy.arange(int(len(sound) * RATE / rate)) * rate / RATE
    return numpy.interp(at, numpy.arange(len(sound)), sound).astype(numpy.float32)


def make(seconds, seed, snr):
    """The sound, and for each step 1: speech, 0: pause, -1: near a transition."""
    dice, noise = random.Random(seed), numpy.random.default_rng(seed)
    said, sound, speaks = words(), numpy.zeros(seconds * RATE, numpy.float32), numpy.zeros(seconds * RATE, bool)
    at = RATE
    while at < len(sound):
        start = dice.randrange(len(said) - 12)
        part = say(" ".join(said[start:start + dice.randint(3, 10)]), dice.choice(VOICES), dice.randint(130, 200))
        part = part[:len(sound) - at] * dice.uniform(0.3, 1)
        sound[at:at + len(part)] = part
        loud = numpy.abs(part) > 0.02
        near = numpy.convolve(loud, numpy.ones(RATE // 8), "same") > 0 if len(part) else loud
        speaks[at:at + len(part)] = near
        at += len(part) + int(dice.uniform(0.8, 2.5) * RATE)
    power = numpy.mean(sound[speaks] ** 2) / 10 ** (snr / 10)
    sound += noise.normal(0, numpy.sqrt(power), len(sound)).astype(numpy.float32)
    share = speaks[:len(sound) // STEP * STEP].reshape(-1, STEP).mean(axis=1)
    wide = numpy.convolve(share, numpy.ones(9) / 9, "same")  # a seventh of a second on each side
    return sound, numpy.where(wide > 0.999, 1, numpy.where(wide < 0.001, 0, -1))


def listen(name, sound):
    model, state = models.open_model(name), numpy.zeros((2, 1, 128), numpy.float32)
    before, heard = numpy.zeros(BEFORE, numpy.float32), []
    for i in range(len(sound) // STEP):
        part = sound[i * STEP:(i + 1) * STEP]
        out, state = model.run({"input": numpy.concatenate([before, part])[None], "state": state,
                                "sr": numpy.array(RATE, numpy.int64)})[:2]
        before = part[-BEFORE:]
        heard.append(float(out.ravel()[0]))
    return numpy.array(heard), model.ms()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--snr", type=float, default=10, help="signal-to-noise ratio, in dB")
    args = parser.parse_args()
    sound, truth = make(args.seconds, args.seed, args.snr)
    first, sure = None, truth >= 0
    print("| model | MiB | steps right | the same decision | farthest | ms a step |\n|---|---|---|---|---|---|")
    for name in args.models:
        heard, ms = listen(name, sound)
        first = heard if first is None else first
        right = numpy.mean((heard > 0.5)[sure] == (truth > 0)[sure])
        same = numpy.mean((heard > 0.5) == (first > 0.5))
        print(f"{models.label(name)} | {100 * right:.1f} % | {100 * same:.1f} % | {numpy.abs(heard - first).max():.2g} | "
              f"{ms:.3f} |", flush=True)


if __name__ == "__main__":
    main()
