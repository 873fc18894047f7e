"""The CPU program of llm.c, train_gpt2: environment LLMC, or train_gpt2 in PATH. Its batch is
4 x 64, in f32; weights and tokens are random files in its formats, where it looks for them."""
import os
import re
import shutil
import statistics
import subprocess

COMPILED = ()
PROGRAM = True  # another program's memory counts
WARM_UPS = 2
LAYERS, HEADS, WIDTH, POSITIONS, VOCAB, PADDED = 12, 12, 768, 1024, 50257, 50304
WEIGHTS, TOKENS, HEADER = 20240326, 20240520, 256  # magic numbers; integers in a header
STEP = re.compile(r"step \d+: train loss .*\(took ([0-9.]+) ms\)")


def program():
    return os.environ.get("LLMC") or shutil.which("train_gpt2")


def missing():
    if not program():
        return "LLMC names no program, and PATH has no train_gpt2"
    if not os.path.exists(program()):
        return f"LLMC: no file {program()}"
    return None


def version():
    return os.path.basename(program())


def can(row):
    s = row.sizes
    return (s["model"], s["batch"], s["length"], s["dtype"]) == ("gpt2", 4, 64, "f32")


def header(*numbers):
    import numpy

    out = numpy.zeros(HEADER, dtype="int32")
    out[:len(numbers)] = numbers
    return out.tobytes()


def write_weights(f):
    """Version 3: f32, the tensors in the order in which the program lays them out."""
    import numpy

    rng = numpy.random.default_rng(0)
    f.write(header(WEIGHTS, 3, POSITIONS, VOCAB, LAYERS, HEADS, WIDTH, PADDED))
    c, layers = WIDTH, LAYERS
    for kind, *shape in (
            ("random", PADDED, c), ("random", POSITIONS, c), ("ones", layers, c),
            ("zeros", layers, c), ("random", layers, 3 * c, c), ("zeros", layers, 3 * c),
            ("random", layers, c, c), ("zeros", layers, c), ("ones", layers, c),
            ("zeros", layers, c), ("random", layers, 4 * c, c), ("zeros", layers, 4 * c),
            ("random", layers, c, 4 * c), ("zeros", layers, c), ("ones", c), ("zeros", c)):
        data = rng.normal(0, 0.02, shape) if kind == "random" else getattr(numpy, kind)(shape)
        f.write(data.astype("float32").tobytes())


def prepare(row, run):
    import numpy

    del row
    texts = os.path.join(run.folder, "llm.c/dev/data/tinyshakespeare")
    os.makedirs(texts, exist_ok=True)
    ids = numpy.random.default_rng(1).integers(0, VOCAB, 1 << 16).astype("uint16")
    for part in "train", "val":
        with open(os.path.join(texts, f"tiny_shakespeare_{part}.bin"), "wb") as f:
            f.write(header(TOKENS, 1, len(ids)) + ids.tobytes())
    name = os.path.join(run.folder, "llm.c/gpt2_124M.bin")
    if not os.path.exists(name):
        with open(name + ".new", "wb") as f:
            write_weights(f)
        os.replace(name + ".new", name)


def train(sizes, run):
    """Tokens a second. The program is stopped once it has made the steps that count."""
    command = [os.path.abspath(program())]
    if shutil.which("stdbuf"):
        command = ["stdbuf", "-oL", *command]
    seconds = []
    with subprocess.Popen(command, cwd=os.path.join(run.folder, "llm.c"), text=True,
                          stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            if found := STEP.match(line):
                seconds.append(float(found[1]) / 1000)
            if len(seconds) == WARM_UPS + run.repeats:
                process.kill()
                break
    if len(seconds) < WARM_UPS + run.repeats:
        raise SystemExit(f"{program()}: ended after {len(seconds)} steps")
    return sizes["batch"] * sizes["length"] / statistics.median(seconds[WARM_UPS:])


WORK = {"train": train}
