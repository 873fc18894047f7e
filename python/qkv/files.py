"""Converting models, shortlists, scores, reports of runs."""
from __future__ import annotations

from ctypes import byref

from . import c
from .context import Call, Context, Record, as_utf8, core_of, to_bytes
from .errors import ArgumentError
from .options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Sequence

    from .typed import Option, Path


def convert(source: Path, target: Path, *, ctx: Optional[Context] = None,
            **options: Option) -> None:
    """Converts a model directory or file, as `qkv convert` does: dtype, to, shard .."""
    core = core_of(ctx)
    o = Options(core, 'qkv_convert', options)
    with Call(core) as call:
        call(c.qkv_convert, core.pointer, to_bytes(source, 'source'), to_bytes(target, 'target'),
             o.reference)


def quantize(source: Path, target: Path, *, ctx: Optional[Context] = None,
             **options: Option) -> None:
    """Writes a model in 8 or 4 bits, as `qkv quantize` does: to="int8" or "int4"."""
    core = core_of(ctx)
    o = Options(core, 'qkv_quantize', options)
    with Call(core) as call:
        call(c.qkv_quantize, core.pointer, to_bytes(source, 'source'), to_bytes(target, 'target'),
             o.reference)


class Shortlist(Record):
    """What shortlist() made: pairs learnt from, source tokens, lines of the file."""

    __slots__ = ('pairs', 'sources', 'entries')
    pairs: int
    sources: int
    entries: int


def shortlist(directory: Path, file: Path, *, ctx: Optional[Context] = None,
              **options: Option) -> Shortlist:
    """Learns a shortlist for the translator in a directory: source=.., target=.."""
    core = core_of(ctx)
    o = Options(core, 'qkv_make_shortlist', options)
    made = c.qkv_made_shortlist()
    with Call(core) as call:
        call(c.qkv_make_shortlist, core.pointer, to_bytes(directory, 'directory'),
             to_bytes(file, 'file'), o.reference, byref(made))
    return Shortlist(pairs=made.pairs, sources=made.sources, entries=made.entries)


def _score(name: str, hypotheses: Sequence[str], references: Sequence[str], ctx: Optional[Context],
           options: Any) -> Any:
    core = core_of(ctx)
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError('hypotheses and references: lists of texts expected')
    lines, others = list(hypotheses), list(references)
    if len(lines) != len(others):
        raise ArgumentError('%d hypotheses and %d references: equal numbers expected' % (
            len(lines), len(others)))
    score = core.create(getattr(c, name + '_create'), getattr(c, name + '_destroy'), core.pointer,
                        options)
    add = getattr(c, name + '_add')
    with core:
        for line, other in zip(lines, others):
            a, b = as_utf8(line, 'hypotheses'), as_utf8(other, 'references')
            core.check(add(score.pointer, a, len(a), b, len(b)))
        out = getattr(c, name + '_score')()
        getattr(c, name + '_result')(score.pointer, byref(out))
    return out


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, tokenized: bool = False,
         lowercase: bool = False, ctx: Optional[Context] = None) -> float:
    """BLEU, as sacrebleu computes it."""
    options = c.qkv_bleu_options(tokenized=tokenized, lowercase=lowercase)
    return float(_score('qkv_bleu', hypotheses, references, ctx, byref(options)).bleu)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False,
         ctx: Optional[Context] = None) -> float:
    """chrF2, as sacrebleu computes it."""
    return float(_score('qkv_chrf', hypotheses, references, ctx, lowercase).chrf)


def report(directory: Path, path: Path, *, ctx: Optional[Context] = None) -> None:
    """Writes a page of a training run: curves, samples, settings."""
    core = core_of(ctx)
    core.do(c.qkv_run_report, core.pointer, to_bytes(directory, 'directory'),
            to_bytes(path, 'path'))
