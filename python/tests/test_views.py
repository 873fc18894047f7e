"""Arrays that show the library's memory: no copies, lifetimes, writing."""
import gc
import subprocess
import sys
import unittest
from unittest import mock

import base
import qkv
from base import Test, model, needs_numpy, numpy


class Weights(Test):
    def test_the_librarys_memory(self):
        m = model('lm')
        for name in m.parameters:
            p = m.parameters[name]
            address = qkv.c.qkv_param_data(p._pointer)
            self.assertEqual(p.array.address, address)
            self.assertEqual(p.array.memory.shape, p.shape)
            self.assertTrue(p.array.memory.readonly)
            self.assertEqual(p.array.memory.tolist(), p.array.tolist())
        self.assertEqual(sum(map(lambda p: len(memoryview(p.array.memory).cast('B')),
                                 m.parameters.values())), 4 * m.parameters.elements)
        self.fails(KeyError, None, lambda: m.parameters['none'])
        with self.assertRaises(TypeError):
            m.parameters['tokens'].array.memory[0, 0] = 1.0

    @needs_numpy
    def test_numpy(self):
        m = model('lm')
        p = m.parameters['tokens']
        for view in (numpy.asarray(p), p.array.numpy(), numpy.asarray(p.array)):
            self.assertEqual(view.__array_interface__['data'],
                             (qkv.c.qkv_param_data(p._pointer), True))
            self.assertEqual((view.dtype, view.shape), (numpy.float32, p.shape))
        self.assertEqual(view.tolist(), p.array.tolist())
        with self.assertRaises(ValueError):
            view[0, 0] = 1

    def test_it_outlives_the_model(self):
        c = base.context()
        before = c.memory()
        m = qkv.Model(base.directory('lm'), ctx=c)
        memory = m.parameters['tokens'].array.memory
        copy = memory.tolist()
        m.close()
        del m
        gc.collect()
        self.assertGreater(c.memory(), before)
        other = qkv.Model(base.directory('lm'), ctx=c)  # would take freed memory
        other.generate('the', tokens=3)
        self.assertEqual(memory.tolist(), copy)
        other.close()
        del memory
        gc.collect()
        self.assertEqual(c.memory(), before)

    @needs_numpy
    def test_a_slice_outlives_the_model(self):
        c = base.context()
        before = c.memory()
        row = numpy.asarray(qkv.Model(base.directory('lm'), ctx=c).parameters['tokens'])[1:2].T
        copy = row.copy()
        gc.collect()
        self.assertGreater(c.memory(), before)
        self.assertTrue((row == copy).all())
        del row
        gc.collect()
        self.assertEqual(c.memory(), before)

    def test_writing(self):
        """The library learns of it: a weight may be packed for products."""
        m, name = model('large'), 'h.0.attn.qkv.weight'
        before = m.generate('the cat', tokens=40, greedy=True)
        p = m.parameters[name]
        with mock.patch.object(qkv.c, 'qkv_param_touch', wraps=qkv.c.qkv_param_touch) as touch:
            with p.edit() as array:
                memory = array.memory
                for i in range(p.shape[0]):
                    memory[i, 0] = 3.0
            touch.assert_called_once_with(p._pointer)
        self.assertEqual(p.array.address, array.address)
        self.assertNotEqual(m.generate('the cat', tokens=40, greedy=True), before)
        m.save(base.path('edited'))
        saved = qkv.Model(base.path('edited'), ctx=base.CONTEXT)
        self.assertEqual(saved.parameters[name].array.tolist(), p.array.tolist())
        self.assertEqual(saved.generate('the cat', tokens=40, greedy=True),
                         m.generate('the cat', tokens=40, greedy=True))

    def test_no_copy_in_memory(self):
        """Views of a model of 40 MB add less than 4 MB to the process."""
        code = ('import qkv, sys\n'
                'm = qkv.Model(sys.argv[1], ctx=qkv.Context(threads=1))\n'
                'size = 4 * m.parameters.elements\n'
                'assert size > 30e6, size\n'
                'before = qkv.c.qkv_machine_rss()\n'
                'views = [p.array.memory for p in m.parameters.values()]\n'
                'try:\n'
                '    import numpy\n'
                '    before = qkv.c.qkv_machine_rss()\n'
                '    views += [numpy.asarray(p) for p in m.parameters.values()]\n'
                'except ImportError: pass\n'
                'print(size, qkv.c.qkv_machine_rss() - before)\n')
        size, more = map(int, subprocess.run(
            [sys.executable, '-c', code, base.directory('large')], check=True, text=True,
            stdout=subprocess.PIPE).stdout.split())
        self.assertLess(more, 4 << 20, size)


class Images(Test):
    def test_pixels(self):
        image = qkv.Image.open(base.IMAGE, ctx=base.CONTEXT)
        height, width, channels = image.shape
        self.assertEqual(image.array.memory.shape, image.shape)
        self.assertEqual(image.array.address, image._image.data)
        image.save(base.path('again.png'))
        again = qkv.Image.open(base.path('again.png'), ctx=base.CONTEXT)
        self.assertEqual(again.array.tolist(), image.array.tolist())
        memory = image.array.memory
        copy = memory.tolist()
        image.close()
        self.fails(qkv.ClosedError, 'this image is closed', lambda: image.shape)
        self.assertEqual(memory.tolist(), copy)
        self.assertEqual((height > 0, width > 0, channels), (True, True, 3))
        grey = qkv.Image.open(base.IMAGE, channels=1, ctx=base.CONTEXT)
        self.assertEqual(grey.shape, (height, width, 1))

    def test_of_arrays(self):
        image = qkv.Image([[1, 2, 3], [4, 5, 6]], ctx=base.CONTEXT)
        self.assertEqual(image.array.tolist(), [[[1], [2], [3]], [[4], [5], [6]]])
        for bad in ([], [[]], [1, 2], [[1, 2], [3]], [[[1, 2]]], 7, [['a']], 'x', None):
            self.fails(qkv.ArgumentError, None, qkv.Image, bad, ctx=base.CONTEXT)
        self.fails(qkv.FileError, None, qkv.Image.open, 'nowhere.png', ctx=base.CONTEXT)
        self.fails(qkv.ArgumentError, None, qkv.Image.open, base.IMAGE, channels=2)

    @needs_numpy
    def test_of_numpy(self):
        pixels = numpy.arange(4 * 5 * 3, dtype=numpy.uint8).reshape(4, 5, 3)
        image = qkv.Image(pixels, ctx=base.CONTEXT)
        self.assertTrue((numpy.asarray(image) == pixels).all())
        self.assertFalse(numpy.asarray(image).flags.writeable)
        for bad in (pixels.astype('f4'), pixels[:, ::2], pixels[:, :, :2], pixels[:0]):
            self.fails(qkv.ArgumentError, None, qkv.Image, bad, ctx=base.CONTEXT)


class Tensors(Test):
    """Of probes: views are for the call alone."""

    def probe(self, function, pattern='h.0.resid_post'):
        m = model('lm')
        m.probe('the cat', lambda tape: tape.probe(pattern, function))
        return m

    def test_copies(self):
        found = []
        self.probe(lambda name, x: found.append(x.tolist()))
        self.assertEqual(len(found[0][0]), 7)
        m, again = model('lm'), []
        m.probe('the cat', lambda tape: tape.probe(
            'h.0.resid_post', lambda name, x: again.append(x.view().memory.tolist())))
        self.assertEqual(found, again)

    def test_no_such_place(self):
        for begin in (lambda tape: tape.probe('h.0.resid_pst', lambda name, x: None),
                      lambda tape: tape.attention(lambda *a: None, 'h.9.attn')):
            with self.assertRaisesRegex(qkv.ArgumentError, 'no place of the pass is "h\\.[09]'):
                model('lm').probe('the cat', begin)

    def test_kept_views(self):
        said = 'h.0.resid_post: a view was kept after its probe returned; keep a copy'
        kept = []
        for keep in (lambda x: x.view(), lambda x: x.view().memory, lambda x: [x.view()]):
            self.fails(qkv.Error, said, self.probe, lambda name, x: kept.append(keep(x)))
        self.fails(qkv.Error, 'h.0.attn: a view was kept after its probe returned; keep a copy',
                   model('lm').probe, 'the', lambda tape: tape.attention(
                       lambda *a: kept.append(a), 'h.0.attn'))
        self.probe(lambda name, x: kept.append(x))
        self.fails(qkv.Error, 'the tensor is gone: its probe has returned', kept[-1].view)

    @needs_numpy
    def test_numpy(self):
        kept = []
        self.fails(qkv.Error, None, self.probe,
                   lambda name, x: kept.append(numpy.asarray(x.view())[0, 1:]))
        self.probe(lambda name, x: kept.append(numpy.asarray(x)))
        self.assertEqual(kept[-1].shape[:2], (1, 7))

    def test_replacing(self):
        m, sums = model('lm'), []

        def begin(tape):
            tape.probe('h.0.attn.z', lambda name, x: [[[[0.0] * x.shape[3]] * x.shape[2]]
                                                      * x.shape[1]])
            tape.probe('h.0.attn.out', lambda name, x: sums.append(
                sum(abs(v) for row in x.tolist()[0] for v in row)))
        m.probe('the cat', begin)
        self.assertEqual(sums, [0.0])
        for bad in ([1.0], 'x', [[1.0], [2.0, 3.0]]):
            self.fails(qkv.ArgumentError, None, self.probe, lambda name, x: bad)

    @needs_numpy
    def test_replacing_by_numpy(self):
        sums = []

        def begin(tape):
            tape.probe('h.0.attn.z', lambda name, x: numpy.asarray(x) * 0)
            tape.probe('h.0.attn.out', lambda name, x: sums.append(abs(numpy.asarray(x)).sum()))
        model('lm').probe('the cat', begin)
        self.assertEqual(sums, [0.0])


if __name__ == '__main__':
    unittest.main()
