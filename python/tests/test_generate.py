"""The C interface by name; opening a directory; generating; tokenizers; errors; closing."""
import gc
import inspect
import os
import subprocess
import sys
import threading
import unittest

import base
import qkv
from base import Test, model


class Interface(Test):
    def test_every_function_is_there(self):
        tables = qkv.c._tables
        self.assertGreater(len(tables.FUNCTIONS), 900)
        for name in tables.FUNCTIONS:
            self.assertTrue(callable(getattr(qkv.c, name)), name)
        for name in tables.STRUCTS:
            self.assertTrue(qkv.c._layout.struct(name), name)
        for name in tables.CALLBACKS:
            self.assertTrue(qkv.c.callback(name), name)
        self.assertFalse(hasattr(qkv.c, 'qkv_nothing'))
        self.assertIn('qkv_train', dir(qkv.c))

    def test_every_status_has_an_exception(self):
        missing = [name for name in qkv.c._tables.CONSTANTS if name.startswith('QKV_E_')
                   and name not in qkv.errors.BY_STATUS]
        self.assertEqual(missing, [])

    def test_version(self):
        self.assertEqual(base.command('--version').stdout.split()[1], qkv.__version__)

    def test_names(self):
        """__all__ names what the package has, all of it."""
        shown = {name for name, value in vars(qkv).items() if not name.startswith('_')
                 and getattr(value, '__module__', '').startswith('qkv.')}
        self.assertEqual(sorted(qkv.__all__), sorted(shown - {'version'} | {'c', 'errors'}))

    def test_import_takes_few_modules(self):
        """50 ms, of which these would take most."""
        code = ('import sys; before = set(sys.modules); import qkv; bad = (set(sys.modules) - '
                'before) & {"numpy", "typing", "json", "inspect", "logging", "enum", "threading", '
                '"re", "collections", "dataclasses", "contextlib"}; assert not bad, bad')
        subprocess.run([sys.executable, '-S', '-c', code], check=True)


class Generating(Test):
    def test_the_same_text_as_the_command(self):
        with model('lm') as m:
            for options in ({}, {'greedy': True}, {'temperature': 1.5, 'top_k': 5}):
                flags = [w for k, v in options.items()
                         for w in (['--' + k.replace('_', '-')] + ([str(v)] if v is not True
                                                                   else []))]
                answer = base.answers('generate', m.directory, '--prompt', 'the cat', '--tokens',
                                      '20', '--seed', '3', *flags)[0]
                found = m.continuations('the cat', tokens=20, seed=3, **options)[0]
                self.assertEqual((found.text, found.ids), (answer['text'], answer['ids']))
                self.assertEqual(m.generate('the cat', tokens=20, seed=3, **options), found.text)

    def test_pieces(self):
        m, pieces, texts = model('lm'), [], []
        found = m.continuations('the', tokens=5, count=2, show_next=3,
                                on_piece=lambda *p: pieces.append(p))
        self.assertEqual([p[1] for p in pieces if p[2] is None], ['the', 'the'])
        self.assertEqual([p[2] for p in pieces if p[0] == 1 and p[2] is not None], found[1].ids)
        for step, id in zip(found[0].next, found[0].ids):
            self.assertEqual([n.id for n in step if n.drawn], [id])
        self.assertEqual(m.generate('the', tokens=9, on_text=texts.append), ''.join(texts))

    def test_false_ends_it(self):
        texts = []
        m = model('lm')
        made = m.generate('the', tokens=50, on_text=lambda t: texts.append(t) or len(texts) < 3)
        self.assertEqual((len(texts), len(made)), (3, 3))

    def test_lines(self):
        lines = base.write('prompts', 'the cat\nthe mat\n')
        found = model('lm').continuations(lines=lines, tokens=4, batch=2)
        self.assertEqual([len(f.ids) for f in found], [4, 4])
        self.fails(qkv.ArgumentError, None, model('lm').generate, lines=lines)

    def test_callbacks_that_raise(self):
        m = model('lm')

        def fail(_):
            raise KeyError('mine')
        self.fails(KeyError, None, m.generate, 'the', on_text=fail)
        self.fails(SystemExit, None, m.generate, 'the', on_text=lambda t: sys.exit(3))
        self.assertEqual(len(m.generate('the', tokens=5)), 5)


class Sentences(Test):
    def test_keywords(self):
        m = model('lm')
        self.fails(qkv.ArgumentError, 'unknown field tokns; did you mean tokens?', m.generate,
                   'a', tokns=3)
        self.fails(qkv.ArgumentError, 'tokens: expected an integer from 0 to 1e+09, found "many"',
                   m.generate, 'a', tokens='many')
        self.fails(qkv.ArgumentError, 'tokens: expected an integer from 0 to 1e+09, found "1.5"',
                   m.generate, 'a', tokens=1.5)
        self.fails(qkv.ArgumentError, 'top_k: a text, a path, a number, True, False or a list of '
                   'them expected, found object', m.generate, 'a', top_k=object())
        self.fails(qkv.ArgumentError, 'prompt: a text without 0 bytes expected', m.generate, 'a\0')
        self.fails(qkv.UnsupportedError, None, m.translate, 'a')
        self.assertEqual(m.generate('a', tokens=3, top_k=None, seed=1),
                         m.generate('a', tokens=3, seed=1))

    def test_the_commands_sentence(self):
        for words, kind in ((['nowhere'], qkv.FileError), ([base.HERE], qkv.FileError)):
            said = base.sentence('generate', *words)
            self.fails(kind, said, qkv.Model, *words, ctx=base.CONTEXT)
        broken = base.path('broken')
        os.makedirs(broken, exist_ok=True)
        for text in ('', '{', '{"model_type": "gpt9"}', '{"model_type": "gpt2", "n_head": 0}'):
            base.write('broken/config.json', text)
            said = base.sentence('generate', broken)
            error = self.fails(qkv.Error, said, qkv.Model, broken, ctx=base.CONTEXT)
            self.assertIsInstance(error, (ValueError, OSError, NotImplementedError))
        self.fails(TypeError, None, qkv.Model, 3)

    def test_arguments_of_other_types(self):
        """A sentence with the argument's name; nothing is taken for something else."""
        m = model('lm')
        t, look, score = m.tokenizer, m.look('the cat'), ['a']
        for said, function, *given in (
                ('prompt: a text expected, found list', m.generate, ['the', 'cat']),
                ('text: a text expected, found int', t.encode, 3),
                ("ids: an integer from 0 to 2147483647 expected, found 1.5", t.decode, [1.5]),
                ("id: an integer from 0 to 2147483647 expected, found 'a'", t.token, 'a'),
                ('class: an integer from 0 to 2147483647 expected, found -1', m.label, -1),
                ("position: an integer from -1 to 16777216 expected, found 'a'",
                 lambda at: look.row(at=at), 'a'),
                ('hypotheses and references: lists of texts expected', qkv.bleu, 'abc', 'abc'),
                ('hypotheses: a text expected, found int', qkv.bleu, [3], score),
                ('array: numbers of uint8 expected', qkv.Image, [[300]]),
                ('array: numbers of uint8 expected', qkv.Image, [[0.5]]),
                ('ctx: a Context expected, found str', lambda c: qkv.Model('x', ctx=c), 'x')):
            self.fails((TypeError, qkv.ArgumentError), said, function, *given)
        self.fails(qkv.FileError, 'none: cannot be opened: No such file or directory',
                   m.continuations, lines='none')
        said = str(self.fails(qkv.ArgumentError, None, m.change, 'the cat', 'nothing zero'))
        self.assertIn('nothing', said)

    def test_contexts(self):
        for threads in (-1, 2000, 1 << 40):
            self.fails(qkv.ArgumentError, 'threads: an integer from 0 to 1024 expected, found %d'
                       % threads, qkv.Context, threads=threads)
        self.fails(qkv.ArgumentError, None, qkv.Context, threads='two')
        self.fails(qkv.ArgumentError, None, qkv.Context, dtype='f99')
        self.assertEqual(qkv.Context(threads=2).threads, 2)
        self.assertIsNone(qkv.Context(device='cpu').card)
        for device in ('disk', 'cuda:x'):
            self.fails(qkv.ArgumentError, 'device: cpu, cuda or cuda:N expected, found %s' % device,
                       qkv.Context, device=device)

    @unittest.skipUnless(os.environ.get('QKV_CUDA'), 'no card and no emulator is named')
    def test_device(self):
        ctx = base.context(device='cuda')
        self.assertTrue(ctx.card)
        with qkv.Model(base.directory('lm'), ctx=ctx) as on_card:
            self.assertEqual(on_card.generate('the', tokens=6, temperature=0),
                             model('lm').generate('the', tokens=6, temperature=0))

    def test_every_option_has_words(self):
        for name in ('open', 'chat', 'generate', 'translate', 'fill', 'look', 'patch', 'evaluate',
                     'segment', 'imagine', 'convert', 'quantize', 'shortlist', 'colorize',
                     'reconstruct', 'forecast'):
            for option in qkv.options(name):
                self.assertTrue(option.help and option.expects, (name, option))
        self.fails(qkv.ArgumentError, None, qkv.options, 'nothing')
        self.assertIn('seed', [s.name for s in qkv.options('generate')])


    def test_no_option_is_hidden_by_a_parameter(self):
        """A keyword of Python's own has a name that no option of the same call has."""
        calls = {'open': qkv.Model, 'chat': qkv.Model.chat, 'generate': qkv.Model.generate,
                 'translate': qkv.Model.translate,
                 'look': qkv.Model.look, 'patch': qkv.Model.patch, 'evaluate': qkv.Model.evaluate,
                 'segment': qkv.Model.segment, 'reconstruct': qkv.Model.reconstruct,
                 'colorize': qkv.Model.colorize, 'imagine': qkv.Model.imagine,
                 'convert': qkv.convert, 'quantize': qkv.quantize, 'shortlist': qkv.shortlist}
        for name, call in calls.items():
            own = set(inspect.signature(call).parameters) - {
                'self', 'options', 'prompt', 'condition', 'complete'}
            self.assertEqual(own & {s.name for s in qkv.options(name)}, set(), name)
        own = set(inspect.signature(qkv.train).parameters) - {'settings'}
        for kind in qkv.kinds():
            self.assertEqual(own & {s.name for s in qkv.settings(kind)}, set(), kind)


class Closing(Test):
    def test_twice_and_afterwards(self):
        m = model('lm')
        tokenizer, parameters = m.tokenizer, m.parameters
        m.close()
        m.close()
        self.assertTrue(m.closed)
        for call in (lambda: m.generate('a'), lambda: m.kind, lambda: m.parameters,
                     lambda: m.look('a'), lambda: m.tokenizer, m.__enter__):
            self.fails(qkv.ClosedError, 'this model is closed', call)
        self.assertEqual(tokenizer.decode(tokenizer.encode('the cat')), 'the cat')
        self.assertEqual(len(parameters['tokens'].array.tolist()), parameters['tokens'].shape[0])
        tokenizer.close()
        self.fails(qkv.ClosedError, 'this tokenizer is closed', tokenizer.encode, 'a')

    def test_within_its_own_call(self):
        m = model('lm')
        texts = []

        def close(text):
            m.close()
            texts.append(text)
        m.generate('the', tokens=4, on_text=close)
        self.assertEqual(len(texts), 4)
        m = model('lm')
        self.fails(qkv.Error, 'the model is in use by the call that this function was called from',
                   m.generate, 'the', on_text=lambda t: m.generate('a'))
        ids = []
        m.generate('the', tokens=4, on_text=lambda t: ids.extend(m.tokenizer.encode(t)))
        self.assertEqual(len(ids), 4)

    def test_memory_comes_back(self):
        c = base.context()
        before = c.memory()
        for _ in range(3):
            m = qkv.Model(base.directory('lm'), ctx=c)
            look = m.look('the cat')
            del look
            m.close()
            del m
        gc.collect()
        self.assertEqual(c.memory(), before)


class Threads(Test):
    def run_all(self, functions):
        errors = []

        def guarded(function):
            try:
                function()
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])

    def test_one_context_and_many(self):
        m = model('lm')
        expected = m.generate('the', tokens=30, seed=1)
        found = []

        def share():
            found.append(m.generate('the', tokens=30, seed=1))

        def own():
            other = qkv.Model(base.directory('lm'), ctx=base.context())
            found.append(other.generate('the', tokens=30, seed=1))
        self.run_all([share, own] * 4)
        self.assertEqual(found, [expected] * 8)

    def test_objects_that_end_in_another_thread(self):
        m, begun, go_on = model('lm'), threading.Event(), threading.Event()

        def generate():
            m.generate('the', tokens=3, on_text=lambda t: begun.set() or go_on.wait(20) and None)

        def drop():
            begun.wait(20)
            other = dropped.pop()
            del other  # does not wait for the call
            go_on.set()
        dropped = [model('lm')]
        self.run_all([generate, drop])

    def test_cancelled_from_another_thread(self):
        c = base.context()
        m, begun = qkv.Model(base.directory('lm'), ctx=c), threading.Event()

        def generate():
            self.fails(qkv.CancelledError, 'cancelled', m.generate, 'the', tokens=10 ** 6,
                       on_text=lambda t: begun.set())
        self.run_all([generate, lambda: begun.wait(20) and c.cancel()])
        self.assertEqual(len(m.generate('the', tokens=5)), 5)


class Tokenizers(Test):
    def test_the_commands_ids(self):
        for name in ('lm', 'words', 'translator'):
            t = qkv.Tokenizer(base.directory(name), ctx=base.CONTEXT)
            said = base.command('tokenize', base.directory(name), text='the cat sat\n').stdout
            numbers = [int(w) for w in said.split() if w.isdigit()]
            self.assertEqual(t.encode('the cat sat')[:3], numbers[:3], said)
        t = qkv.Tokenizer(base.directory('words'), ctx=base.CONTEXT)
        self.assertEqual(t.token(t.special('mask')), '[MASK]')
        self.assertEqual(t.id('[MASK]'), t.special('mask'))
        self.assertIsNone(t.token(10 ** 6))
        self.assertIsNone(t.id('no such token'))
        self.fails(qkv.ArgumentError, None, t.special, 'moon')
        self.fails(qkv.Error, None, t.decode, [10 ** 6])
        self.fails(qkv.ArgumentError, None, t.decode, [-1])
        self.assertEqual(t.decode(t.encode('a\0b'.replace('\0', ' '))), 'a b')

    def test_training(self):
        t = qkv.Tokenizer.train(base.file('text'), kind='bpe', vocab=300, ctx=base.CONTEXT)
        self.assertLessEqual(t.size, 300)
        self.assertEqual(t.decode(t.encode('the cat \u00e4')), 'the cat \u00e4')
        t.save(base.path('tokenizer'))
        again = qkv.Tokenizer(base.path('tokenizer'), ctx=base.CONTEXT)
        self.assertEqual(again.encode('the cat sat'), t.encode('the cat sat'))
        self.fails(qkv.ArgumentError, None, qkv.Tokenizer.train, base.file('text'), kind='abc')
        self.fails(qkv.ArgumentError, None, qkv.Tokenizer.train, base.file('text'), vocab=3,
                   ctx=base.CONTEXT)
        self.fails(qkv.FileError, None, qkv.Tokenizer.train, 'nothing', ctx=base.CONTEXT)


if __name__ == '__main__':
    unittest.main()
