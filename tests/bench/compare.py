#!/usr/bin/env python3
"""Implements compare.sh, which describes the flags.

For each model and number of threads the engines alternate, N rounds of S seconds each; each round gives the median of
its runs. The table has the medians over rounds, and as ratio the median over rounds of peer / inlay of the same
round, so that other load cancels. create, first run and peak memory are medians, too. inlay's create is measured
twice: with an empty cache folder (`cold`), and with the cache of the previous run (`warm`); peak memory is the larger
of both. inlay's create includes opening its plugins and their libraries; ONNX Runtime's starts after its library is
loaded. Earlier measurements on this machine are not used: each row has a new cache folder. --tune and --strict add
one column each: inlay after `inlay tune MODEL`, and with precision strict, interleaved with the others. A round has
at least LEAST_RUNS runs of each engine, regardless of their time. --errors adds a column of the largest errors
against float64, from networks_accuracy.py --json. `peak` is the model's operations per second as a share of the
machine's measured peak, the fastest large matrix multiplication on the same number of threads.

With --grow each timed run has other sizes than the one before, in both engines, as in a decoder whose past grows."""
import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "models"))
import check_models as models  # noqa: E402

PEERS = {"ort": "ONNX Runtime", "torch": "torch eager", "script": "TorchScript", "compiled": "torch.compile",
         "opencv": "OpenCV dnn", "ncnn": "ncnn"}
# Packages of Debian sid for the peers that run there with --sid.
SID_PACKAGES = "python3-torch python3-torchvision python3-opencv python3-numpy python3-dev libtorch-dev g++"
# Networks of ncnn's benchmark that equal models of export_models.py, with the sides of their input.
NCNN = {"efficientnet_b0": ("efficientnet_b0", 224), "googlenet": ("googlenet", 224), "mnasnet1_0": ("mnasnet", 224),
        "mobilenet_v2": ("mobilenet_v2", 224), "mobilenet_v3_large": ("mobilenet_v3", 224),
        "regnet_y_400mf": ("regnety_400m", 224), "resnet18": ("resnet18", 224), "resnet50": ("resnet50", 224),
        "shufflenet_v2": ("shufflenet_v2", 224), "squeezenet1_1": ("squeezenet", 227), "vgg16": ("vgg16", 224)}
OWN = {"inlay": "", "tuned": " tuned", "strict": " strict"}  # settings of inlay
LEAST_RUNS = 10
FIGURES = ("median_ms", "create_ms", "first_ms", "peak_mb")


def arguments():
    ap = argparse.ArgumentParser()
    ap.add_argument("--peer", default="ort")
    ap.add_argument("--models", default="resnet50,mobilenet_v2,bert_base")
    ap.add_argument("--threads", default="1")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=1)
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--providers", default="")
    ap.add_argument("--tune", action="store_true")
    ap.add_argument("--strict", action="store_true")
    ap.add_argument("--sid", action="store_true")
    ap.add_argument("--ncnn", metavar="DIR")
    ap.add_argument("--errors", help="output of networks_accuracy.py --json")
    ap.add_argument("--grow", default="", help="NAME=START+STEP,...: all runs have different sizes")
    ap.add_argument("--dir", default=os.path.join(ROOT, "build", "models"))
    ap.add_argument("--inlay", default=os.path.join(ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--peaks", action="store_true")
    ap.add_argument("--md")
    ap.add_argument("--svg")
    ap.add_argument("--json")
    ap.add_argument("--rows", default="", help="JSON files of earlier runs: print these, measure nothing")
    args = ap.parse_args()
    args.peer = [p for p in args.peer.split(",") if p]
    for p in args.peer:
        if p not in PEERS:
            sys.exit(f"compare.sh: --peer {p}: peers are {', '.join(PEERS)}")
    if "ncnn" in args.peer and not (args.ncnn and os.path.exists(os.path.join(args.ncnn, "benchncnn"))):
        sys.exit("compare.sh: --peer ncnn: name the folder of benchncnn and params/ with --ncnn DIR")
    if "compiled" in args.peer and not args.sid:
        sys.exit("compare.sh: --peer compiled: torch.compile is in Debian sid; add --sid")
    if not args.rows and not os.path.exists(args.inlay):
        sys.exit(f"{args.inlay} does not exist: build it first, or name it with --inlay")
    args.grow = [x for g in args.grow.split(",") if g for x in ("--grow", g)]
    if (args.grow or args.peaks) and args.peer != ["ort"]:
        sys.exit("compare.sh: --grow and --peaks are for ONNX Runtime alone")
    args.threads = [int(t) for t in args.threads.split(",")]
    return args


# ----------------------------------------------------------------- models and inputs
def export(*arguments):
    return subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "tests", "models", "export_models.py"), *arguments],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def list_models(args):
    """Resolves --models: `all` is every exported model and every model of npm, `npm` the latter, `more` further networks."""
    names = []
    for name in args.models.split(","):
        npm = os.path.join(args.dir, "npm")
        if name == "all":
            names += export("--list").split()
        if name == "more":
            names += export("--list-more").split()
        if name in ("all", "npm"):
            if not os.path.isdir(npm):
                export("--npm", npm)
            names += sorted(os.path.join(d, f) for d, _, files in os.walk(npm) for f in files if f.endswith(".onnx"))
        elif name != "more":
            names += [name]
    return names


def find_model(args, name):
    """Returns (display name, path, name in export_models.py or None)."""
    if name.endswith(".onnx"):
        below = os.path.relpath(name, os.path.join(args.dir, "npm"))
        return os.path.basename(name) if below.startswith("..") else below, name, None
    folder = os.path.join(args.dir, "torch")
    path = os.path.join(folder, name, "model.onnx")
    if not os.path.exists(path):
        export("--out", folder, name)
    return name, path, name


def prepare_inputs(args, path, folder):
    """Writes the inputs, exported ones if they exist. A name that is the first dimension of an input is the
    batch: every axis of that name is cut to it. Returns the sizes of free dimensions."""
    report = models.inspect(args.inlay, path)
    if isinstance(report, str):
        sys.exit(report)
    exported = os.path.join(os.path.dirname(path), "inputs.npz")
    feeds = np.load(exported) if os.path.exists(exported) else {}
    rng = np.random.default_rng(1)
    sizes = {}
    shapes = {info["name"]: info.get("shape") or [] for info in report["inputs"]}
    batch = {shape[0] for shape in shapes.values() if shape and isinstance(shape[0], str) and shape[0] not in ("", "?")}
    for info in report["inputs"]:
        shape = shapes[info["name"]]
        array = feeds[info["name"]] if info["name"] in feeds else models.draw_input(path, info, rng)
        for axis, dim in enumerate(shape):
            if dim in batch and array.shape[axis] > args.batch:
                array = np.take(array, range(args.batch), axis)
        np.save(os.path.join(folder, models.file_name(info["name"])), np.asarray(array, order="C"))
        sizes.update({dim: size for dim, size in zip(shape, array.shape)
                      if isinstance(dim, str) and dim not in ("", "?") and "=" not in dim and "," not in dim})
    return sizes


# ----------------------------------------------------------------- engines
def in_sid(args, inputs):
    """What runs a command in Debian sid, where the folders of the tests, the models and the inputs have the same names."""
    folders = (os.path.join(ROOT, "tests"), os.path.realpath(args.dir), os.path.realpath(inputs))
    binds = [x for folder in folders for x in ("--bind", f"{folder}:{folder}")]
    return [os.path.join(ROOT, "sdk", "packaging", "chroot.sh"), "--keep", "peers", *binds, "sid",
            "env", "TORCHINDUCTOR_CACHE_DIR=/var/cache/inductor"]


def set_up_sid(args):
    subprocess.run([*in_sid(args, args.dir), "sh", "-c", f"dpkg -s {SID_PACKAGES} >/dev/null 2>&1 || "
                    "{ apt-get -o Acquire::Check-Valid-Until=false update -qq && "
                    f"apt-get install -y -qq --no-install-recommends {SID_PACKAGES} >/dev/null; }}"], check=True)


def run_ncnn(args, network, threads, seconds):
    """ncnn's benchmark prints the mean of a number of runs, and uses random weights."""
    name, side = NCNN[network]

    def run(count):
        out = subprocess.run([os.path.join(args.ncnn, "benchncnn"), str(count), str(threads), "1", "-1", "0",
                              f"param={name}.param", f"shape=[{side},{side},3]"],
                             cwd=os.path.join(args.ncnn, "params"), capture_output=True, text=True, check=False)
        found = re.search(r"min *= *([0-9.]+) .*avg *= *([0-9.]+)", out.stdout + out.stderr)
        return found or f"benchncnn printed no time for {name}"

    first = run(4)
    if isinstance(first, str):
        return first
    timed = run(max(4, int(seconds * 1e3 / max(float(first[2]), 0.01))))
    return timed if isinstance(timed, str) else {"min_ms": float(timed[1]), "median_ms": float(timed[2])}


def last_json(command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return (ran.stderr or ran.stdout).strip().splitlines()[-1]
    return json.loads(ran.stdout[ran.stdout.index("{"):])


def common(args, inputs, engine, threads):
    """The options of inlay's verbs: threads, providers, and a separate cache folder next to the inputs of the row."""
    providers = ["--providers", args.providers] if args.providers else []
    return ["--intra-threads", str(threads), "--cache-dir", os.path.join(inputs, "..", "cache_" + engine), *providers]


def command_of(args, engine, model, inputs, threads, extra=(), seconds=None):
    name, path, exported = model
    seconds = str(seconds or args.seconds)
    if engine in OWN:
        strict = ["--precision", "strict"] if engine == "strict" else []
        return [args.inlay, "bench", path, "--json", "--inputs", inputs, "--seconds", seconds,
                *common(args, inputs, engine, threads), *strict, *args.grow, *extra]
    if engine == "ort":
        peer = os.path.join(args.dir, "peer")
        return [os.path.join(peer, "ort_bench"), os.path.join(peer, "libonnxruntime.so.1"), path, "--threads",
                str(threads), "--seconds", seconds, "--inputs", inputs, *args.grow, *extra]
    program = ["opencv_bench.py", os.path.realpath(path)] if engine == "opencv" else ["torch_bench.py", exported]
    flag = {"script": ["--script"], "compiled": ["--compile"]}.get(engine, [])
    return [*(in_sid(args, inputs) if args.sid else []), "/usr/bin/python3", os.path.join(HERE, program[0]), program[1],
            "--threads", str(threads), "--seconds", seconds, "--inputs", os.path.realpath(inputs), *flag]


def time_engine(args, engine, model, inputs, threads, seconds):
    if engine == "ncnn":
        return run_ncnn(args, model[2], threads, seconds)
    return last_json(command_of(args, engine, model, inputs, threads, seconds=seconds))


def has_model(engine, model):
    """Whether the peer can get the model: torch from its module, ncnn from its own list."""
    return engine in ("ort", "opencv") or (model[2] in NCNN if engine == "ncnn" else bool(model[2]))


def same_outputs(args, model, inputs, work, threads):
    """The worst difference from ONNX Runtime in units of the tolerance, or a message."""
    got, want = os.path.join(work, "got"), os.path.join(work, "want")
    os.makedirs(want, exist_ok=True)
    report = last_json(command_of(args, "ort", model, inputs, 1, ["--outputs", want]))
    if isinstance(report, str):
        return report
    worst = 0.0
    for engine in ["inlay"] + ["tuned"] * args.tune:
        wrong = models.run(args.inlay, model[1], inputs, got, common(args, inputs, engine, threads))
        if wrong:
            return wrong
        for file in os.listdir(want):
            far = models.distance(np.load(os.path.join(got, file)), np.load(os.path.join(want, file)),
                                  next((t for part, t in models.TOLERANCE.items() if part in model[1]), models.DEFAULT))
            if isinstance(far, str):
                return f"{file} {far}"
            worst = max(worst, far)
    return worst


def peak_model(work):
    """A matrix multiplication of 1024 x 1024, for the machine's peak."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    b = numpy_helper.from_array(np.random.default_rng(1).standard_normal((1024, 1024)).astype(np.float32), "b")
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "peak",
                              [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1024, 1024])],
                              [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1024, 1024])], [b])
    path = os.path.join(work, "peak.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


# ----------------------------------------------------------------- one row of the table
def add_cold(args, model, inputs, threads, warm):
    """Measures creating the session with an empty cache folder and in the following run."""
    with tempfile.TemporaryDirectory() as folder:
        last_json([args.inlay, "providers", "--json", "--cache-dir", folder])  # probes the plugins, which happens once
        once = ["--cache-dir", folder, "--seconds", "0", "--runs", "1", "--warmup", "0"]
        cold = last_json(command_of(args, "inlay", model, inputs, threads, once))
        again = last_json(command_of(args, "inlay", model, inputs, threads, once))
    if isinstance(cold, str) or isinstance(again, str):
        return warm
    return {**warm, "create_ms": cold["create_ms"], "warm_ms": again["create_ms"],
            "peak_mb": max(cold["peak_mb"], again["peak_mb"], warm["peak_mb"])}


def measure(args, model, threads, peak_path):
    with tempfile.TemporaryDirectory() as work:
        inputs = os.path.join(work, "in")
        os.mkdir(inputs)
        sizes = prepare_inputs(args, model[1], inputs)
        engines = ["inlay"] + ["tuned"] * args.tune + ["strict"] * args.strict
        engines += [p for p in args.peer if has_model(p, model)]
        if args.tune:
            subprocess.run([args.inlay, "tune", model[1], "--quiet", "--inputs", inputs,
                            *common(args, inputs, "tuned", threads)], check=True, stdout=subprocess.DEVNULL)
        rounds = {e: [] for e in engines}
        peaks, seconds = [], args.seconds
        for n in range(-1, args.rounds):  # the round before the first determines the length of rounds
            for engine in list(engines):
                report = time_engine(args, engine, model, inputs, threads, seconds if n >= 0 else 0.01)
                if isinstance(report, str):
                    print(f"  {PEERS.get(engine, engine)}: {report}", file=sys.stderr)
                    rounds[engine] = None
                    engines.remove(engine)
                    continue
                if n < 0:
                    seconds = max(seconds, LEAST_RUNS * 1.1 * report["median_ms"] / 1e3)
                    continue
                if engine == "inlay":
                    report = add_cold(args, model, inputs, threads, report)
                rounds[engine].append(report)
            if n < 0:
                continue
            product = last_json([args.inlay, "bench", peak_path, "--json", "--seconds", "0.2", "--intra-threads",
                                 str(threads)])
            peaks.append(2 * 1024 ** 3 / product["median_ms"] / 1e6)
        dims = [x for d, s in sizes.items() for x in ("--dim", f"{d}={s}")]
        providers = ["--providers", args.providers] if args.providers else []
        report = last_json([args.inlay, "explain", model[1], "--json", "--intra-threads", str(threads), *dims, *providers])
        row = {"model": model[0], "threads": threads, "engines": {}, "peak_gflops": float(np.median(peaks)),
               "gflop": 0 if isinstance(report, str) else report.get("flops", 0) / 1e9,
               "difference": same_outputs(args, model, inputs, work, threads) if "ort" in args.peer else None}
        for engine, list_of in rounds.items():
            if not list_of:
                continue
            row["engines"][engine] = {f: float(np.median([r[f] for r in list_of])) for f in (*FIGURES, "warm_ms")
                                      if all(f in r for r in list_of)}
            for own in OWN:
                if engine in PEERS and rounds.get(own):
                    pairs = [b["median_ms"] / a["median_ms"] for a, b in zip(rounds[own], list_of)]
                    row["engines"][engine][ratio_of(own)] = float(np.median(pairs))
        return row


# ----------------------------------------------------------------- output
def ratio_of(own):
    return "ratio" if own == "inlay" else "ratio_" + own


def read_errors(args):
    """By the names that models have in the table: the largest error of inlay and of ONNX Runtime over the largest
    result."""
    out = {}
    if args.errors:
        with open(args.errors) as f:
            for e in json.load(f):
                kind, name = e["network"].split("/", 1)
                out[os.path.dirname(name) if kind == "torch" else name] = f"{e['default']:.0e} / {e['ort']:.0e}"
    return out


def best_peer(r, peers):
    """The fastest peer of a row, and the ratio to it; None: no peer ran."""
    return min(((p, r["engines"][p]["ratio"]) for p in peers if "ratio" in r["engines"].get(p, {})),
               key=lambda pair: pair[1], default=None)


def cells_of(r, peers, more, top, errors):
    """A row of the table; more: inlay's other settings. None: inlay did not run."""
    own = r["engines"].get("inlay")
    if own is None:
        return None
    cells = [r["model"], str(r["threads"]), f"{own['median_ms']:.2f}"]
    create, memory = [f"{own['create_ms']:.0f}"], [f"{own['peak_mb']:.0f}"]
    cells += [f"{r['engines'][m]['median_ms']:.2f}" if m in r["engines"] else "-" for m in more]
    for p in peers:
        e = r["engines"].get(p, {})
        cells += [f"{e['median_ms']:.2f}" if e else "-"]
        cells += [f"{e[ratio_of(m)]:.2f}" if ratio_of(m) in e else "-" for m in ("inlay", *more)]
        if "create_ms" in e:
            create.append(f"{e['create_ms']:.0f}")
            memory.append(f"{e['peak_mb']:.0f}")
    if len(peers) > 1:
        best = best_peer(r, peers)
        cells.append(f"{best[1]:.2f} ({PEERS[best[0]]})" if best else "-")
    share = r["gflop"] / own["median_ms"] * 1e3 / top * 100 if r["gflop"] else None
    far = r["difference"]
    warm = f"{own['warm_ms']:.0f}" if "warm_ms" in own else "-"
    cells += [" / ".join(create), warm, " / ".join(memory), f"{share:.{0 if share >= 9.5 else 1}f}" if share else "-",
              "-" if far is None else far if isinstance(far, str) else "agree" if far <= 1 else f"off {far:.1f}x"]
    return cells + ([errors.get(r["model"], "-")] if errors else [])


def table(args, rows):
    peers, errors = args.peer, read_errors(args)
    more = [m for m in OWN if m != "inlay" and any(m in r["engines"] for r in rows)]
    heads = ["model", "threads", "inlay ms", *(f"{m} ms" for m in more)]
    for p in peers:
        heads += [f"{PEERS[p]} ms", "ratio", *(f"ratio {m}" for m in more)]
    heads += ["ratio to the fastest"] * (len(peers) > 1)
    heads += ["create cold ms", "create warm ms", "peak MB", "% of peak", "outputs"] + ["error"] * bool(errors)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for r in rows:
        top = max(x["peak_gflops"] for x in rows if x["threads"] == r["threads"])
        cells = cells_of(r, peers, more, top, errors) or [r["model"], str(r["threads"]), "fails"] + [""] * (len(heads) - 3)
        lines.append("| " + " | ".join(cells) + " |")
    for p in peers:
        for own, words in OWN.items():
            ratios = [r["engines"][p][ratio_of(own)] for r in rows if ratio_of(own) in r["engines"].get(p, {})]
            if ratios:
                lines.append(f"\n{PEERS[p]} / inlay{words}: geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, "
                             f"least {min(ratios):.2f}, of {len(ratios)}")
    best = [pair[1] for pair in (best_peer(r, peers) for r in rows) if pair]
    if len(peers) > 1 and best:
        lines.append(f"\nfastest peer / inlay: geometric mean {np.exp(np.mean(np.log(best))):.2f}, least {min(best):.2f}, "
                     f"of {len(best)}")
    return "\n".join(lines)


def chart(args, rows):
    """Bars of peer / inlay; the line is 1: beyond it inlay is faster."""
    bars = [(f"{r['model']}, {r['threads']} thread{'s' if r['threads'] > 1 else ''}", PEERS[p],
             r["engines"][p]["ratio"]) for r in rows for p in args.peer if "ratio" in r["engines"].get(p, {})]
    top = max([b[2] for b in bars] + [1.2])
    width, left, line = 720, 260, 22
    scale = (width - left - 60) / top
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{line * len(bars) + 50}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="18" fill="#333">time of the peer / time of inlay</text>']
    for i, (name, peer, ratio) in enumerate(bars):
        y = 30 + i * line
        colour = "#2a7f62" if ratio >= 1 else "#b5562f"
        out += [f'<text x="{left - 8}" y="{y + 13}" text-anchor="end" fill="#333">{name} ({peer})</text>',
                f'<rect x="{left}" y="{y}" width="{ratio * scale:.1f}" height="{line - 6}" fill="{colour}"/>',
                f'<text x="{left + ratio * scale + 5:.1f}" y="{y + 13}" fill="#333">{ratio:.2f}</text>']
    x = left + scale
    out += [f'<line x1="{x:.1f}" y1="26" x2="{x:.1f}" y2="{30 + line * len(bars)}" stroke="#333" stroke-dasharray="4 3"/>',
            "</svg>"]
    return "\n".join(out)


def cpu_name():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())


def measure_peaks(args):
    """Prints the peak memory of inlay and of ONNX Runtime after two runs, in MiB."""
    ratios = []
    print("| model | inlay | ONNX Runtime | ratio |\n|---|---|---|---|")
    for name in list_models(args):
        model = find_model(args, name)
        with tempfile.TemporaryDirectory() as work:
            inputs = os.path.join(work, "in")
            os.mkdir(inputs)
            prepare_inputs(args, model[1], inputs)
            peak = {}
            for engine in ("inlay", "inlay", "ort"):  # the second run of inlay has a filled cache folder
                few = [] if engine == "ort" else ["--runs", "2", "--warmup", "0"]
                report = last_json(command_of(args, engine, model, inputs, args.threads[0], few, seconds="0"))
                if isinstance(report, str):
                    sys.exit(f"{name}: {report}")
                peak[engine] = max(peak.get(engine, 0), report["peak_mb"])
        ratios.append(peak["inlay"] / peak["ort"])
        print(f"| {model[0]} | {peak['inlay']:.0f} | {peak['ort']:.0f} | {ratios[-1]:.2f} |", flush=True)
    print(f"\ngeometric mean {np.exp(np.mean(np.log(ratios))):.2f}, largest {max(ratios):.2f}, of {len(ratios)}")


def set_up(args):
    if "ort" in args.peer and not os.path.exists(os.path.join(args.dir, "peer", "ort_bench")):
        subprocess.run(["bash", os.path.join(ROOT, "tests", "models", "peer", "setup.sh"),
                        os.path.join(args.dir, "peer")], check=True)
    if args.sid:
        set_up_sid(args)


def measure_all(args):
    rows = []
    with tempfile.TemporaryDirectory() as work:
        peak_path = peak_model(work)
        for name in list_models(args):
            model = find_model(args, name)
            for threads in args.threads:
                print(f"{model[0]}, {threads} thread(s) ...", file=sys.stderr, flush=True)
                rows.append(measure(args, model, threads, peak_path))
    return rows


def tell(args, rows):
    text = f"{cpu_name()}, {os.cpu_count()} CPUs; {args.rounds} rounds of {args.seconds} s, batch {args.batch}\n\n" + \
        table(args, rows)
    print(text)
    for path, content in ((args.md, text + "\n"), (args.svg, chart(args, rows) + "\n"),
                          (args.json, json.dumps(rows, indent=1) + "\n")):
        if path:
            with open(path, "w") as f:
                f.write(content)
    wrong = [r["model"] for r in rows if isinstance(r["difference"], str) or (r["difference"] or 0) > 1]
    if wrong:
        sys.exit(f"outputs differ: {', '.join(sorted(set(wrong)))}")


def main():
    args = arguments()
    rows = []
    for path in args.rows.split(",") if args.rows else []:
        with open(path) as f:
            rows += json.load(f)
    if not rows:
        set_up(args)
    if args.peaks:
        measure_peaks(args)
        return
    if not rows:
        rows = measure_all(args)
    tell(args, rows)


if __name__ == "__main__":
    main()
