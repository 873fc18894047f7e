#!/usr/bin/env python3
"""serial.py - how much of a training step, a search or a token runs on one thread alone.

    bench/serial.py QKV [train|decode|translate|.. [arguments of that bench]]

Records `qkv bench train --threads 2` with perf and counts the samples of both threads by function,
in the second half of the run without its last tenth, where steps are made: ask for enough of them.
What the calling thread spends in a function beyond the other thread was not shared: the sum of
these differences is the serial part, from above, since uneven shares of a region count too. Waiting
inside libgomp counts as work of neither. Needs perf."""
import collections
import os
import subprocess
import sys
import tempfile

FIRST, LAST = 0.5, 0.9  # of the run


def samples(path):
    """(thread, time, function) of each sample."""
    command = ["perf", "script", "-i", path, "-F", "tid,time,ip,sym,dso"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        name = " ".join(words[3:])
        if "JIT" in name or "perf-" in name or "[unknown]" in name:
            name = "oneDNN's code"
        yield int(words[0]), float(words[1].rstrip(":")), name


def count(rows):
    """Samples by function of the calling thread, then of the other."""
    begin, end = min(r[1] for r in rows), max(r[1] for r in rows)
    caller = rows[0][0]
    both = collections.Counter(), collections.Counter()
    for thread, time, name in rows:
        share = (time - begin) / (end - begin)
        if FIRST < share < LAST and "libgomp" not in name:
            both[thread != caller][name] += 1
    return both


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: bench/serial.py QKV [train|decode|translate|.. [arguments of that bench]]")
    what = sys.argv[2:] or ["train"]
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "perf.data")
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-o", path, sys.argv[1], "bench",
                        *what, "--threads", "2"], check=True)
        caller, other = count(list(samples(path)))
    total = sum(caller.values())
    alone = {name: caller[name] - other[name] for name in caller}
    print(f"\nserial: {100 * sum(max(n, 0) for n in alone.values()) / total:.2f} % of the caller's "
          f"{total} samples, at most")
    for name in sorted(alone, key=alone.get, reverse=True)[:8]:
        print(f"{100 * alone[name] / total:6.2f} %  {name}")


if __name__ == "__main__":
    main()
