"""The examples: they run, are short, and are what the documentation shows."""
import os
import subprocess
import sys
import unittest

import base
from base import Test, needs_numpy

EXAMPLES = os.path.join(base.SOURCE, 'python', 'examples')


class Examples(Test):
    def run_example(self, name, *words):
        done = subprocess.run([sys.executable, '-W', 'error', os.path.join(EXAMPLES, name), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, env=dict(os.environ, OMP_WAIT_POLICY='passive'))
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


if __name__ == '__main__':
    unittest.main()
