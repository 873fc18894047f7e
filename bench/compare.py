#!/usr/bin/env python3
"""Times qkv and its peers on the same work, in turn, and prints one table.

    bench/compare.py [--rows 'gpt2*,decode-*'] [--peers pytorch,llama.cpp] [--rounds 3]

A row is one piece of work (--list shows all). In every round qkv and then each peer that does this
work run it once, each in a process of its own that warms up first. The table has the median, the
least and the greatest rate of the rounds, the share of the limit that qkv measured in the same
run, and the most memory that the process had. A peer that is not installed is named as missing.
qkv itself needs neither Python nor any peer.

    bench/compare.py --device cuda [--peers pytorch]

computes on a card: rows that fill one, beside the peers that run there. Memory is qkv's on card and
host, a peer's on the card. Processes of peers are forked from one that has imported their packages,
which takes longer than the work (--fresh: each imports them itself). Those that compile do so
beforehand, all rows at once, and wait for their turn to be timed. With --after FILE nothing is
timed before there is such a file: card and processor may do other work while peers compile.
"""
import argparse
import datetime
import fnmatch
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True
import peers  # noqa: E402  (after the line above)
from rows import rows  # noqa: E402

QUICK = 4  # a quick table times a quarter of the repeats
HELD = 3600  # seconds that a process which has compiled waits for its turn


class Failed(Exception):
    """A process did not answer; the text says why."""


# ---- one process -------------------------------------------------------------------------------


def environment(options):
    return dict(os.environ, OMP_NUM_THREADS=str(options.threads),
                RAYON_NUM_THREADS=str(options.threads),
                TORCHINDUCTOR_CACHE_DIR=os.path.join(options.folder, "inductor"),
                PYTORCH_NVML_BASED_CUDA_CHECK="1")


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:160] if lines else "nothing said"


def answer(command, options):
    """What the process's last line says, as JSON, and the most memory that it had in bytes."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile("w+") as said, \
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True,
                             env=environment(options)) as process:
        late = threading.Timer(options.patience, process.kill)
        late.start()
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        in_time = late.is_alive()
        late.cancel()
        said.seek(0)
        words = said.read()
    if not in_time:
        raise Failed(f"no answer in {options.patience} seconds")
    if process.returncode:
        raise Failed(last_line(words))
    return json.loads(last_line_of_all(out)), usage.ru_maxrss * 1024


def last_line_of_all(out):
    lines = [line for line in out.splitlines() if line.strip()]
    return lines[-1] if lines else "null"


def repeats(row, options):
    return max(row.repeats // QUICK, 1) if options.quick else row.repeats


def qkv_run(row, options):
    command = [options.qkv, "bench", *row.qkv, "--json", "--threads", options.threads]
    if row.option:
        command += [row.option, repeats(row, options)]
    if options.isa:
        command += ["--isa", options.isa]
    if options.device != "cpu":
        command += ["--device", options.device]
    found, memory = answer(command, options)
    rate, share = row.figures(found)
    memory = found.get("peak_device_bytes", found.get("peak_rss_bytes", memory))
    return {"rate": rate, "share": share, "memory": memory,
            "cpu": found.get("device", found["cpu"]), "products": found.get("products")}


def peer_run(row, peer, options, step):
    if options.nursery:
        return options.nursery.answers([(peer, row.name, step)])[0]
    command = [sys.executable, os.path.abspath(__file__), *options.given, "--step", step,
               "--peer", peer, "--row", row.name]
    return answer(command, options)[0]


def step(options):
    """In a process of its own: the work of one row by one peer, or what it needs beforehand."""
    row = next(row for row in rows(options.text, options.device) if row.name == options.row)
    m = peers.module(options.peer)
    options.compile = peers.PEERS[options.peer][1]
    options.repeats = repeats(row, options)
    if options.step == "prepare":
        m.prepare(row, options)
        return print("null")
    rate = m.WORK[row.work](row.sizes, options)
    of = resource.RUSAGE_CHILDREN if getattr(m, "PROGRAM", False) else resource.RUSAGE_SELF
    memory = m.memory(options) if hasattr(m, "memory") else None
    memory = memory or resource.getrusage(of).ru_maxrss * 1024
    return print(json.dumps({"rate": rate, "memory": memory, "version": m.version()}))


# ---- processes of a peer on a card, forked once its packages are there ---------------------------


class Nursery:
    """The process that forks them, as who asks for them sees it."""

    def __init__(self, options):
        command = [sys.executable, os.path.abspath(__file__), *options.given, "--step", "serve"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment(options))

    def all_answers(self, works):
        """What became of each (peer, row, step), all done at once: (its answer, why it failed)."""
        try:
            print(json.dumps(works), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        return json.loads(line) if line else [(None, "its imports failed")] * len(works)

    def answers(self, works):
        found = self.all_answers(works)
        for _, why in found:
            if why:
                raise Failed(why)
        return [answered for answered, _ in found]

    def close(self):
        self.process.communicate()


class Child:
    """A process that does one work. One that is held says when it is ready, and then waits."""

    def __init__(self, hold):
        self.out, self.said = (tempfile.TemporaryFile("w+") for _ in range(2))
        self.pid = 0
        self.ready, self.go = (os.pipe(), os.pipe()) if hold else ((), ())

    def close(self):
        for end in *self.ready, *self.go:
            os.close(end)
        self.ready = self.go = ()

    def wait_for_turn(self, options):
        """In the process itself."""
        os.write(self.ready[1], b".")
        signal.alarm(HELD)
        os.read(self.go[0], 1)
        signal.alarm(options.patience)


def forked(work, options, held=()):
    peer, row, what = work
    child = Child(what == "hold")
    child.pid = os.fork()
    if child.pid:
        if what == "hold":
            os.close(child.ready[1])  # so that reading ends with the process
            child.ready = child.ready[:1]
        return child
    for other in held:
        other.close()
    if what == "hold":
        options.wait = lambda: child.wait_for_turn(options)
    out, said = child.out, child.said
    signal.alarm(options.patience)  # nobody catches it: the process ends
    os.dup2(out.fileno(), 1)
    os.dup2(said.fileno(), 2)
    code = 1
    try:
        options.peer, options.row, options.step = peer, row, what
        step(options)
        code = 0
    except BaseException:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing of the parent's is finished here


def ended(child, options):
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    child.close()
    for file in child.out, child.said:
        file.seek(0)
    if code == 0:
        return json.loads(last_line_of_all(child.out.read())), None
    if code == -signal.SIGALRM:
        return None, f"no answer in {options.patience} seconds"
    return None, last_line(child.said.read())


class Server:
    """The nursery itself."""

    def __init__(self, options):
        self.options, self.held = options, {}

    def start(self, work):
        """The process that does this work: one that waits for its turn, or a new one."""
        peer, row, what = work
        child = self.held.pop((peer, row), None) if what == "measure" else None
        if child:
            os.write(child.go[1], b".")
            return child
        child = forked(work, self.options, self.held.values())
        if what == "hold":
            self.held[peer, row] = child
        return child

    def answer(self, work, child):
        """Of one that is held: nothing, once it is ready."""
        peer, row, what = work
        if what == "hold" and os.read(child.ready[0], 1):
            return None, None
        if what == "hold":
            del self.held[peer, row]
        return ended(child, self.options)

    def answers(self, works):
        children = [self.start(work) for work in works]
        return [self.answer(*pair) for pair in zip(works, children)]


def serve(options):
    """Line by line: the works of one line at once, then their answers. Works: (peer, row, what)."""
    server = Server(options)
    for peer in {name: None for name in choose(options.peers, list(peers.PEERS), "peer")}:
        m = peers.module(peer)
        if hasattr(m, "load") and not m.missing():
            m.load()
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(server.answers(json.loads(line))), flush=True)
    for child in server.held.values():
        os.kill(child.pid, signal.SIGKILL)


def compile_all(chosen, there, options):
    """What peers compile, for all rows at once; one that fails does so again when it is timed."""
    works = [(peer, row.name, "hold") for row in chosen for peer in there
             if peers.PEERS[peer][1] and peers.does(peer, row, options.device)]
    start = time.monotonic()
    if works:
        found = options.nursery.all_answers(works)
        print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)
        for (peer, row, _), (_, why) in zip(works, found):
            if why:
                print(f"{row}: {peer}: {why}", flush=True)
    while options.after and not os.path.exists(options.after):
        time.sleep(0.1)


# ---- one row -----------------------------------------------------------------------------------


def summary(runs):
    rates = [run["rate"] for run in runs]
    return {"rates": rates, "median": statistics.median(rates), "min": min(rates),
            "max": max(rates), "memory_bytes": max(run["memory"] for run in runs)}


def compare(row, chosen, options):
    """The row's entry in the file."""
    entry = {"name": row.name, "title": row.title, "unit": row.unit, "failed": {}, "versions": {}}
    runs = {"qkv": []}
    for peer in chosen:
        try:
            if hasattr(peers.module(peer), "prepare"):
                peer_run(row, peer, options, "prepare")
            runs[peer] = []
        except Failed as why:
            entry["failed"][peer] = str(why)
    for _ in range(options.rounds):
        runs["qkv"].append(qkv_run(row, options))
        for peer in [name for name in runs if name != "qkv" and name not in entry["failed"]]:
            try:
                run = peer_run(row, peer, options, "measure")
                runs[peer].append(run)
                entry["versions"][peer] = run["version"]
            except Failed as why:
                entry["failed"][peer] = str(why)
    entry |= {key: runs["qkv"][0][key] for key in ("cpu", "products")}
    limits = [run["rate"] / run["share"] for run in runs["qkv"] if run["share"]]
    entry["limit"] = max(limits, default=None)
    entry["runs"] = {name: summary(found) for name, found in runs.items()
                     if found and name not in entry["failed"]}
    return entry


# ---- the table ---------------------------------------------------------------------------------


def number(x):
    return f"{x:.0f}" if x >= 1000 else f"{x:.1f}" if x >= 10 else f"{x:.3f}"


def show(entry):
    limit, ours = entry["limit"], entry["runs"]["qkv"]
    made = f", products {entry['products']}" if entry["products"] else ""
    bound = f"; limit {number(limit)}" if limit else ""
    print(f"{entry['title']}, {entry['unit']}{bound}{made}")
    for name, run in entry["runs"].items():
        share = f"{100 * run['median'] / limit:5.0f} %" if limit else ""
        rate, memory = (ours[key] / run[key] for key in ("median", "memory_bytes"))
        other = "" if name == "qkv" else f"{rate:8.2f} {memory:8.2f}"
        line = (f"  {name:17} {number(run['median']):>9} {number(run['min']):>9} "
                f"{number(run['max']):>9} {share:>8} {run['memory_bytes'] / 1e6:8.0f} MB {other}")
        print(line.rstrip())
    for name, why in entry["failed"].items():
        print(f"  {name:17} failed: {why}")
    print(flush=True)


def said_by(*command):
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        return said.stdout.strip() or None
    except OSError:
        return None


def commit():
    here = os.path.dirname(os.path.abspath(__file__))
    return said_by("git", "-C", here, "describe", "--always", "--dirty")


def save(table, name):
    with open(name + ".new", "w", encoding="utf-8") as f:
        json.dump(table, f, indent=1)
        f.write("\n")
    os.replace(name + ".new", name)


def choose(asked, all_, what):
    if not asked:
        return all_
    found = []
    for pattern in asked.split(","):
        hits = fnmatch.filter(all_, pattern)
        if not hits and pattern != "none":
            sys.exit(f"compare.py: no {what} \"{pattern}\": there are {', '.join(all_)}")
        found += [hit for hit in hits if hit not in found]
    return found


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("--qkv", default="build/qkv", help="the command")
    p.add_argument("--rows", default="", help="names with commas; * and ? match; all of them, on a "
                   "card those that fill it (card-*)")
    p.add_argument("--peers", default="", help="likewise; none: qkv alone; all that are installed")
    p.add_argument("--isa", help="instruction sets that qkv may use, as avx2; peers use their own")
    p.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    p.add_argument("--rounds", type=int, help="3; on a card 1")
    p.add_argument("--quick", action="store_true", help="a quarter of the repeats in a process")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--text", nargs="*", default=[], help="UTF-8 files: adds rows of tokenisers")
    p.add_argument("--folder", default="build/peers", help="for the files that peers need")
    p.add_argument("--out", default="build/bench.json", help="the table, as JSON")
    p.add_argument("--patience", type=int,
                   help="seconds that a process may take: 900; on a card 120")
    p.add_argument("--fresh", action="store_true",
                   help="on a card: every process of a peer imports its packages itself")
    p.add_argument("--after", metavar="FILE",
                   help="on a card: compile at once, and time once there is this file")
    p.add_argument("--list", action="store_true", help="show the rows and who does them")
    for hidden in "--step", "--peer", "--row":
        p.add_argument(hidden, help=argparse.SUPPRESS)
    options = p.parse_args()
    card = options.device != "cpu"
    options.given, options.nursery, options.wait = sys.argv[1:], None, None
    options.rounds = options.rounds or (1 if card else 3)
    options.patience = options.patience or (120 if card else 900)
    if card and not options.rows:
        options.rows = "card-*"
    options.folder = os.path.abspath(options.folder)
    return options


def main():
    options = parse()
    if options.step:
        return serve(options) if options.step == "serve" else step(options)
    all_rows = {row.name: row for row in rows(options.text, options.device)}
    chosen = choose(options.rows, list(all_rows), "row")
    names = choose(options.peers, list(peers.PEERS), "peer")
    missing = {name: why for name in names if (why := peers.module(name).missing())}
    there = [name for name in names if name not in missing]
    if options.list:
        for name in chosen:
            does = [peer for peer in there if peers.does(peer, all_rows[name], options.device)]
            print(f"{name:20} {all_rows[name].title:60} {', '.join(does)}")
        return 0
    version = said_by(options.qkv, "--version")
    if not version:
        sys.exit(f"compare.py: {options.qkv} is no qkv that runs; --qkv names it, make builds it")
    os.makedirs(options.folder, exist_ok=True)
    table = {"commit": commit(), "started": datetime.datetime.now().isoformat(timespec="seconds"),
             "threads": options.threads, "rounds": options.rounds, "quick": options.quick,
             "device": options.device,
             "missing": missing, "versions": {"qkv": version.split()[-1]}, "rows": []}
    failed = False
    print(f"{options.rounds} rounds, {options.threads} threads, commit {table['commit']}")
    for name, why in missing.items():
        print(f"missing: {name}: {why}")
    print(f"\n{'':19} {'median':>9} {'least':>9} {'greatest':>9} {'share':>8} {'memory':>11} "
          f"{'qkv: rate':>8} {'memory':>7}\n")
    if options.device != "cpu" and not options.fresh and there:
        options.nursery = Nursery(options)
        compile_all([all_rows[name] for name in chosen], there, options)
    for name in chosen:
        row, start = all_rows[name], time.monotonic()
        does = [peer for peer in there if peers.does(peer, row, options.device)]
        try:
            entry = compare(row, does, options)
        except Failed as why:
            if not options.nursery:
                sys.exit(f"compare.py: qkv: {name}: {why}")
            print(f"{row.title}\n  {'qkv':17} failed: {why}\n", flush=True)
            failed = True
            continue
        entry["seconds"] = round(time.monotonic() - start)
        show(entry)
        table["cpu"] = entry["cpu"]
        table["versions"] |= entry.pop("versions")
        table["rows"].append(entry)
        save(table, options.out)
    if options.nursery:
        options.nursery.close()
    print(table.get("cpu", ""))
    for name, version in table["versions"].items():
        print(f"{name}: {version}")
    print(f"written: {options.out}")
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("compare.py: stopped; the rows above are in the file")
