"""check_look.py - pages of `qkv look` in a browser: what is chosen is what the command prints."""
import base64
import json
import os
import subprocess
import sys

from browser import Browser, check, finish, near
from looks import READY, Looks, press, row, weights_of

qkv, work, photo = sys.argv[1:4]
looks = Looks(qkv, work)
look, page_of, agree = looks.look, looks.page_of, looks.agree
shots = os.environ["QKV_SHOTS"]
HOSTILE = "the <script>window.hacked = 1</script> \"cat'\" \u202e sat <img src=x onerror=hacked=1>"


def patch_error(b, model, expected, at, rank):
    """The largest difference of a patch in the drawing to the image with that one code, decoded."""
    columns = expected["columns"]
    codes = [p["code"] for p in expected["positions"]]
    codes[at] = expected["positions"][at]["next"][rank]["code"]
    grid, image = os.path.join(work, "grid.csv"), os.path.join(work, "grid.png")
    with open(grid, "w", encoding="ascii") as f:
        for i in range(0, len(codes), columns):
            print(*codes[i:i + columns], sep=",", file=f)
    subprocess.run([qkv, "decode", os.path.join(work, model, "vqgan"), grid, "--out", image,
                    "--quiet"], check=True)
    with open(image, "rb") as f:
        url = "data:image/png;base64," + base64.b64encode(f.read()).decode()
    return b.js("""
        const [url, rank, row, column, rows, columns] = arguments;
        const shown = document.querySelectorAll('#prior-next-figure svg image')[rank + 1];
        const pixels = async (href) => {
            const image = new Image(), canvas = document.createElement('canvas');
            image.src = href;
            await image.decode();
            canvas.width = image.naturalWidth, canvas.height = image.naturalHeight;
            const paper = canvas.getContext('2d'), w = image.naturalWidth / columns;
            paper.drawImage(image, 0, 0);
            const h = image.naturalHeight / rows;
            return paper.getImageData(column * w, row * h, w, h).data;
        };
        return Promise.all([pixels(url), pixels(shown.getAttribute('href'))]).then(([x, y]) =>
            x.length === y.length ? x.reduce((m, v, i) => Math.max(m, Math.abs(v - y[i])), 0) : -1);
        """, url, rank, at // columns, at % columns, expected["rows"], columns)


with Browser() as b:
    # A language model: hostile text is shown; tokens by mouse and keys; heads by a click.
    seconds = b.open(page_of("lm", HOSTILE))
    check(seconds < 2, f"opened in {seconds:.1f} s")
    b.wait(READY, "lm: the explorer")
    check(b.js("return typeof window.hacked") == "undefined", "hostile text did not run")
    tokens = look("lm", HOSTILE)["axes"][0]["labels"]
    check(b.js("return document.querySelectorAll('.tokens button').length") == len(tokens),
          "a button a token")
    for layer, head, at in ((0, 0, 3), (1, 1, len(tokens) - 1), (1, -1, 5)):
        agree(b, "lm", [HOSTILE], 0, "attentions", layer, head, at)
    b.click(".tokens button[data-at='4']")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 4, "a click chooses")
    b.key("Right")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 5, "so do keys")
    check(b.js("return document.querySelector('#lens caption').textContent").startswith(
        "Position 5"), "the lens follows")
    shown = b.js("return [...document.querySelectorAll('.bars li')].map(e => "
                 "[Number(e.dataset.at), Number(e.querySelector('.number').textContent)])")
    weights = row(b)
    near([p for _, p in shown], [weights[j] for j, _ in shown], 6e-4, "the numbers in the list")
    b.click("[data-key='map0-0-1']")
    check(b.js("const s = document.getElementById('explorer0').look.s; return [s.layer, s.head]")
          == [0, 1], "a small map opens its head")
    b.js("document.querySelector('.controls input').click()")
    column = row(b)
    at = b.js("return document.getElementById('explorer0').look.s.at")
    wanted = [look("lm", HOSTILE, "--layer", "0", "--head", "1", "--at", str(i))["row"]["weights"]
              [at] for i in (at, len(tokens) - 1)]
    near([column[at], column[-1]], wanted, 1.1e-3, "who attends to it")
    norms = look("lm", HOSTILE)["panels"]["stream"]["norms"]
    check(b.js("return qkv.json('stream-data').norms") == norms, "the numbers of a panel")
    check(b.js("return document.querySelectorAll('#stream-figure [data-key=stream] rect').length")
          == len(norms) * len(tokens), "the drawing of a panel")
    b.screenshot(os.path.join(shots, "look-lm.png"))

    looks.by_hand(b, "lm", ["the cat sat on"], 0, 1)

    # BERT: predictions of the hidden word, the model's own and by logit lens.
    given = ["the [MASK] sat"]
    looks.by_hand(b, "mlm", given, 0, 1)
    agree(b, "mlm", given, 0, "attentions", 1, 0, 2)
    press(b, ".tokens button[data-at='2']")
    found = look("mlm", *given)
    lens = b.js("return [...document.querySelectorAll('#lens tbody tr')].map(r => "
                "[...r.querySelectorAll('small')].map(e => parseFloat(e.textContent)))")
    near(lens, [[100 * g["p"] for g in layer[2]] for layer in
                found["lens"] + [found["predictions"]]], 0.06, "mlm: the lens at [MASK]")
    near(b.js("return [...document.querySelectorAll('h2#predictions ~ details tbody tr')]"
              ".map(r => Number(r.children[3].textContent))"),
         [g[0]["p"] for g in found["predictions"]], 6e-4, "mlm: the table of predictions")
    b.screenshot(os.path.join(shots, "look-mlm.png"))

    # A translator: three kinds of attention, lines between source and target.
    given = ["the cat sat", "--second", "die katze sass"]
    for i, name in enumerate(("encoder_attentions", "decoder_attentions", "cross_attentions")):
        looks.by_hand(b, "tr", given, i, 1)
        agree(b, "tr", given, i, name, 0, 1, 2)
    strong = [w for i in range(look("tr", *given)["axes"][1]["count"])
              for w in weights_of(os.path.join(work, "inside.safetensors"))(
                  "cross_attentions.0", 1, i) if w > 0.05]
    near(sorted(b.js("return [...document.querySelectorAll('#lines2 line')].map(e => "
                     "Number(e.getAttribute('stroke-opacity')))")), sorted(strong), 1.1e-3,
         "tr: a line for each weight above 0.05")
    check(b.js("return document.querySelectorAll('#lines2 line').length") > 0, "alignment lines")
    b.screenshot(os.path.join(shots, "look-translator.png"))
    b.media("type", "print")
    check(b.js("return getComputedStyle(document.querySelector('.tokens button')).display")
          != "none", "tokens are printed")
    check(b.js("return getComputedStyle(document.querySelector('.save')).display") == "none",
          "buttons that save are not")
    b.media("type", "")
    b.cdp("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1,
          mobile=False)
    check(b.js("return document.documentElement.scrollWidth") <= 400,
          "a narrow window does not scroll sideways")
    b.cdp("Emulation.clearDeviceMetricsOverride")

    # Images: patches by a click and by keys; the class token; hidden patches cannot be chosen.
    for model in ("vit", "cct", "mae", "color"):
        b.open(page_of(model, photo))
        b.wait(READY, model + ": the explorer")
        name = look(model, photo)["attentions"][0]["name"]
        looks.by_hand(b, model, [photo], 0, look(model, photo)["axes"][0].get("cells", [5])[0])
        agree(b, model, [photo], 0, name, 0, 1, 2)
        check(b.js("return document.querySelectorAll('svg.patches').length") > 0, "patches")
        press(b, "svg.patches rect[data-cell='5']")
        before = b.js("return document.getElementById('explorer0').look.s.at")
        b.js("document.querySelector('svg.patches').focus()")
        b.key("Right")
        after = b.js("return document.getElementById('explorer0').look.s.at")
        if after == before:  # the last one that is visible
            b.key("Left")
            after = b.js("return document.getElementById('explorer0').look.s.at")
        check(before != after, model + ": arrow keys move the patch")
        check(b.js("return document.querySelector('svg.patches image') !== null"),
              model + ": the image is beneath")
        b.screenshot(os.path.join(shots, f"look-{model}.png"))

    # A VQGAN: heat maps over the codes; cells that have the same code by mouse and keys; panels.
    among = ["--among", os.path.join(work, "bars-images-idx3-ubyte")]
    for i, stack in enumerate(("encoder", "decoder")):
        looks.by_hand(b, "vqgan", [photo], i, 6, 0, stack + ".mid.attn_1.weights")
    b.open(page_of("vqgan", photo, *among))
    b.wait(READY, "vqgan: the explorers")
    for i, name in enumerate(("encoder_attentions", "decoder_attentions")):
        agree(b, "vqgan", [photo], i, name, 0, 0, 5)
    check(b.js("return document.querySelector('#explorer1 option').textContent")
          == "decoder.mid.attn_1", "a layer of a VQGAN has its name")
    panels = look("vqgan", photo, *among)["panels"]
    check(list(panels) == ["codes-grid", "codes-usage", "codes-alone", "codes-where",
                           "codes-nearest", "codes-together", "codes-verdict"], "panels")
    for name, numbers in panels.items():
        check(b.js("return qkv.json(arguments[0] + '-data')", name) == numbers,
              f"{name}: the page's numbers")
        check(b.js("return document.querySelector('#' + arguments[0] + '-figure svg') !== null",
                   name), f"{name}: a drawing")
    codes = panels["codes-grid"]["codes"]
    shown = b.js("return [...document.querySelectorAll('[data-key^=code-] text')]"
                 ".map(e => Number(e.textContent))")
    check(shown == [c for line in codes for c in line], "every cell shows its code")
    b.hover("[data-key='code-1,2']")
    alone = panels["codes-alone"]["codes"].index(codes[1][2])
    check(b.js("return document.querySelector('#codes-grid-line image').getAttribute('href') === "
               "document.querySelectorAll('#codes-alone-figure image')[arguments[0]]"
               ".getAttribute('href')", alone), "the code alone is beside what is said of it")
    line = b.js("return document.getElementById('codes-grid-line').textContent")
    here = sum(row_.count(codes[1][2]) for row_ in codes)
    total = panels["codes-usage"]["counts"][codes[1][2]]
    check(line == f"1,2: code {codes[1][2]}, {here} of 16 patches; {total} of 1024 in the set.",
          f"what is said of a cell: {line}")
    check(b.js("return document.querySelectorAll('[data-key^=code-].same').length") == here,
          "cells of the same code are marked")
    press(b, "[data-key='code-1,2'] text")
    b.js("document.querySelector('#codes-grid-figure svg').focus()")
    b.key("Down")
    check(b.js("return document.getElementById('codes-grid-line').textContent").startswith(
        f"2,2: code {codes[2][2]},"), "arrow keys choose a cell")
    for name in ("input", "reconstruction"):
        check(len(panels["codes-verdict"][name]) == 2, "a logit a patch")
    b.screenshot(os.path.join(shots, "look-vqgan.png"), whole=True)

    # A prior: the codes that it expected, where it looked for them.
    given = [photo, "--top", "3"]
    looks.by_hand(b, "prior", given, 0, 6)
    b.open(page_of("prior", *given))
    b.wait(READY, "prior: the explorer")
    agree(b, "prior", given, 0, "attentions", 0, 1, 7)
    found = look("prior", *given)
    expected = found["panels"]["prior-next"]
    check(b.js("return qkv.json('prior-next-data')") == expected, "prior-next: the numbers")
    check(b.js("return document.querySelectorAll('#prior-next-figure svg image').length") == 4,
          "an image for each rank, and the image")
    b.hover("#prior-next-explorer rect[data-cell='6']")
    state = ("return [...document.querySelectorAll('#prior-next-explorer .codes li')].map(e => "
             "[Number(e.dataset.code), parseFloat(e.querySelector('.number').textContent)])")

    def listed(at):
        p = expected["positions"][at]
        return [[p["code"], 100 * p["p"]]] + [[n["code"], 100 * n["p"]] for n in p["next"]]

    near(b.js(state), listed(6), 6e-3, "the distribution at a position, by the mouse")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 6,
          "the position before it is the one that looked for it")
    check(b.js("return document.querySelector('#prior-next-explorer .codes li svg')"
               ".getAttribute('viewBox')") == "2 1 1 1", "the patch of that position")
    press(b, "#prior-next-explorer rect[data-cell='9']")
    b.js("document.querySelector('#prior-next-explorer svg.patches').focus()")
    b.key("Right")
    near(b.js(state), listed(10), 6e-3, "and by keys")
    check(patch_error(b, "prior", expected, 10, 1) == 0, "a patch is what its code decodes to")
    near([n["p"] for n in found["predictions"][10]],
         [n["p"] for n in expected["positions"][10]["next"]], 1e-5, "the lens ends with the same")
    check(b.js("return [...document.querySelectorAll('#explorer0 rect.cell')].filter(e => "
               "e.getAttribute('fill-opacity') === '0.7').map(e => Number(e.dataset.cell))")
          == [10, 11, 12, 13, 14], "codes that it could not see are covered")
    b.screenshot(os.path.join(shots, "look-prior.png"), whole=True)

    # A forecaster: encoder, causal decoder and cross-attention over the series, drawn as a curve.
    given = [os.path.join(work, "series.csv"), "--hold-back", "10"]
    for i, name in enumerate(("encoder_attentions", "decoder_attentions", "cross_attentions")):
        looks.by_hand(b, "forecast", given, i, 1)
        agree(b, "forecast", given, i, name, 1, 2, 1)
        inside = weights_of(os.path.join(work, "inside.safetensors"))
        near(row(b, i), inside(f"{name}.1", 2, 1), 1.1e-3, f"forecast: the captured {name}")
    answer = look("forecast", *given)
    check(answer["series"]["first"] == 266 and len(answer["series"]["values"]) == 34,
          "the last 34 rows are shown")
    check(answer["series"]["values"][24:] == [[i * i % 37, 40 - i % 24] for i in range(290, 300)],
          "rows held back are the truth")
    forecast = subprocess.run([qkv, "forecast", os.path.join(work, "forecast"), "--file",
                               os.path.join(work, "known.csv"), "--json"], check=True,
                              stdout=subprocess.PIPE).stdout
    near([v for r in answer["series"]["answers"][24:] for v in r],
         [v for r in json.loads(forecast)["rows"] for v in r], 1e-4, "qkv forecast's forecast")
    check(b.js("return document.querySelectorAll('#explorer0 rect.band').length") == 6,
          "a band for each token")
    b.js("document.querySelector('#explorer0 rect.band[data-at=\"3\"]')"
         ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 3, "a click chooses")
    b.js("document.querySelector('#explorer0 svg.series').focus()")
    b.key("Right")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 4, "so do keys")
    w = row(b)
    shades = b.js("return [...document.querySelectorAll('#explorer0 rect.band')]"
                  ".map(e => Number(e.getAttribute('fill-opacity')))")
    near(shades, [0.8 * v / max(w) for v in w], 6e-4, "bands are shaded by weight")
    b.js("const e = document.querySelector('#explorer0 select[aria-label=column]'); e.value = 1;"
         "e.dispatchEvent(new Event('change'))")
    check(b.js("return document.querySelectorAll('#explorer0 svg.series path').length") == 3,
          "what was read, the truth and the forecast are curves")
    b.screenshot(os.path.join(shots, "look-forecast.png"))
finish()
