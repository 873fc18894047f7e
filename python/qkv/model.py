"""Models of model directories."""
from __future__ import annotations

from ctypes import byref, c_void_p

from . import c
from .arrays import Array
from .chat import Chat
from .context import Call, Context, Handle, core_of, text_at, to_bytes, to_str
from .errors import ArgumentError
from .looking import Looking
from .options import Options, values_of
from .tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Optional, Union

    from .typed import Option, Path, Shape


class Parameter:
    """A parameter of a model. numpy.asarray(parameter) is a read-only view of its memory."""

    def __init__(self, handle: Handle, pointer: int):
        self._handle, self._pointer = handle, pointer
        self.name = to_str(c.qkv_param_name(pointer))
        self.shape: Shape = tuple(
            c.qkv_param_dim(pointer, i) for i in range(c.qkv_param_ndim(pointer)))

    def _array(self, writable: bool) -> Array:
        with self._handle.core as core:
            address = c.qkv_param_data(self._pointer)
            if not address:
                raise core.failure()
        return Array(address, self.shape, '<f4', self._handle, writable)

    @property
    def array(self) -> Array:
        """Its memory, read-only; it keeps the model."""
        return self._array(False)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__

    @property
    def weights(self) -> str:
        """How the numbers are kept: "f32", "bf16", "int8" or "int4"."""
        with self._handle.core:
            return to_str(c.qkv_weights_name(c.qkv_param_weights(self._pointer)))

    def edit(self) -> Edit:
        """with parameter.edit() as array: array is a memory that may be written; at the end the
        library learns that it has changed."""
        return Edit(self)

    def __repr__(self) -> str:
        return 'Parameter(%r, shape=%s)' % (self.name, self.shape)


class Edit:
    def __init__(self, parameter: Parameter):
        self._parameter = parameter

    def __enter__(self) -> Array:
        return self._parameter._array(True)

    def __exit__(self, *_: Any) -> None:
        with self._parameter._handle.core:
            c.qkv_param_touch(self._parameter._pointer)


class Parameters:
    """The parameters of a model by name: a read-only mapping."""

    def __init__(self, handle: Handle):
        self._handle = handle
        with handle.core:
            self._params = c.qkv_model_params(c.qkv_pipeline_model(handle.pointer))

    def __getitem__(self, name: str) -> Parameter:
        with self._handle.core:
            found = c.qkv_params_find(self._params, to_bytes(name, 'name'))
            if not found:
                raise KeyError(name)
            return Parameter(self._handle, found)

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            with self._handle.core:
                name = to_str(c.qkv_param_name(c.qkv_params_at(self._params, i)))
            yield name

    def __len__(self) -> int:
        return int(c.qkv_params_count(self._params))

    def __contains__(self, name: object) -> bool:
        with self._handle.core:
            return isinstance(name, str) and bool(c.qkv_params_find(
                self._params, to_bytes(name, 'name')))

    def keys(self) -> list[str]:
        return list(self)

    def values(self) -> list[Parameter]:
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Parameter]]:
        return [(name, self[name]) for name in self]

    @property
    def elements(self) -> int:
        """The number of all parameters' numbers."""
        return int(c.qkv_params_elements(self._params))


class Model(Looking):
    """A model directory: Model("runs/novel").

    weights: how matrices are kept in memory: "auto", "f32", "bf16", "int8" or "int4". adapter: one
    directory or a list of them, "DIR" or "DIR=WEIGHT", which add up. pack: True copies each f32
    matrix once for faster products, for many short inputs.
    """

    def __init__(self, directory: Path, *, ctx: Optional[Context] = None, **options: Option):
        core = core_of(ctx)
        self.directory = to_str(to_bytes(directory, 'directory'))
        o = Options(core, 'qkv_pipeline', options)
        out = c_void_p()
        with Call(core) as call:
            call(c.qkv_pipeline_open_with, byref(out), core.pointer,
                 to_bytes(directory, 'directory'), o.reference)
        self._handle = Handle(core, out.value, c.qkv_pipeline_close)

    @property
    def kind(self) -> str:
        """The "model_type" of config.json: "gpt2"."""
        handle = self._use()
        with handle.core:
            return to_str(c.qkv_model_type_name(c.qkv_model_type_of(
                c.qkv_pipeline_model(handle.pointer))))

    @property
    def config(self) -> dict[str, str]:
        """The configuration, by the keys of config.json, as text."""
        handle = self._use()
        with handle.core:
            model = c.qkv_pipeline_model(handle.pointer)
            table = c.qkv_model_type_config(c.qkv_model_type_of(model))
            return values_of(table, c.qkv_model_config(model)) if table else {}

    @property
    def labels(self) -> list[str]:
        """The names of a classifier's classes."""
        handle = self._use()
        with handle.core:
            model = c.qkv_pipeline_model(handle.pointer)
            return [to_str(c.qkv_model_label(model, i))
                    for i in range(c.qkv_model_label_count(model))]

    @property
    def tokenizer(self) -> Tokenizer:
        handle = self._use()
        pointer = handle.core.get(c.qkv_pipeline_tokenizer, handle.pointer)
        if not pointer:
            raise ArgumentError('%s: a model of texts with a tokenizer expected' % self.directory)
        return Tokenizer._of(handle, pointer)

    @property
    def parameters(self) -> Parameters:
        """The parameters by name: model.parameters["wte.weight"]."""
        return Parameters(self._use())

    def evaluate(self, **options: Option) -> dict[str, float]:
        """The metrics on held-out data: those that training stored, or those that the options name
        (file=.., source=.., target=.. of `qkv eval`). The unit's name has the number of units."""
        handle = self._use()
        o = Options(handle.core, 'qkv_pipeline_evaluate', options)
        out = c.qkv_metrics()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_evaluate, handle.pointer, o.reference, byref(out))
        return metrics_of(out)

    def chat(self, **options: Union[Option, Mapping[str, object]]) -> Chat:
        """Begins a conversation. The options are those of `qkv chat`: system, tokens, greedy,
        temperature, chat_template .."""
        return Chat(self._use(), options)

    def save(self, directory: Path) -> None:
        """Writes the model, as it is now, and its tokenizer to another directory."""
        handle = self._use()
        path = to_bytes(directory, 'directory')
        with handle.core as core:
            core.check(c.qkv_hub_save(c.qkv_pipeline_model(handle.pointer), path, None))
            tokenizer = c.qkv_pipeline_tokenizer(handle.pointer)
            if tokenizer:
                core.check(c.qkv_tokenizer_save(tokenizer, path))

    def __repr__(self) -> str:
        return 'Model(%r)' % self.directory + (' closed' if self.closed else '')


def metrics_of(metrics: Any) -> dict[str, float]:
    found: dict[str, float] = {text_at(item.name): item.value
                               for item in metrics.item[:metrics.count]}
    if metrics.unit:
        found[text_at(metrics.unit)] = metrics.scored
    return found
