"""Writes tests/golden/pytorch/*: files of torch.save in both formats and every protocol, what they
hold as .safetensors by the reference library, and files that must be refused.

    python tools/make-golden/pytorch.py tests/golden/pytorch
"""
import collections
import io
import os
import pickle
import struct
import sys
import tarfile
import warnings
import zipfile

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

warnings.simplefilter("ignore")
out = sys.argv[1]
torch.manual_seed(1)
LEGACY = {"_use_new_zipfile_serialization": False}


def flatten(value, prefix="", into=None):
    """What the reader is to make of it."""
    into = {} if into is None else into
    if isinstance(value, torch.Tensor):
        into[prefix or "tensor"] = value.detach().clone().contiguous()
    elif isinstance(value, dict):
        for key, part in value.items():
            flatten(part, f"{prefix}.{key}" if prefix else str(key), into)
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            flatten(part, f"{prefix}.{i}" if prefix else str(i), into)
    return into


def save(name, value, **options):
    torch.save(value, f"{out}/{name}", **options)


# ---- every type, strides, sharing, containers ---------------------------------------------------

n = torch.arange(6).reshape(2, 3)
types = collections.OrderedDict(
    f64=n.double() / 3, f32=n.float() / 4 - 0.5, f16=n.half() / 4, bf16=n.bfloat16() / 4,
    i64=n * -(2**40), i32=(n * -100000).to(torch.int32), i16=(n * -1000).to(torch.int16),
    i8=(n - 3).to(torch.int8), u8=(n + 250).to(torch.uint8), bool=n % 2 == 1,
    scalar=torch.tensor(2.5), empty=torch.zeros(0, 3))
newer = dict(u16=(n + 65000).to(torch.uint16), u32=n.to(torch.uint32), u64=n.to(torch.uint64))

base = torch.arange(24).float()
cube = base.reshape(2, 3, 4)
views = {
    "base": base, "cube": cube, "transposed": cube.transpose(0, 2), "row": cube[1, 2],
    "column": cube[:, :, 1], "every.other": base[1::2], "expanded": base[:3].expand(4, 3),
    "one": cube[1:2, :, 3:], "swapped": (n.double() / 7).t(), "bits": (n % 2 == 0).t(),
    "empty.view": cube[:, 3:, :], "last": base[23],
}

linear = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
optimizer = torch.optim.Adam(linear.parameters())
linear(torch.ones(4, 2)).sum().backward()
optimizer.step()
nested = {
    "state_dict": linear.state_dict(), "epoch": 3, "lr": 0.1, "note": "caf\u00e9", "none": None,
    "optimizer": optimizer.state_dict(), "parameter": torch.nn.Parameter(torch.ones(2)),
    "list": [torch.zeros(1), (torch.ones(2, dtype=torch.int32), "text", [2**70, -1, -(2**40)])],
    "size": torch.Size([2, 3]), "dtype": torch.float16, "device": torch.device("cpu"),
    "set": {1, 2}, "bytes": b"abc", "counter": collections.Counter("aab"),
    "\u03b1": torch.ones(1),
    7: {"deep": {"er": torch.full((1, 1, 2), 9.0)}},
}

for name, value in (("types", types), ("views", views), ("nested", nested)):
    save_file(flatten(value), f"{out}/{name}.safetensors", metadata={"format": "pt"})
    save(f"{name}.pth", value)
    save(f"{name}-legacy.pth", value, **LEGACY)
save_file(newer, f"{out}/newer.safetensors", metadata={"format": "pt"})
save("newer.pth", newer)
save("newer-legacy.pth", newer, **LEGACY)
save("nested-p5.pth", nested, pickle_protocol=5)
for protocol in (3, 4):
    save(f"nested-legacy-p{protocol}.pth", nested, pickle_protocol=protocol, **LEGACY)
save("tensor.pth", torch.arange(3.0))
save("none.pth", {"epoch": 3})


# ---- a whole model, for the command --------------------------------------------------------------

config = GPT2Config(n_embd=4, n_layer=1, n_head=2, n_positions=8, vocab_size=20, bos_token_id=0,
                    eos_token_id=0)
model = GPT2LMHeadModel(config)
model.save_pretrained(f"{out}/gpt2")
os.remove(f"{out}/gpt2/generation_config.json")
torch.save(model.state_dict(), f"{out}/gpt2/pytorch_model.bin")

# What no PyTorch of today writes: Python 2's texts and pairs, a view of a storage, a GPU's class,
# the functions of old; numbers follow in the file.
def opcode_text(s):
    return b"U" + bytes([len(s)]) + s.encode()


def legacy_head():
    return b"".join(pickle.dumps(x, 2) for x in (
        0x1950A86A20F9469CFC6C, 1001,
        {"protocol_version": 1001, "little_endian": True,
         "type_sizes": {"short": 2, "int": 4, "long": 4}}))


def storage(view, module=b"torch.cuda"):
    return (b"(" + opcode_text("storage") + b"c" + module + b"\nFloatStorage\n"
            + opcode_text("41") + opcode_text("cuda:0") + b"K\x06" + view + b"tQ")


old_view = b"(" + opcode_text("42") + b"K\x02K\x04t"
pair = (b"(" + opcode_text("whole") + b"ctorch._utils\n_rebuild_tensor\n("
        + storage(b"N") + b"K\x00K\x02K\x03\x86K\x03K\x01\x86tRt")
pair2 = (b"(" + opcode_text("part") + b"ctorch._utils\n_rebuild_tensor_v2\n("
         + storage(old_view, b"torch") + b"K\x01K\x03\x85K\x01\x85\x89NtRt")
old = b"\x80\x02ccollections\nOrderedDict\n](" + pair + pair2 + b"e\x85R."
with open(f"{out}/python2.pth", "wb") as f:
    f.write(legacy_head() + old + b"\x80\x02](" + opcode_text("41") + b"e."
            + struct.pack("<q6f", 6, *range(6)))
save_file({"whole": torch.arange(6.0).reshape(2, 3), "part": torch.arange(3.0, 6.0)},
          f"{out}/python2.safetensors", metadata={"format": "pt"})

# ---- refused ------------------------------------------------------------------------------------


def rezip(data, name, change=lambda n, d: d, drop=(), method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(io.BytesIO(data)) as z, \
            zipfile.ZipFile(f"{out}/{name}", "w", method) as w:
        for i in z.infolist():
            if not any(d in i.filename for d in drop):
                info = zipfile.ZipInfo(i.filename)
                info.compress_type = method
                w.writestr(info, change(i.filename, z.read(i)))


EXTRAS = (".data", ".format", ".storage", "version")


def save_small(name, value, **options):
    """Without the archive's padding and records of its own."""
    file = io.BytesIO()
    torch.save(value, file, **options)
    rezip(file.getvalue(), name, drop=EXTRAS)


class Calls:
    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


class Settings:
    pass


class Table(dict):
    """A checkpoint's odds and ends: a class as a key, a dict's and a list's heirs, state."""


class Row(list):
    pass


def evil(name, value, **options):
    write = save if options.get("_use_new_zipfile_serialization") is False else save_small
    write(f"refused-{name}.pth", {"weight": torch.ones(2), "x": value}, **options)


evil("system", Calls(os.system, "touch pwned"))
evil("eval", Calls(eval, "__import__('os').system('touch pwned')"), pickle_protocol=4)
evil("load", Calls(torch.load, "other.pth"))
evil("class", Settings())
settings = Settings()
settings.table, settings.rows = Table(a=torch.ones(3), b=2), Row([1, 2, torch.ones(1)])
save_small("objects.pth", {
    "weight": torch.ones(2), "callbacks": {Settings: {"best": torch.ones(1)}},
    "settings": settings, "table": Table(a=1), "rows": [Row("ab"), Row()]})
attributes = torch.ones(2)
attributes.note = "kept by PyTorch"
save_small("attributes.pth", {"w": attributes})
evil("sparse", torch.eye(2).to_sparse())
evil("complex", torch.ones(2, dtype=torch.complex64))
evil("negative", torch._neg_view(torch.ones(2)))
evil("system-legacy", Calls(os.system, "touch pwned"), **LEGACY)
save_small("refused-module.pth", torch.nn.Linear(1, 1))
with open(f"{out}/refused-plain.pth", "wb") as f:
    f.write(b"cos\nsystem\n(S'touch pwned'\ntR.")

evil("hooks", Calls(torch._utils._rebuild_parameter, torch.ones(1), True, {0: "hook"}))

cycle = {"a": torch.ones(1)}
cycle["self"] = cycle
save_small("refused-cycle.pth", cycle)
deep = torch.ones(1)
for _ in range(100):
    deep = [deep]
save_small("refused-deep.pth", deep)
twice = torch.ones(1)
save_small("refused-names.pth", {"a.b": twice, "a": {"b": twice}})
save_small("refused-key.pth", {(1, 2): twice})
huge = [twice]
for _ in range(40):
    huge = [huge, huge]
save_small("refused-laughs.pth", huge)
save_small("refused-unfolded.pth", {"a": torch.ones(1).expand(2**20, 2**20)})
jit = torch.jit.script(torch.nn.ReLU())
buffer = io.BytesIO()
torch.jit.save(jit, buffer)


rezip(buffer.getvalue(), "refused-script.pth", drop=("debug_pkl",))
plain = io.BytesIO()
torch.save({"w": torch.ones(2)}, plain)
plain = plain.getvalue()
rezip(plain, "rezipped.pth")
zipfile.ZIP64_LIMIT, usual = 0, zipfile.ZIP64_LIMIT
rezip(plain, "zip64.pth", drop=EXTRAS)
zipfile.ZIP64_LIMIT = usual
rezip(plain, "refused-big.pth",
      lambda name, d: b"big" if name.endswith("byteorder") else d)
rezip(plain, "refused-deflated.pth", method=zipfile.ZIP_DEFLATED)
rezip(plain, "refused-missing.pth", drop=("data/0",))
rezip(plain, "refused-size.pth", lambda name, d: d + d if name.endswith("data/0") else d)
rezip(plain, "refused-other.pth", drop=("data.pkl",))

small = io.BytesIO()
torch.save({"w": torch.ones(2)}, small, **LEGACY)
with open(f"{out}/refused-big-legacy.pth", "wb") as f:
    f.write(small.getvalue().replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89"))
with open(f"{out}/refused-tar.pth", "wb") as f:
    f.write(tarfile.TarInfo("sys_info").tobuf() + bytes(1024))
with open(f"{out}/refused-pickle.pth", "wb") as f:
    pickle.dump({"a": [1, 2]}, f, 2)
print(sum(os.path.getsize(f"{d}/{f}") for d, _, names in os.walk(out) for f in names), "bytes")
