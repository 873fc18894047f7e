"""check_look_images.py - panels of `qkv look` on patches in a browser: what is drawn is what the
command prints, and that is what the model's file, other commands and the attention say."""
import json
import math
import os
import struct
import subprocess
import sys

from browser import Browser, check, finish, near
from looks import READY, Looks

qkv, work = sys.argv[1:3]
shots = os.environ["QKV_SHOTS"]
photo, mask, among = (os.path.join(work, p) for p in ("photos/a.png", "masks/a.png", "set"))
WIDTH, HEIGHT = 11, 9 # of the photo
PATCHES = ["positions", "filters", "exciting", "nearest"]
looks = Looks(qkv, work)


def run(*words):
    return json.loads(subprocess.run([qkv, *words, "--json", "--quiet"], check=True,
                                     stdout=subprocess.PIPE).stdout)


def look(model, *words):
    return run("look", os.path.join(work, model), *words, "--least", "1e-9")


def tensor(model, name):
    """Rows of a tensor of the model's file."""
    with open(os.path.join(work, model, "model.safetensors"), "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        entry = json.loads(f.read(size))[name]
        f.seek(8 + size + entry["data_offsets"][0])
        width = entry["shape"][-1]
        data = struct.unpack(f"<{math.prod(entry['shape'])}f",
                             f.read(4 * math.prod(entry["shape"])))
    return [data[i:i + width] for i in range(0, len(data), width)]


def cosine(a, b):
    dot = lambda x, y: sum(p * q for p, q in zip(x, y))
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def names(b, panel, key=None):
    """What the shapes of a panel's drawing, or of a group of it, are called."""
    within = f" [data-key={key}]" if key else ""
    return b.js(f"return [...document.querySelectorAll('#{panel}-figure{within} title')]"
                ".map(t => t.textContent)")


def text(b, panel):
    return b.js(f"return [...document.querySelectorAll('#{panel}-figure text')]"
                ".map(t => t.textContent).join(' | ')")


def numbers(shown):
    """Of names "row, column: value"."""
    return [float(name.rsplit(": ", 1)[1]) for name in shown if ": " in name]


def opened(b, model, *words):
    """The page of a look, with every panel that the command has, and the numbers."""
    path = os.path.join(work, model + "-page.html")
    subprocess.run([qkv, "look", os.path.join(work, model), *words, "--out", path, "--quiet"],
                   check=True)
    b.open(path)
    b.wait(READY, model + ": the explorer")
    panels = look(model, *words)["panels"]
    for name, found in panels.items():
        near(b.js(f"return qkv.json('{name}-data')"), found, 0, f"{model}: numbers of {name}") \
            if isinstance(found, list) else check(
                b.js(f"return qkv.json('{name}-data')") == found, f"{model}: numbers of {name}")
        check(b.js(f"return document.querySelector('#{name}-figure svg') !== null"),
              f"{model}: a drawing of {name}")
    missing = [p for p in PATCHES if p not in panels]
    check(not missing, f"{model}: panels {missing}")
    return panels


def check_row(model, words, weights, layer, at, what):
    """That the weights are the mean of the heads at a position, as the command has it."""
    flag = ["--rollout"] if layer < 0 else ["--layer", str(layer)]
    row = look(model, *words, *flag, "--at", str(at))["row"]["weights"]
    near(weights, row[len(row) - len(weights):], 1e-6, f"{model}: {what}")


def check_tiles(b, model, panels, count):
    """Every patch that is listed is a tile with its number."""
    shown = names(b, "exciting")
    found = panels["exciting"]
    listed = found.get("filters", found.get("components"))
    check(len(listed) == count, f"{model}: {count} filters")
    for at, feature in enumerate(listed[:4]):
        for where, image in (("input", "input"), ("set", "set")):
            for side in feature.get(where, {}).values():
                for p in side:
                    name = f"{image} {p['x']},{p['y']}: {p['response']:.3f}"
                    check(name in shown, f"{model}: filter {at}: {name}")
    for side in ("most", "least"):
        order = [p["response"] for p in listed[0]["input"][side]]
        check(order == sorted(order, reverse=side == "most"), f"{model}: {side}, in order")


def check_positions(model, panels, name, lead):
    """Cosines of the file's positions."""
    rows = tensor(model, name)[lead:]
    found = panels["positions"]["cosine"]
    check(len(found) == len(rows), f"{model}: positions")
    near(found[1], [cosine(rows[1], r) for r in rows], 6e-5, f"{model}: cosines")


def segmenter(b):
    words = [photo, "--truth", mask, "--pixel", "5,6", "--among", among]
    panels = opened(b, "parts", *words)
    classes = panels["segments"]["classes"]
    near(sum(c["share"] for c in classes), 1, 1e-9, "shares of classes")
    near(sum(c["truth"] for c in classes), 1, 1e-9, "shares of the truth")
    for folder in ("one", "one-mask"):
        os.makedirs(os.path.join(work, folder), exist_ok=True)
    for source, folder in ((photo, "one"), (mask, "one-mask")):
        with open(source, "rb") as f, open(os.path.join(work, folder, "a.png"), "wb") as out:
            out.write(f.read())
    score = run("eval", os.path.join(work, "parts"), "--images", os.path.join(work, "one"),
                "--masks", os.path.join(work, "one-mask"))
    near([panels["segments"][k] for k in ("miou", "accuracy")],
         [score[k] for k in ("miou", "accuracy")], 1e-9, "the truth as qkv eval reads it")
    legend = text(b, "segments")
    for c in classes:
        if c["share"] or c["truth"]:
            check(f"| {c['label']} | {100 * c['share']:.1f} % | truth {100 * c['truth']:.1f} %, "
                  f"IoU {c['iou']:.3f}" in legend, f"the legend has {c['label']}: {legend}")
    source = panels["source"]
    at = 4 * source["row"] + source["column"]
    check_row("parts", words, source["attention"], 1, at, "attention of the pixel's patch")
    check_row("parts", words, source["rollout"], -1, at, "rollout of the pixel's patch")
    for key in ("attention", "rollout", "gradient"):
        near(numbers(names(b, "source", key)), source[key], 1e-5, f"the map of {key}")
    check(max(source["gradient"]) > 0, "a gradient")
    check("the chosen pixel" in names(b, "source"), "the pixel is marked")


def colourer(b):
    hints = ["--hint", "3,4,#c02040", "--hint", "9,7,#2040c0"]
    words = [photo, *hints, "--pixel", "4,4", "--among", among]
    panels = opened(b, "color", *words)
    found = panels["hints"]
    check(sorted(h["colour"] for h in found["hints"]) == ["#2040c0", "#c02040"], "both hints")
    at = 4 * found["row"] + found["column"]
    for layer in (0, 1):
        check_row("color", words, found["attention"][layer], layer, at, f"layer {layer}")
    check_row("color", words, found["rollout"], -1, at, "rollout")
    for hint in found["hints"]:
        patch = hint["y"] * 4 // HEIGHT * 4 + hint["x"] * 4 // WIDTH
        near([hint["attention"], hint["rollout"]],
             [found["attention"][hint["layer"]][patch], found["rollout"][patch]], 1e-6,
             "what a hint's patch gets")
        name = f"hint {hint['x']},{hint['y']} {hint['colour']}"
        check(names(b, "hints").count(name) == 4, name + " on the colours and on each map")
    near(numbers(names(b, "hints", "layer1")), found["attention"][1], 1e-5, "the map of layer 1")


def autoencoder(b):
    words = [photo, "--mask", "0.5", "--among", among]
    panels = opened(b, "mae", *words)
    found = panels["reconstruction"]
    check(found["visible"].count(True) == 8, "half of the patches")
    seen = look("mae", *words)["axes"][0]["cells"]
    check([i for i, v in enumerate(found["visible"]) if v] == sorted(seen), "the axis's patches")
    masked = [e for e, v in zip(found["error"], found["visible"]) if not v]
    near(found["masked_error"], sum(masked) / len(masked), 1e-6, "the mean error")
    near(numbers(n for n in names(b, "reconstruction", "error") if "nan" not in n.lower()
                 and not n.endswith(": ")), masked, 1e-5, "the map of errors")
    check(panels["decoder_positions"]["kind"] == "sinusoids", "sinusoids of the decoder")


with Browser() as b:
    looks.by_hand(b, "parts", [photo], 0, 5)
    for model, its_checks in (("parts", segmenter), ("color", colourer), ("mae", autoencoder)):
        its_checks(b)
        b.screenshot(os.path.join(shots, f"look-panels-{model}.png"), whole=True)
    for model, name, count in (("vit", "vit.embeddings.position_embeddings", None),
                               ("cct", "classifier.positional_emb", None)):
        panels = opened(b, model, photo, "--among", among)
        check_positions(model, panels, name, 1 if model == "vit" else 0)
        filters = panels["filters"]
        check_tiles(b, model, panels, filters["components"] or filters["filters"])
        check(len([n for n in names(b, "filters") if n.isdigit()]) ==
              min(64, filters["filters"]) + filters["components"], f"{model}: filters drawn")
        first = panels["nearest"]["patches"][0]
        for where in ("input", "set"):
            near([p["cosine"] for p in first[where]],
                 sorted((p["cosine"] for p in first[where]), reverse=True), 0, "nearest first")
            for p in first[where]:
                check(f"{where} {p['x']},{p['y']}: {p['cosine']:.3f}" in names(b, "nearest"),
                      f"{model}: a tile of the nearest")
        b.screenshot(os.path.join(shots, f"look-panels-{model}.png"), whole=True)
finish()
