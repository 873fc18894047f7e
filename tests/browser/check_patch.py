"""check_patch.py - pages of `qkv look --patch` in a browser: what mouse and keys tell, the command
prints."""
import json
import os
import subprocess
import sys

from browser import Browser, check, finish, near

qkv, work, photo, other, drawn = sys.argv[1:6]
shots = os.environ["QKV_SHOTS"]
HOSTILE = "the <script>window.hacked = 1</script> \"cat'\" \u202e"
READY = "[...document.querySelectorAll('[id^=patch]')].filter(e => e.tagName !== 'SCRIPT')" \
        ".every(e => e.dataset.ready)"


def patched(model, *arguments):
    """The command's answer in JSON, and its page."""
    path = os.path.join(work, model + "-patch.html")
    done = subprocess.run([qkv, "look", os.path.join(work, model), *arguments, "--json", "--out",
                           path, "--quiet"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout), path


def told(b, grid=0):
    return b.js(f"return document.querySelector('#patch{grid} .told').textContent")


def number(b, grid=0):
    return float(told(b, grid).rsplit(":", 1)[1].split(",")[0])


def state(b, grid=0):
    return b.js(f"const s = document.getElementById('patch{grid}').look.s;"
                "return [s.layer, s.position]")


with Browser() as b:
    # A language model: every number by call, one by mouse, the next by keys; hostile text is text.
    answer, page = patched("lm", HOSTILE + " sat", "--patch", HOSTILE + " ran")
    b.open(page)
    b.wait(READY, "lm: the grid")
    check(b.js("return typeof window.hacked") == "undefined", "hostile text did not run")
    values = answer["grids"][0]["values"]
    for layer, row in enumerate(values):
        for position, value in enumerate(row):
            b.js("document.getElementById('patch0').look.choose(...arguments)", layer, position)
            near([number(b)], [value], 1e-4, f"lm: {layer}, {position}")
    b.js("document.querySelectorAll('#patch0 [data-key=patch-0] rect')[2].dispatchEvent("
         "new MouseEvent('mouseover', {bubbles: true}))")
    check(state(b) == [0, 2], "the mouse chooses")
    near([number(b)], [values[0][2]], 1e-4, "lm: by mouse")
    b.js("document.querySelector('#patch0 svg').focus()")
    b.key("Right")
    b.key("Down")
    check(state(b) == [1, 3], f"keys choose: {state(b)}")
    near([number(b)], [values[1][3]], 1e-4, "lm: by keys")
    check(b.js("return document.querySelectorAll('#patch0 rect.chosen').length") == 1, "one mark")
    b.screenshot(os.path.join(shots, "patch-lm.png"))

    # A translator has a grid for each stack.
    answer, page = patched("tr", "the cat sat", "--patch", "the mat sat")
    b.open(page)
    b.wait(READY, "tr: the grids")
    for i, grid in enumerate(answer["grids"]):
        b.js(f"document.getElementById('patch{i}').look.choose(1, 1)")
        near([number(b, i)], [grid["values"][1][1]], 1e-4, "tr: " + grid["stack"])

    # Images: a map for each layer, the class token by keys.
    for model, lead in (("vit", 1), ("mae", 1)):
        answer, page = patched(model, photo, "--patch", other)
        b.open(page)
        b.wait(READY, model + ": the grids")
        values = answer["grids"][0]["values"]
        b.js("document.querySelectorAll('#patch0 [data-key=patch-0-1] rect').forEach(r => "
             "r.dispatchEvent(new MouseEvent('click', {bubbles: true})))")
        layer, position = state(b)
        check(layer == 1 and position >= lead, model + ": the mouse chooses a patch")
        near([number(b)], [values[layer][position]], 1e-4, model + ": by mouse")
        b.js("document.querySelector('#patch0 svg').focus()")
        b.key("Home")
        check("[CLS]" in told(b), model + ": the class token is told")
        near([number(b)], [values[1][0]], 1e-4, model + ": the class token")
        b.screenshot(os.path.join(shots, f"patch-{model}.png"))

    # A VQGAN: both towers, whose layers have names; a prior: what it reads before the codes.
    answer, page = patched("codes", photo, "--patch", drawn, "--place", "mid.*")
    b.open(page)
    b.wait(READY, "codes: the grids")
    check(abs(answer["clean"] - answer["corrupt"]) > 1e-3, "codes: the answers differ")
    for i, grid in enumerate(answer["grids"]):
        check(grid["layers"] == ["mid.block_1", "mid.attn_1", "mid.block_2"],
              f"codes: the layers of the {grid['stack']}: {grid['layers']}")
        b.js(f"document.querySelectorAll('#patch{i} [data-key=patch-{i}-1] rect')[5].dispatchEvent("
             "new MouseEvent('click', {bubbles: true}))")
        check(state(b, i) == [1, 5], "codes: the mouse chooses a code's square")
        check(told(b, i).startswith("Layer mid.attn_1, patch "), "codes: " + told(b, i))
        near([number(b, i)], [grid["values"][1][5]], 1e-4, "codes: " + grid["stack"])
    b.screenshot(os.path.join(shots, "patch-codes.png"))
    answer, page = patched("prior", photo, "--patch", drawn)
    b.open(page)
    b.wait(READY, "prior: the grid")
    values = answer["grids"][0]["values"]
    b.js("document.querySelectorAll('#patch0 [data-key=patch-0-1] rect')[2].dispatchEvent("
         "new MouseEvent('click', {bubbles: true}))")
    check(state(b) == [1, 3], "prior: the third code is position 3")
    near([number(b)], [values[1][3]], 1e-4, "prior: by mouse")
    b.js("document.querySelector('#patch0 svg').focus()")
    b.key("Home")
    check(", start: " in told(b), "prior: the start is told: " + told(b))
    near([number(b)], [values[1][0]], 1e-4, "prior: the start")
    b.screenshot(os.path.join(shots, "patch-prior.png"))
finish()
