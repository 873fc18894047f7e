"""Training: events, results, resuming, stopping; the command's bits; scores, conversions."""
import filecmp
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

import base
import qkv
from base import Test


def bits(folder):
    with open(os.path.join(folder, 'model.safetensors'), 'rb') as file:
        return file.read()


class Training(Test):
    def test_the_commands_bits(self):
        kind, given = base.settings('lm', seed=5, dtype='f32')  # auto: bits hang on timing
        result = qkv.train(kind, out=base.path('here'), ctx=base.context(), **given)
        words = [w for k, v in given.items() for w in ('--' + k.replace('_', '-'), v)]
        base.command('train', kind, '--out', base.path('there'), *words)
        self.assertEqual(bits(base.path('here')), bits(base.path('there')))
        self.assertEqual((result.step, result.stopped, result.unit), (2, False, 'tokens'))
        again = qkv.train(kind, out=base.path('here').encode(), resume=True, ctx=base.context(),
                          **given)
        self.assertEqual((again.directory, again.was_finished), (base.path('here'), True))
        with qkv.Model(result.directory, ctx=base.CONTEXT) as m:
            evaluated = m.evaluate()
            self.assertAlmostEqual(evaluated['loss'], result.metrics['loss'], 4)
            answer = base.answers('eval', result.directory)[0]
            self.assertEqual(evaluated, answer)

    def test_events(self):
        kind, given = base.settings('lm', steps=12, eval_every=4)
        events = []
        qkv.train(kind, out=base.path('events'), on_event=events.append, ctx=base.context(),
                  **given)
        trained = [e for e in events if isinstance(e, qkv.Training)]
        self.assertEqual([e.step for e in trained if e.kind == 'step'], list(range(1, 13)))
        evaluations = [e for e in trained if e.kind == 'eval']
        self.assertTrue(evaluations and all(e.metrics['loss'] > 0 for e in evaluations))
        samples = [e for e in trained if e.kind == 'sample']
        self.assertTrue(samples and all(isinstance(e.text, str) and e.name for e in samples))
        self.assertTrue(all(e.left is None or e.left >= 0 for e in trained))
        self.assertTrue(any(isinstance(e, qkv.Event) and e.kind == 'note' and e.text
                            for e in events), events)

    def test_settings(self):
        self.assertIn('lm', qkv.kinds())
        names = [s.name for s in qkv.settings('lm')]
        for name in ('data', 'out', 'steps', 'minutes', 'valid_last', 'resume', 'seed', 'lr'):
            self.assertIn(name, names)
        self.fails(qkv.ArgumentError, None, qkv.settings, 'none')
        for kind in qkv.kinds():
            self.assertTrue(qkv.settings(kind))

    def test_sentences(self):
        kind, given = base.settings('lm')
        check = lambda **more: qkv.check(kind, ctx=base.CONTEXT, **dict(given, **more))
        check(out=base.path('checked'))
        self.fails(qkv.ArgumentError, 'unknown field stesp; did you mean steps?', check,
                   out='x', stesp=3)
        self.fails(qkv.ArgumentError, None, check, out='x', steps=-1)
        self.fails(qkv.ArgumentError, None, check)
        self.fails(qkv.ArgumentError, '"lx" is no kind of job', qkv.train, 'lx')
        self.fails(qkv.ArgumentError, None, qkv.train, kind, out='x\0', ctx=base.CONTEXT)
        said = base.sentence('train', 'lm', '--data', 'nothing', '--out', base.path('new'))
        self.fails(qkv.FileError, said, qkv.train, 'lm', data='nothing', out=base.path('new'),
                   ctx=base.CONTEXT)
        self.assertFalse(os.path.exists(base.path('new')))

    def test_lists(self):
        kind, given = base.settings('lm', data=[base.file('text'), base.file('german')])
        self.assertEqual(qkv.train(kind, out=base.path('two'), ctx=base.CONTEXT, **given).step,
                         2)
        given['data'] = base.directory('lm')
        self.fails(qkv.FileError, None, qkv.train, kind, out=base.path('three'),
                   ctx=base.CONTEXT, **given)


class Resuming(Test):
    """A run that was stopped, in any way, ends with the bits of one that was not."""

    def setUp(self):
        self.kind, self.given = base.settings('lm', steps=40, eval_every=10, dtype='f32')
        self.context = base.context()
        if not os.path.exists(base.path('whole')):
            qkv.train(self.kind, out=base.path('whole'), ctx=self.context, **self.given)

    def resume(self, name, least=0):
        """least: the run goes on behind this update."""
        steps = []
        result = qkv.train(self.kind, out=base.path(name), resume=True, ctx=self.context,
                           on_event=lambda e: steps.append(getattr(e, 'step', 99)), **self.given)
        self.assertGreater(min(steps), least)
        self.assertEqual((result.step, result.stopped), (40, False))
        self.assertEqual(bits(base.path(name)), bits(base.path('whole')))

    def train(self, name, on_event):
        return qkv.train(self.kind, out=base.path(name), on_event=on_event, ctx=self.context,
                         **self.given)

    def test_false(self):
        result = self.train('false', lambda e: getattr(e, 'step', 0) < 17)
        self.assertEqual((result.step, result.stopped), (17, True))
        self.resume('false')

    def test_an_exception(self):
        def fail(event):
            if getattr(event, 'step', 0) == 11:
                raise LookupError('mine')
        error = self.fails(LookupError, None, self.train, 'raised', fail)
        self.assertEqual(str(error), "mine")
        self.resume('raised')

    def test_watch(self):
        """An exception in it, before and after a pass, or in a probe of it, and False."""
        def watcher(act, done):
            def watch(tape, p):
                if (p.step, p.done) == (11, done):
                    return act(tape)
            return watch

        def fail(*_):
            raise LookupError('mine')
        probe = lambda tape: tape.probe('h.0.resid_post', fail)
        for name, act, done in (('before', fail, False), ('after', fail, True),
                                ('probed', probe, False)):
            self.fails(LookupError, 'mine', qkv.train, self.kind, out=base.path(name),
                       watch=watcher(act, done), ctx=self.context, **self.given)
            self.resume(name, 11)
        result = qkv.train(self.kind, out=base.path('ended'), ctx=self.context,
                           watch=watcher(lambda tape: False, True), **self.given)
        self.assertTrue(result.stopped)
        self.resume('ended', 11)

    def test_interrupt(self):
        def interrupt(event):
            if getattr(event, 'step', 0) == 13:
                os.kill(os.getpid(), signal.SIGINT)
        self.fails(KeyboardInterrupt, None, self.train, 'interrupted', interrupt)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.resume('interrupted')

    def interrupt_child(self, code, *words):
        """Runs the code in a child that prints "begun", and sends it SIGINT a moment later."""
        process = subprocess.Popen(
            [sys.executable, '-c', 'import qkv, sys\nctx = qkv.Context(threads=1)\ntry:\n    '
             + code + '\nexcept KeyboardInterrupt: print("interrupted", flush=True)', *words],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), 'begun\n')
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=30)[0], 'interrupted\n')
        self.assertEqual(process.returncode, 0)

    def test_interrupt_within_an_update(self):
        """A signal that comes while C computes, and would for an hour: there is no other event."""
        self.interrupt_child(
            'qkv.train("lm", data=sys.argv[1], out=sys.argv[2], tokenizer="char", model="nano",\n'
            '              steps=2, batch=10**6, accumulation_steps=10**6, ctx=ctx,\n'
            '              on_event=lambda e: print("begun", flush=True)\n'
            '                                 if e.kind == "eval" else None)',
            base.file('text'), base.path('outside'))
        self.assertTrue(os.path.exists(base.path('outside', 'train', 'state.safetensors')))
        result = qkv.train('lm', data=base.file('text'), out=base.path('outside'), resume=True,
                           tokenizer='char', model='nano', steps=1, batch=4, ctx=self.context)
        self.assertEqual((result.step, result.stopped), (1, False))

    def test_interrupt_within_an_evaluation(self):
        text = base.write('long', base.TEXT * 1000)
        self.interrupt_child('m = qkv.Model(sys.argv[1], ctx=ctx)\n    print("begun", flush=True)\n'
                             '    m.evaluate(file=sys.argv[2])', base.directory('large'), text)

    def test_interrupted_again_and_again(self):
        """Within updates and evaluations, wherever they are."""
        training, done, interrupts = threading.Event(), threading.Event(), 0

        def interrupt(*_):
            if training.is_set():
                training.clear()
                raise KeyboardInterrupt

        def send():
            pause = 0.01
            while not done.wait(pause):
                os.kill(os.getpid(), signal.SIGINT)
                pause *= 1.15  # a slow machine comes to an end, too
        handler = signal.signal(signal.SIGINT, interrupt)
        thread = threading.Thread(target=send)
        thread.start()
        while not done.is_set():
            try:
                training.set()
                qkv.train(self.kind, out=base.path('again'), resume=True, ctx=self.context,
                          **self.given)
                training.clear()
                done.set()
            except KeyboardInterrupt:
                interrupts += 1
        thread.join()
        signal.signal(signal.SIGINT, handler)
        self.assertGreater(interrupts, 2)
        self.resume('again')

    def test_cancel(self):
        def cancel(event):
            if getattr(event, 'step', 0) == 9:
                thread = threading.Thread(target=self.context.cancel)
                thread.start()
                thread.join()
        result = self.train('cancelled', cancel)
        self.assertEqual((result.step, result.stopped), (9, True))
        self.resume('cancelled')

    def test_a_model_opened_within(self):
        """On the same context, by a callback: the run's bits do not change."""
        texts = []

        def write(event):
            if event.kind == 'eval' and event.step:
                with qkv.Model(base.path('within'), ctx=self.context) as m:
                    texts.append(m.generate('the', tokens=5))
        self.train('within', write)
        self.assertGreaterEqual(len(texts), 4)
        self.assertEqual(bits(base.path('within')), bits(base.path('whole')))

    def test_a_directory_in_use(self):
        self.fails(qkv.ArgumentError, None, qkv.train, self.kind, out=base.path('whole'),
                   ctx=self.context, **self.given)
        again = qkv.train(self.kind, out=base.path('whole'), resume=True, ctx=self.context,
                          **self.given)
        self.assertTrue(again.was_finished)


class Signals(Test):
    def test_threads_that_compute_block_them(self):
        """oneDNN's kernels cannot have a handler's frame on their stack."""
        def blocked(task):
            with open('/proc/self/task/%d/status' % task) as file:
                line = next(line for line in file if line.startswith('SigBlk'))
            return bool(int(line.split()[1], 16) >> signal.SIGINT - 1 & 1)

        def tasks():
            return set(map(int, os.listdir('/proc/self/task')))

        def watch():
            while not done.wait(0.001):
                sampled.add(blocked(main))

        def on_event(event):
            called.append((blocked(main), {task: blocked(task) for task in tasks()}))
        main, sampled, called = threading.get_native_id(), set(), []
        done = threading.Event()
        thread = threading.Thread(target=watch)
        kind, given = base.settings('lm', steps=30, hidden_size=128)
        thread.start()
        try:
            qkv.train(kind, out=base.path('blocking'), ctx=qkv.Context(threads=2),
                      on_event=on_event, **given)
        finally:
            done.set()
            thread.join()
        self.assertIn(True, sampled)
        self.assertFalse(blocked(main))
        self.assertEqual({main for main, _ in called}, {False})  # Python's callbacks do not
        others = {task: b for task, b in called[-1][1].items()
                  if task not in (main, thread.native_id)}
        self.assertEqual(sum(not b for b in others.values()), 1, others)  # it takes signals
        self.assertTrue(any(others.values()), others)                     # OpenMP's threads

    def test_interrupts_leave_nothing_behind(self):
        """Wherever they come: the thread takes signals as before, its handler is in place, and
        another thread can use the context."""
        raising, done, interrupts = False, threading.Event(), 0

        def interrupt(*_):
            nonlocal raising
            if raising:
                raising = False
                raise KeyboardInterrupt

        def send():
            while not done.wait(random.random() * 0.002):
                os.kill(os.getpid(), signal.SIGINT)
        context = qkv.Context(threads=1)
        model = qkv.Model(base.directory('lm'), ctx=context)
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None  # some come in a __del__
        handler = signal.signal(signal.SIGINT, interrupt)
        sender = threading.Thread(target=send)
        sender.start()
        end = time.monotonic() + 2
        try:
            while time.monotonic() < end:
                for call in (lambda: model.generate('the', tokens=1), lambda: context.threads):
                    try:
                        raising = True
                        call()
                    except KeyboardInterrupt:
                        interrupts += 1
                    raising = False
                    self.assertNotIn(signal.SIGINT, signal.pthread_sigmask(signal.SIG_BLOCK, []))
                    self.assertIs(signal.getsignal(signal.SIGINT), interrupt)
        finally:
            done.set()
            sender.join()
            signal.signal(signal.SIGINT, handler)
            sys.unraisablehook = hook
        self.assertGreater(interrupts, 10)
        other = threading.Thread(target=lambda: context.threads, daemon=True)
        other.start()
        other.join(30)
        self.assertFalse(other.is_alive())

    def test_many_signals(self):
        count = []
        signal.signal(signal.SIGUSR1, lambda *_: count.append(1))
        kind, given = base.settings('lm', steps=60, hidden_size=128)
        go_on = threading.Event()

        def send():
            while not go_on.wait(0.002):
                os.kill(os.getpid(), signal.SIGUSR1)
        thread = threading.Thread(target=send)
        thread.start()
        try:
            result = qkv.train(kind, out=base.path('shot'), ctx=qkv.Context(threads=2), **given)
        finally:
            go_on.set()
            thread.join()
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        self.assertEqual(result.step, 60)
        self.assertGreater(len(count), 10)


class Watching(Test):
    def test_probes_see_every_pass(self):
        kind, given = base.settings('lm', steps=3, batch=4, accumulation_steps=2)
        passes, seen, norms = [], [], []

        def watch(tape, p):
            passes.append((p.step, p.first, p.count, p.done))
            if len(passes) == 1:
                tape.probe('h.0.resid_post', lambda name, x: seen.append((name, x.shape)))
                tape.attention(lambda name, sequence, head, row, weights: norms.append(
                    sum(weights.memory.tolist()[0])), 'h.0.attn')
        qkv.train(kind, out=base.path('watched'), watch=watch, ctx=base.context(), **given)
        self.assertEqual(len(passes), 12)
        self.assertEqual({p[2] for p in passes}, {2})
        self.assertGreaterEqual(len(seen), 6)
        self.assertEqual(seen[0][0], 'h.0.resid_post')
        self.assertTrue(norms and all(abs(n - 1) < 1e-5 for n in norms))

    def test_what_it_raises(self):
        kind, given = base.settings('lm')
        tapes = []

        def watch(tape, p):
            tapes.append(tape)
            raise OverflowError('mine')
        self.fails(OverflowError, 'mine', qkv.train, kind, out=base.path('raising'), watch=watch,
                   ctx=base.CONTEXT, **given)
        self.fails(qkv.Error, 'the tape is gone: its pass is over', tapes[0].probe, None, print)


class Files(Test):
    def test_convert_and_quantize(self):
        source = base.directory('lm')
        qkv.convert(source, base.path('half'), dtype='bf16', ctx=base.CONTEXT)
        base.command('convert', source, base.path('half2'), '--dtype', 'bf16')
        self.assertTrue(filecmp.cmp(base.path('half', 'model.safetensors'),
                                    base.path('half2', 'model.safetensors'), False))
        qkv.quantize(source, base.path('small'), to='int8', ctx=base.CONTEXT)
        m = qkv.Model(base.path('small'), ctx=base.CONTEXT)
        self.assertEqual(len(m.generate('the', tokens=4)), 4)
        kept = {m.parameters[n].weights for n in m.parameters}
        self.assertEqual(kept, {'f32', 'int8'})
        name = next(n for n in m.parameters if m.parameters[n].weights == 'int8')
        self.fails(qkv.UnsupportedError, None, lambda: m.parameters[name].array)
        self.fails(qkv.ArgumentError, None, qkv.convert, source, base.path('x'), dtype='f99',
                   ctx=base.CONTEXT)

    def test_scores(self):
        a = ['the cat sat on the mat today', 'a dog ran far away']
        b = ['the cat sat on a mat today', 'a dog ran far away']
        files = base.write('a', '\n'.join(a) + '\n'), base.write('b', '\n'.join(b) + '\n')
        said = base.command('score', 'bleu', files[1], text="\n".join(a) + "\n").stdout
        self.assertIn('%.2f' % qkv.bleu(a, b), said)
        self.assertEqual(round(qkv.bleu(b, b), 6), 100)
        self.assertEqual(round(qkv.chrf(b, b), 6), 100)
        self.fails(qkv.ArgumentError, None, qkv.bleu, a, b[:1])

    def test_report(self):
        qkv.report(base.directory('lm'), base.path('run.html'), ctx=base.CONTEXT)
        self.assertGreater(os.path.getsize(base.path('run.html')), 1000)
        self.fails(qkv.FileError, None, qkv.report, 'nowhere', base.path('x.html'),
                   ctx=base.CONTEXT)


if __name__ == '__main__':
    unittest.main()
