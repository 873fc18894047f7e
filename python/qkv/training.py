"""Training jobs."""
from __future__ import annotations

import os
from ctypes import byref, cast, c_void_p

from . import c
from .arrays import Array
from .context import Call, Context, Core, Event, Handle, Record, core_of, text_at, to_bytes, to_str
from .errors import ArgumentError
from .images import Image
from .model import metrics_of
from .options import Setting, describe, plain, settings_json
from .tensors import Tape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Literal, Mapping, Optional, Union

    from .typed import Option


class Training(Record):
    """What training reports. kind: "step" after each update, "eval" after an evaluation (metrics,
    best), "note" (text is a sentence), "sample" (name, and text or image).

    loss, lr and norm are of the last update; seconds are used, left remain (None: not known);
    steps: planned, 0: not known."""

    __slots__ = ('kind', 'step', 'steps', 'loss', 'lr', 'norm', 'seconds', 'left', 'unit',
                 'units_per_s', 'gflops', 'metrics', 'best', 'text', 'name', 'image', 'terms')
    kind: Literal['step', 'eval', 'note', 'sample']
    step: int
    steps: int
    loss: float
    lr: float
    norm: float
    seconds: float
    left: Optional[float]
    unit: str
    units_per_s: float
    gflops: float
    metrics: dict[str, float]
    best: bool
    text: str
    name: str
    image: Optional[Image]
    terms: dict[str, float]


class Pass(Record):
    """A forward and backward pass over samples first .. first + count - 1 of a batch. done: False
    as it begins, when probes may be added; True when its backward pass is over."""

    __slots__ = ('step', 'phase', 'first', 'count', 'done')
    step: int
    phase: int
    first: int
    count: int
    done: bool


class Result(Record):
    """What a run came to. stopped: by on_event, cancel or Ctrl-C; resume=True goes on. metrics: of
    the saved model on the held-out data."""

    __slots__ = ('directory', 'step', 'seconds', 'stopped', 'early', 'was_finished', 'best_step',
                 'metrics', 'train_loss', 'unit')
    directory: str
    step: int
    seconds: float
    stopped: bool
    early: bool
    was_finished: bool
    best_step: int
    metrics: dict[str, float]
    train_loss: float
    unit: str


_KINDS = ('step', 'eval', 'note', 'sample')


def _event_of(core: Core, address: int) -> Training:
    e = c.qkv_train_event.from_address(address)
    made = Training(
        kind=_KINDS[e.kind], step=e.step, steps=e.steps, loss=e.loss, lr=e.lr, norm=e.norm,
        seconds=e.seconds, left=e.left if e.left >= 0 else None, unit=text_at(e.unit),
        units_per_s=e.units_per_s, gflops=e.gflops, best=e.best, text=text_at(e.text), name='',
        metrics={}, image=None, terms={})
    if e.metrics:
        made.metrics = metrics_of(c.qkv_metrics.from_address(e.metrics))
    if e.terms:
        terms = c.qkv_terms.from_address(e.terms)
        made.terms = {text_at(t.name): t.value for t in terms.item[:terms.count]}
    if e.sample:
        sample = c.qkv_sample.from_address(e.sample)
        made.name = text_at(sample.name)
        made.text = text_at(sample.text, sample.length) if sample.text else ''
        if sample.image:
            i = c.qkv_image.from_address(sample.image)
            made.image = Image.__new__(Image)
            made.image._copy(core, Array(i.data, (i.height, i.width, i.channels), '|u1', None))
    return made


def _job(kind: str, settings: Mapping[str, Option], ctx: Optional[Context]) -> Handle:
    core = core_of(ctx)
    with core:
        job = core.create(c.qkv_job_create, c.qkv_job_destroy, core.pointer,
                          to_bytes(kind, 'kind'))
        text = settings_json(settings)
        core.check(c.qkv_job_set_json(job.pointer, text, len(text)))
    return job


def train(kind: str, *, on_event: Optional[Callable[[Union[Training, Event]], object]] = None,
          watch: Optional[Callable[[Tape, Pass], object]] = None,
          ctx: Optional[Context] = None, **settings: Option) -> Result:
    """Trains a model: train("lm", data="novel.txt", minutes=5, out="runs/novel").

    kind and settings are those of `qkv train KIND`, with "_" for "-": qkv.settings(kind) lists
    them. The run lies in `out`, a model directory; the same call with resume=True goes on to the
    same bits.

    on_event receives a Training, and, while data are prepared, an Event. watch(tape, pass) is
    called as each pass begins and ends: tape.probe and tape.attention add probes, which stay. False
    of either saves and stops. An exception in one of them, and Ctrl-C, save and stop, too, and are
    raised.
    """
    job = _job(kind, settings, ctx)
    result = c.qkv_train_result()
    with Call(job.core, on_event=on_event) as call:
        def on_train(_: Any, address: int) -> Any:
            return on_event(_event_of(job.core, address)) if on_event else None

        def on_pass(_: Any, tape: int, address: int) -> Any:
            p = c.qkv_train_pass.from_address(address)
            seen = Tape(job.core, tape, call)
            try:
                if watch and watch(seen, Pass(step=p.step, phase=p.phase, first=p.first,
                                              count=p.count, done=p.done)) is False:
                    job.core.cancelled = True
            finally:
                seen._end()
            return c.QKV_OK
        if watch:  # it never fails: the next event ends the run, which saves
            c.qkv_job_watch(job.pointer, cast(call.callback(
                'qkv_train_watch_fn', on_pass, stop=c.QKV_OK), c_void_p), None)
        call(c.qkv_job_run, job.pointer, call.callback('qkv_train_fn', on_train), None,
             byref(result))
        return Result(
            directory=os.fsdecode(to_bytes(plain('out', settings.get('out', '')))),
            step=result.step,
            seconds=result.seconds, stopped=result.stopped, early=result.early,
            was_finished=result.was_finished, best_step=result.best_step,
            metrics=metrics_of(result.metrics), train_loss=result.train_loss,
            unit=text_at(result.unit))


def check(kind: str, *, ctx: Optional[Context] = None, **settings: Option) -> None:
    """Raises what train() would raise of the settings alone, without reading data."""
    job = _job(kind, settings, ctx)
    job.core.do(c.qkv_job_check, job.pointer)


def kinds() -> list[str]:
    """The kinds of jobs: "classify" .. "vqgan"."""
    found: list[str] = []
    while c.qkv_job_kind(len(found)):
        found.append(to_str(c.qkv_job_kind(len(found))))
    return found


def settings(kind: str) -> list[Setting]:
    """The settings of a kind of job."""
    if kind not in kinds():
        raise ArgumentError('"%s" is no kind of job: %s expected' % (kind, ', '.join(kinds())))
    name, found, i = to_bytes(kind), [], 0
    presets = c.qkv_job_presets(name)
    while c.qkv_job_table(name, i):
        found += describe(c.qkv_job_table(name, i), presets)
        i += 1
    return found


_TABLES = {'open': 'qkv_pipeline', 'chat': 'qkv_chat', 'imagine': 'qkv_pipeline_sample',
           'convert': 'qkv_convert', 'quantize': 'qkv_quantize', 'shortlist': 'qkv_make_shortlist',
           'change': 'qkv_pipeline_look'}


def options(call: str) -> list[Setting]:
    """The keyword arguments of a method of Model, or of convert, quantize and shortlist."""
    name = _TABLES.get(call, 'qkv_pipeline_' + call) + '_table'
    if not hasattr(c, name):
        raise ArgumentError('"%s" has no table of options' % call)
    return describe(getattr(c, name)())
