"""llama.cpp's llama-bench: environment LLAMA_BENCH, or llama-bench in PATH. Its models are GPT-2's
shapes with random weights, in GGUF files that the Python package gguf writes once."""
import json
import os
import shutil
import statistics
import subprocess

from peers import packages_missing

COMPILED = ()
PROGRAM = True  # another program's memory counts
TYPES = {"f32": "F32", "bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
LAYERS, HEADS, WIDTH, POSITIONS, VOCAB = 12, 12, 768, 1024, 50257


def program():
    return os.environ.get("LLAMA_BENCH") or shutil.which("llama-bench")


def missing():
    if not program():
        return "LLAMA_BENCH names no program, and PATH has no llama-bench"
    if not os.path.exists(program()):
        return f"LLAMA_BENCH: no file {program()}"
    return packages_missing("gguf", "numpy")


def version():
    said = subprocess.run([program(), "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in (said.stderr + said.stdout).splitlines() if "version" in line]
    return lines[0].strip() if lines else os.path.basename(program())


def can(row):
    return row.sizes["weights"] in TYPES and row.sizes.get("batch", 1) == 1


def model_file(weights, run):
    return os.path.join(run.folder, f"gpt2-{weights}.gguf")


def tensors():
    """Every tensor's name and shape; matrices come as (out, in)."""
    c = WIDTH
    yield "token_embd.weight", (VOCAB, c)
    yield "position_embd.weight", (POSITIONS, c)
    for i in range(LAYERS):
        for name, out, in_ in (("attn_qkv", 3 * c, c), ("attn_output", c, c),
                               ("ffn_up", 4 * c, c), ("ffn_down", c, 4 * c)):
            yield f"blk.{i}.{name}.weight", (out, in_)
            yield f"blk.{i}.{name}.bias", (out,)
        for name in "attn_norm", "ffn_norm":
            yield f"blk.{i}.{name}.weight", (c,)
            yield f"blk.{i}.{name}.bias", (c,)
    yield "output_norm.weight", (c,)
    yield "output_norm.bias", (c,)


def prepare(row, run):
    """Matrices in the row's type, the output's among them; positions and vectors in f32."""
    name = model_file(row.sizes["weights"], run)
    if os.path.exists(name):
        return
    import gguf
    import numpy

    kind = getattr(gguf.GGMLQuantizationType, TYPES[row.sizes["weights"]])
    w = gguf.GGUFWriter(name + ".new", "gpt2")
    w.add_block_count(LAYERS)
    w.add_context_length(POSITIONS)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(4 * WIDTH)
    w.add_head_count(HEADS)
    w.add_layer_norm_eps(1e-5)
    w.add_tokenizer_model("gpt2")  # made-up words: llama-bench asks for a vocabulary's size alone
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list([f"w{i}" for i in range(VOCAB)])
    w.add_token_merges(["w 0"])
    w.add_bos_token_id(VOCAB - 1)
    w.add_eos_token_id(VOCAB - 1)
    w.add_add_bos_token(False)
    rng = numpy.random.default_rng(0)
    for tensor, shape in tensors():
        data = rng.normal(0, 0.02, shape).astype("float32")
        if len(shape) == 2 and "position" not in tensor and kind.name != "F32":
            w.add_tensor(tensor, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            w.add_tensor(tensor, data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.replace(name + ".new", name)


def bench(sizes, run, *arguments):
    command = [program(), "-m", model_file(sizes["weights"], run), "-t", str(run.threads), "-o",
               "json", "-ngl", "0", *map(str, arguments)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if said.returncode:
        raise SystemExit(f"{os.path.basename(program())} ended with status {said.returncode}")
    return statistics.median(json.loads(said.stdout)[0]["samples_ts"])


def decode(sizes, run):
    return bench(sizes, run, "-p", 0, "-n", run.repeats, "-d", sizes["prompt"], "-r", 3)


def prompt(sizes, run):
    return bench(sizes, run, "-p", sizes["length"], "-n", 0, "-r", run.repeats)


WORK = {"decode": decode, "prompt": prompt}
