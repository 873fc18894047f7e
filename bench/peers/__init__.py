"""The peers of bench/compare.py: one module each, with

WORK       the works that it does: name -> function(sizes, run), which returns a rate in the
           row's unit
missing()  why it cannot run here, or None
version()  what it is, in a word or two
can(row)   OPTIONAL, whether it does this row's work; default: the work is in WORK
prepare(row, run)   OPTIONAL, files that the work needs (run.folder), made once before the rounds
DEVICES    OPTIONAL, kinds of device that it computes on; default: the processor alone
load()     OPTIONAL, imports what the works need and touches no device: processes are forked then
memory(run)         OPTIONAL, the most bytes that the work had on a device

run: threads, repeats, folder, compile, device, wait: None, or what to call once all is compiled and
memory that it can do without is given back; it returns when it is this work's turn. Only processes
of their own import what is measured; the table's process calls missing and can alone.
"""
import importlib
import importlib.util
import statistics
import time

# name: module, and whether it compiles
PEERS = {"pytorch": ("pytorch", False), "pytorch-compiled": ("pytorch", True),
         "ctranslate2": ("ctranslate", False), "onnxruntime": ("onnx_runtime", False),
         "llama.cpp": ("llama_cpp", False), "llm.c": ("llm_c", False),
         "tokenizers": ("hf_tokenizers", False)}


def module(peer):
    return importlib.import_module(f"peers.{PEERS[peer][0]}")


def does(peer, row, device="cpu"):
    m = module(peer)
    if device.split(":")[0] not in getattr(m, "DEVICES", ("cpu",)):
        return False
    if PEERS[peer][1] and row.work not in m.COMPILED:
        return False
    return row.work in m.WORK and (not hasattr(m, "can") or m.can(row))


def packages_missing(*names):
    missing = [name for name in names if not importlib.util.find_spec(name)]
    return f"no Python package {', '.join(missing)}" if missing else None


def median_seconds(work, count, warm_ups=2, sync=None):
    """sync waits until the device has done what was asked of it."""
    seconds = []
    for _ in range(warm_ups + count):
        start = time.perf_counter()
        work()
        if sync:
            sync()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[warm_ups:])
