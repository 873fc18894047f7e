"""The examples: they run, are short, and are what the documentation shows."""
import os
import re
import subprocess
import sys
import unittest

import base
from base import Test, needs_numpy

ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY='passive')
EXAMPLES = os.path.join(base.SOURCE, 'python', 'examples')


class Examples(Test):
    def run_example(self, name, *words):
        done = subprocess.run([sys.executable, '-W', 'error', os.path.join(EXAMPLES, name), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, env=ENVIRONMENT)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return done.stdout

    def test_size(self):
        for name in os.listdir(EXAMPLES):
            with open(os.path.join(EXAMPLES, name), encoding='utf-8') as file:
                self.assertLessEqual(len(file.readlines()), 30, name)

    def test_train_and_look(self):
        base.file('photos')
        said = self.run_example('train_and_look.py', base.file('text'), base.path('photos'),
                                base.path('photos', 'cat', '0.png'), base.path('example'))
        self.assertIn('stopped after 30\n', said)
        self.assertIn('ended after 60\n', said)
        with open(base.path('example', 'seen.png'), 'rb') as file:
            self.assertTrue(file.read().startswith(b'\x89PNG'))
        self.assertGreater(os.path.getsize(base.path('example', 'heads.html')), 10000)

    @needs_numpy
    def test_weights(self):
        said = self.run_example('weights.py', base.directory('lm'), 'the cat')
        self.assertIn('h.1.resid_post', said)


class Documentation(Test):
    def test_python_md(self):
        """Its snippets run, one after the other."""
        folder = base.path('docs')
        os.mkdir(folder)
        base.write('docs/novel.txt', base.TEXT.replace('the cat', 'Once upon the cat'))
        with open(os.path.join(base.SOURCE, 'docs', 'python.md'), encoding='utf-8') as file:
            snippets = re.findall(r'^```python\n(.*?)^```$', file.read(), re.M | re.S)
        self.assertGreaterEqual(len(snippets), 5)
        done = subprocess.run([sys.executable, '-W', 'error', '-'], input='\n'.join(snippets),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, cwd=folder, env=ENVIRONMENT)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertTrue(done.stdout.startswith('10 True\n'), done.stdout)
        for name in ('heads.png', 'report.html', 'runs/edited/model.safetensors'):
            self.assertTrue(os.path.exists(os.path.join(folder, name)))


if __name__ == '__main__':
    unittest.main()
