"""taming.py - taming-transformers' own code: files that it saves, files that qkv wrote for it. Its
folder must be in PYTHONPATH; what it needs of other libraries is stood in for here."""
import importlib
import os
import sys
import types

import torch

from .evaluate import Tape, check, check_close, empty_folder, tensors_of
from .named import check_same, stir

F16 = {"double_z": False, "z_channels": 256, "resolution": 256, "in_channels": 3, "out_ch": 3,
       "ch": 128, "ch_mult": [1, 1, 2, 2, 4], "num_res_blocks": 2, "attn_resolutions": [16],
       "dropout": 0.0}
SMALL = F16 | {"z_channels": 24, "resolution": 32, "ch": 32, "ch_mult": [1, 2, 2],
               "num_res_blocks": 1, "attn_resolutions": [16, 8]}
LOSS = "taming.modules.losses.vqperceptual.VQLPIPSWithDiscriminator"


class Callback:
    """A checkpoint of PyTorch Lightning has such classes for keys."""


def instantiate(config):
    module, name = config["target"].rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**config.get("params", {}))


def stand_in(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


def their_code():
    """VQModel, Net2NetTransformer, LPIPS; None where taming-transformers is not to be found."""
    stand_in("pytorch_lightning", LightningModule=torch.nn.Module)
    stand_in("main", instantiate_from_config=instantiate)
    stand_in("einops", rearrange=None)
    stand_in("requests")
    import transformers # pylint: disable=import-outside-toplevel
    vars(transformers).setdefault("top_k_top_p_filtering", None) # gone since 4.39
    try:
        vqgan = importlib.import_module("taming.models.vqgan")
    except ImportError:
        return None
    lpips = importlib.import_module("taming.modules.losses.lpips")
    original = lpips.models.vgg16
    lpips.models.vgg16 = lambda **_: original(weights=None, init_weights=False)
    lpips.LPIPS.load_from_pretrained = lambda self, name="": None
    torch.nn.Module.print = print
    return (vqgan.VQModel,
            importlib.import_module("taming.models.cond_transformer").Net2NetTransformer,
            lpips.LPIPS)


def loss(ndf, layers):
    return {"target": LOSS, "params": {"disc_start": 0, "disc_ndf": ndf, "disc_num_layers": layers}}


def last(x):
    return x.permute(0, 2, 3, 1)


def check_near(what, got, expected):
    """Through the forty convolutions of f16's decoder, one behind another, rounding grows."""
    error = ((got - expected).abs().max() / expected.abs().max()).item()
    check(what, error <= 2e-5, f"{error:.2g} of the largest")


def check_numbers(qkv, folder, model, side):
    """Codes' vectors and decoded images, theirs in double and ours. The model is in double from
    then on."""
    pixels = torch.rand(2, 3, side, side) * 2 - 1
    model.double()
    with torch.no_grad():
        z = model.quant_conv(model.encoder(pixels.double())).float()
        decoded = model.decode(z.double()).float()
    b, c, h, w = z.shape
    with Tape(qkv.library, folder) as t:
        x = t.reals(last(pixels))
        ours = t.read(t.call("qkv_vqgan_encode", x), b, h, w, c)
        check_near("encoded", ours, last(z))
        ours = t.read(t.call("qkv_vqgan_decode", t.reals(last(z))), b, side, side, 3)
        check_near("decoded", ours, last(decoded))


def check_back(maker, path, state):
    """Their own loading of what qkv wrote: nothing missing but LPIPS, nothing unknown."""
    model = maker()
    written = torch.load(path)["state_dict"]
    odd = model.load_state_dict(written, strict=False)
    missing = [k for k in odd.missing_keys if ".perceptual_loss." not in k]
    check("their model: no key missing or unknown", not missing and not odd.unexpected_keys,
          str(missing[:3] + odd.unexpected_keys[:3]))
    model.init_from_ckpt(path)
    now = model.state_dict()
    check("what they load is what they saved",
          all(torch.equal(now[k], state[k]) and now[k].dtype == written[k].dtype for k in written))


def vqgans(qkv, scratch, vq_model):
    for name, dd, codes, width, ndf, layers in (
            ("small", SMALL, 40, 16, 8, 2), ("f16 of the paper", F16, 1024, 256, 64, 3)):
        print(f"taming: VQModel, {name}")
        folder = empty_folder(scratch, "vqgan")

        def make(dd=dd, codes=codes, width=width, ndf=ndf, layers=layers):
            return vq_model(dd, loss(ndf, layers), codes, width)

        model = stir(make())
        state = model.state_dict()
        own = {k: v for k, v in state.items() if "perceptual_loss" not in k}
        for end, options in (".ckpt", {}), ("-old.ckpt", {"_use_new_zipfile_serialization": False}):
            path, out = (os.path.join(folder, x + end) for x in ("theirs", "ours"))
            torch.save({"epoch": 3, "global_step": 7, "state_dict": state,
                        "callbacks": {Callback: {"best": torch.ones(1)}}}, path, **options)
            qkv.run("convert", path, out, "--skip-objects",
                    "--set", f"resolution={dd['resolution']}")
            check_same(f"theirs{end}", tensors_of(out), own)
        check_numbers(qkv, out, model, dd["resolution"] if dd is SMALL else 64)
        back = os.path.join(folder, "back.ckpt")
        qkv.run("convert", out, back, "--to", "taming")
        check_same("--to taming", torch.load(back)["state_dict"], own)
        check_back(make, back, state)


def priors(qkv, scratch, vq_model, net2net):
    print("taming: Net2NetTransformer")
    folder = empty_folder(scratch, "prior")
    first = {"target": f"{vq_model.__module__}.VQModel", "params": {
        "ddconfig": SMALL, "lossconfig": loss(8, 2), "n_embed": 40, "embed_dim": 16}}
    gpt = {"target": "taming.modules.transformer.mingpt.GPT", "params": {
        "vocab_size": 40, "block_size": 64, "n_layer": 2, "n_head": 4, "n_embd": 32}}

    def make():
        return net2net(gpt, first, "__is_unconditional__")

    model = stir(make())
    state = model.state_dict()
    theirs, out, back = (os.path.join(folder, x) for x in ("theirs.ckpt", "ours", "back.ckpt"))
    torch.save({"state_dict": state, "epoch": 1}, theirs)
    qkv.run("convert", theirs, out, "--set", "num_attention_heads=4", "--set", "resolution=32")
    parts = tensors_of(out) | {f"first_stage_model.{k}": v
                               for k, v in tensors_of(os.path.join(out, "vqgan")).items()}
    check_same("both models", parts, {k: v for k, v in state.items() if not k.endswith("attn.mask")
                                      and "perceptual_loss" not in k})
    ids = torch.randint(40, (1, 63))
    with torch.no_grad():
        expected = model.transformer(ids)[0][0]
    check_close("logits", qkv.library.logits(out, ids[0].tolist(), 40), expected)
    qkv.run("convert", out, back, "--to", "taming")
    check_same("--to taming", torch.load(back)["state_dict"],
               {k: v for k, v in state.items() if "perceptual_loss" not in k})
    check_back(make, back, state)


def distances(qkv, scratch, lpips):
    print("taming: LPIPS")
    folder = empty_folder(scratch, "lpips")
    model = stir(lpips().eval())
    for p in model.parameters():
        p.data = p.data.abs() * 0.1 if p.shape[0] == 1 else torch.randn(p.shape) * 0.05
    state = model.state_dict()
    trunk = {"features." + k.split(".", 2)[2]: v for k, v in state.items() if k[:3] == "net"}
    lins = {k: v for k, v in state.items() if k[:3] == "lin"}
    files = {"vgg16.pth": trunk | {"classifier.0.weight": torch.ones(1)}, "vgg.pth": lins,
             "whole.ckpt": {"state_dict": {f"loss.perceptual_loss.{k}": v
                                           for k, v in state.items()}}}
    for name, value in files.items():
        torch.save(value, os.path.join(folder, name))
    a, b = (torch.rand(2, 3, 32, 48) * 2 - 1 for _ in range(2))
    with torch.no_grad():
        expected = model(a, b).mean()
    for name, flags in (("vgg16.pth", ["--lpips", os.path.join(folder, "vgg.pth")]),
                        ("whole.ckpt", ["--under", "state_dict.loss.perceptual_loss"])):
        out = os.path.join(folder, "of-" + name)
        qkv.run("convert", os.path.join(folder, name), out, *flags)
        check_same(name, tensors_of(out), {k: v for k, v in state.items() if "scaling" not in k})
        with Tape(qkv.library, out) as t:
            d = t.call("qkv_perceptual_distance", t.reals(last(a)), t.reals(last(b)))
            check_close("distance", t.read(d, 1), expected[None])


def all_of_it(qkv, _, scratch):
    code = their_code()
    if not code:
        print("taming: not checked: no taming-transformers in PYTHONPATH")
        return
    vq_model, net2net, lpips = code
    torch.manual_seed(7)
    vqgans(qkv, scratch, vq_model)
    priors(qkv, scratch, vq_model, net2net)
    distances(qkv, scratch, lpips)
