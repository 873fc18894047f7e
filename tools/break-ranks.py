#!/usr/bin/env python3
"""Breaks training on two ranks at random moments: a rank is killed, the launcher gets Ctrl-C or is
killed, a rank stands still, the disk is full (a small one in memory, which root can mount). Each
run must end by itself, and one rank must go on from its checkpoint to the bits of a run that nobody
broke.

    tools/break-ranks.py --qkv build/qkv --times 20

Prints a line for each run, with the seconds until nothing of it was left; exit 1 if any failed."""
import argparse
import os
import random
import signal
import shutil
import subprocess
import sys
import tempfile
import time

LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
             "mpich": ["mpirun.mpich"]}
KINDS = ["rank killed", "Ctrl-C", "launcher killed", "rank stands still", "disk full"]
MOST = 60  # seconds until a broken run has ended


def ranks(qkv, out):
    """The processes of the run into this directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if os.readlink(f"/proc/{pid}/exe") == qkv and out.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def fill_disk(disk):
    with open(disk + "/filler", "wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            pass


def break_run(kind, launcher, victims, disk):
    if kind == "disk full":
        fill_disk(disk)
    elif kind == "Ctrl-C":
        launcher.send_signal(signal.SIGINT)
    elif kind == "launcher killed":
        launcher.kill()
    else:
        os.kill(random.choice(victims), signal.SIGKILL if "killed" in kind else signal.SIGSTOP)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--qkv", default="build/qkv")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    qkv = os.path.realpath(a.qkv)
    random.seed(a.seed)
    folder = tempfile.mkdtemp()
    text, whole = os.path.join(folder, "text"), os.path.join(folder, "whole")
    with open(text, "w") as f:
        f.writelines(f"{i} times {i + 1} is {i * (i + 1)}\n" for i in range(3000))
    train = [qkv, "train", "lm", "--data", text, "--tokenizer", "char", "--model", "nano",
             "--length", "16", "--batch", "8", "--steps", "1500", "--threads", "1", "--shards", "4",
             "--save-every", "5", "--quiet", "--out"]
    subprocess.run(train + [whole], check=True)
    model = open(whole + "/model.safetensors", "rb").read()
    known = [m for m in LAUNCHERS if shutil.which(LAUNCHERS[m][0])]
    failed = 0
    for i in range(a.times):
        kind, mpi = KINDS[i % len(KINDS)], known[i // len(KINDS) % len(known)]
        disk = os.path.join(folder, f"disk{i}")
        out = os.path.join(disk, "run")
        os.mkdir(disk)
        if kind == "disk full":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk], check=True)
        run = subprocess.Popen(LAUNCHERS[mpi] + ["-n", "2"] + train + [out],
                               env=dict(os.environ, QKV_DIST_SILENCE="8"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(random.uniform(1, 6))
        victims, begun = ranks(qkv, out), time.time()
        if victims:
            break_run(kind, run, victims, disk)
        while (run.poll() is None or ranks(qkv, out)) and time.time() - begun < MOST:
            time.sleep(0.1)
        took, left = time.time() - begun, ranks(qkv, out)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        said = [line for line in run.stderr.read().splitlines() if line.startswith("qkv: ")]
        if kind == "disk full" and victims:
            os.remove(disk + "/filler")
            failed += len(said) != 1
        again = subprocess.run(train + [out, "--resume"], capture_output=True, text=True)
        same = again.returncode == 0 and open(out + "/model.safetensors", "rb").read() == model
        failed += bool(left) or not same
        print(f"{mpi}, {kind if victims else 'ended before'}: {took:.1f} s, "
              f"{'hung, ' if left else ''}{'same bits' if same else 'LOST ' + again.stderr}; "
              f"{' | '.join(said)}", flush=True)
        if kind == "disk full":
            subprocess.run(["umount", disk], check=True)
    shutil.rmtree(folder)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
