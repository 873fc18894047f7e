"""The annotations: mypy finds nothing wrong in the package and its examples, and finds what a user
does wrong. Each "type: ignore" below names a mistake: one that mypy does not find is an error."""
import importlib.util
import os
import re
import subprocess
import sys
import unittest

import base
import qkv
from base import Test

USER = '''
from pathlib import Path
from typing import Any, Union

import numpy
from typing_extensions import assert_type

import qkv
from qkv import c


def on_event(event: Union[qkv.Training, qkv.Event]) -> bool:
    return event.kind != "step" or event.step < 10


settings: dict[str, Any] = dict(data="novel.txt", steps=20)
assert_type(qkv.train("lm", on_event=on_event, **settings), qkv.Result)
qkv.train("lm", data=[Path("a"), "b"], lr=numpy.float32(0.1), resume=True, init=None)
with qkv.Model(Path("runs/novel"), weights="int8") as model:
    assert_type(model, qkv.Model)
    assert_type(model.generate("Once", tokens=20), str)
    assert_type(model.translate("Hello"), str)
    assert_type(model.translate(["Hello"]), list[str])
    assert_type(model.translate(line for line in open("lines")), list[str])
    assert_type(model.fill("a [MASK]"), list[list[qkv.Guess]])
    assert_type(model.fill(["a [MASK]"])[0], list[list[qkv.Guess]])
    assert_type(model.segment(numpy.zeros((2, 2), numpy.uint8)).image, Union[qkv.Image, None])
    assert_type(model.decode(model.encode("a.png")), qkv.Image)
    assert_type(model.chat(variables={"tools": []}).say("Hi").text, str)
    assert_type(model.config, dict[str, str])
    model.forecast([[1.0, 2.0], [3, 4]]).values.numpy()
    model.probe("Once", lambda tape: tape.probe("*", lambda name, x: numpy.asarray(x) * 0))
    with model.parameters["tokens"].edit() as array:
        array.memory[0, 0] = 0.5
c.qkv_version(None)

model.generate(3)  # type: ignore[arg-type]
model.generate("Once", on_text=print, tokens={})  # type: ignore[arg-type]
model.genrate("Once")  # type: ignore[attr-defined]
model.fill("a [MASK]", top=3)  # type: ignore[call-overload]
model.translate(3)  # type: ignore[call-overload]
model.look("Once").page(3)  # type: ignore[arg-type]
model.chat().say("Hi").txt  # type: ignore[attr-defined]
qkv.train("lm", on_event=lambda e: e.step)  # type: ignore[union-attr]
qkv.Image(3)  # type: ignore[arg-type]
for name in model.parameters:
    name.shape  # type: ignore[attr-defined]
'''


class Types(Test):
    def mypy(self, *words):
        environment = dict(os.environ, MYPYPATH=os.path.dirname(os.path.dirname(qkv.__file__)))
        done = subprocess.run(
            [sys.executable, '-m', 'mypy', '--config-file=', '--cache-dir', base.path('mypy'),
             *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env=environment, cwd=base.path())
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_package(self):
        self.mypy('--strict', '-p', 'qkv')

    def test_a_users_program(self):
        self.mypy('--strict', base.write('user.py', USER))

    def test_the_examples(self):
        """Their functions have no annotations."""
        with open(os.path.join(base.SOURCE, 'docs', 'python.md'), encoding='utf-8') as file:
            snippets = re.findall(r'^```python\n(.*?)^```$', file.read(), re.M | re.S)
        base.write('shown.py', '\n'.join(snippets))
        folder = os.path.join(base.SOURCE, 'python', 'examples')
        names = [os.path.join(folder, name) for name in sorted(os.listdir(folder))
                 if name.endswith('.py')]
        self.assertTrue(snippets and names)
        for name in [base.path('shown.py'), *names]:
            self.mypy('--check-untyped-defs', name)


if __name__ == '__main__':
    if not importlib.util.find_spec('mypy') or not base.numpy:
        print('skipped: mypy and NumPy, whose types it reads, are not both installed')
        sys.exit(77)
    unittest.main()
