"""Looking inside: attention, drawings, pages, patching, changes, places."""
import unittest

import base
import qkv
from base import Test, model


class Looks(Test):
    def test_the_commands_answer(self):
        m = model('lm')
        look = m.look('the cat sat')
        said = base.answers('look', m.directory, 'the cat sat')[0]
        self.assertEqual(look.data(), said)
        self.assertEqual(look.attentions, ['attentions'])
        self.assertEqual(look.labels(), list('the cat sat'))
        self.assertEqual(look.labels(keys=True), look.labels())
        self.assertEqual(look.text(), base.command('look', m.directory, 'the cat sat').stdout)
        for row in (dict(layer=0, head=1, at=5), dict(layer=-1, at=3), dict()):
            self.assertAlmostEqual(sum(look.row(**row)), 1, 4)
        exact = m.look('the cat sat', least=1e-9)
        for i, row in enumerate(exact.map(1, 0)):
            for a, b in zip(row, exact.row(layer=1, head=0, at=i)):
                self.assertAlmostEqual(a, b, 5)
        heads = look.heads()
        self.assertEqual((heads[-1].layer, heads[-1].head), (1, 1))
        self.assertGreater(heads[0].entropy, 0)

    def test_captured(self):
        """Rows of attention, and a probe's, are the numbers of a capture."""
        m, rows = model('lm'), {}

        def begin(tape):
            tape.attention(lambda name, sequence, head, row, weights: rows.__setitem__(
                (name, head), weights.tolist()))
        m.probe('the cat', begin)
        exact = m.look('the cat', least=1e-9)
        for layer in range(2):
            for head in range(2):
                for a, b in zip(rows['h.%d.attn' % layer, head], exact.map(layer, head)):
                    for x, y in zip(a, b):
                        self.assertAlmostEqual(x, y, 5)

    def test_files(self):
        look, m = model('lm').look('the cat sat'), model('lm')
        for name, begins in (('a.png', b'\x89PNG'), ('a.svg', b'<?xml')):
            look.draw(base.path(name), layer=0, head=1)
            with open(base.path(name), 'rb') as file:
                self.assertTrue(file.read().startswith(begins))
        base.command('look', m.directory, 'the cat sat', '--layer', '0', '--head', '1', '--heat',
                     base.path('b.svg'))
        with open(base.path('a.svg'), 'rb') as a, open(base.path('b.svg'), 'rb') as b:
            self.assertEqual(a.read(), b.read())
        look.draw_heads(base.path('heads.svg'))
        look.page(base.path('page.html'), title='A <title>', input='the cat sat')
        with open(base.path('page.html'), encoding='utf-8') as file:
            self.assertIn('A &lt;title&gt;', file.read())
        self.assertIn('stream', look.panels())
        self.assertTrue(look.panel('stream', base.path('stream.svg')))
        self.fails(qkv.ArgumentError, None, look.panel, 'nothing')
        self.fails(qkv.ArgumentError, None, look.draw, base.path('a.gif'))
        self.fails(qkv.FileError, None, look.draw, base.path('none', 'a.png'))
        self.fails(qkv.FileError, None, look.page, base.path('none', 'a.html'))

    def test_sentences(self):
        m = model('lm')
        look = m.look('the cat')
        for bad in (dict(layer=9), dict(head=9), dict(at=99), dict(at=-5), dict(attention='x')):
            self.fails(qkv.ArgumentError, None, look.row, **bad)
        self.fails(qkv.ArgumentError, None, look.map, 9, 0)
        self.fails(qkv.ArgumentError, None, m.look, 'the cat', leest=1)
        self.fails(qkv.ArgumentError, None, m.look)
        text = look.text()
        m.close()
        self.assertEqual(look.text(), text)  # it needs no model
        look.page(base.path('closed.html'))
        look.close()
        look.close()
        self.fails(qkv.ClosedError, 'this look is closed', look.row)

    def test_images(self):
        m, image = model('vit'), base.path('photos', 'cat', '0.png')
        look = m.look(image)
        look.draw(base.path('seen.png'))
        base.command('look', m.directory, image, '--heat', base.path('seen2.png'))
        with open(base.path('seen.png'), 'rb') as a, open(base.path('seen2.png'), 'rb') as b:
            self.assertEqual(a.read(), b.read())
        pixels = qkv.Image.open(image, ctx=base.CONTEXT)
        self.assertEqual(m.look(pixels).row(), look.row())
        self.assertEqual(m.look(pixels.array).row(), look.row())

    def test_every_kind(self):
        inputs = {'translator': 'the cat', 'words': 'the [MASK]', 'mood': 'a film',
                  'vectors': 'the cat', 'series': base.file('rows.csv'),
                  'gaps': base.file('rows.csv'), 'mae': base.IMAGE, 'parts': base.IMAGE,
                  'colors': base.IMAGE, 'codes': base.IMAGE, 'prior': None}
        for name, given in inputs.items():
            with self.subTest(name):
                m, seen = model(name), []
                self.assertEqual(m.look(given).data()['kind'], m.kind)
                self.assertTrue(m.places())
                m.probe(given, lambda tape: tape.probe(None, lambda n, x: seen.append(n)))
                self.assertTrue(seen)
                self.assertTrue(m.config)

    def test_translator(self):
        m = model('translator')
        look = m.look('the cat', 'die katze')
        self.assertEqual(look.data(), base.answers('look', m.directory, 'the cat', '--second',
                                                   'die katze')[0])
        self.assertEqual(len(look.attentions), 3)
        self.assertNotEqual(look.labels('cross_attentions'),
                            look.labels('cross_attentions', keys=True))
        self.assertAlmostEqual(sum(look.row(attention='cross_attentions', layer=0)), 1, 4)

    def test_series(self):
        m = model('series')
        rows = [[float(i % 7), float(i % 5)] for i in range(60)]
        self.assertTrue(m.look(rows).data()['series'])


class Patching(Test):
    def test_patch(self):
        m = model('lm')
        patch = m.patch('the cat', 'the mat', place='resid_pre')
        self.assertEqual(patch.data(), base.answers('look', m.directory, 'the cat', '--patch',
                                                    'the mat', '--place', 'resid_pre')[0])
        self.assertIn('resid_pre', patch.text())
        patch.draw(base.path('patch.svg'))
        patch.page(base.path('patch.html'))
        self.fails(qkv.ArgumentError, None, patch.draw, base.path('p.svg'), 7)
        self.fails(qkv.ArgumentError, None, m.patch, 'the cat', 'a')

    def test_change(self):
        m, text = model('lm'), 'h.0.attn.z head=1 zero'
        changed = m.change('the cat', [text])
        said = base.answers('look', m.directory, 'the cat', '--change', text)[0]
        self.assertEqual(changed.data(), said)
        self.assertTrue(changed.text())
        changed.page(base.path('changed.html'))
        self.fails(qkv.ArgumentError, None, m.change, 'the cat', ['h.9.attn.z zero'])
        self.assertIsInstance(m.generate('the', tokens=4, change=[text]), str)

    def test_vector(self):
        m = model('lm')
        base.command('look', m.directory, 'the cat', '--vector', base.path('v.npy'), '--place',
                     'h.0.resid_post', '--minus', 'a mat')
        vector = m.vector('the cat', 'h.0.resid_post', minus='a mat').values
        with open(base.path('v.npy'), 'rb') as file:
            self.assertTrue(file.read().endswith(bytes(vector.memory.cast('B'))))
        self.fails(qkv.ArgumentError, None, m.vector, 'the cat', 'h.9.resid_post')

    def test_places(self):
        places = model('lm').places()
        self.assertIn('h.0.attn.z', [p.name for p in places if not p.weights])
        self.assertIn('h.1.attn', [p.name for p in places if p.weights])


if __name__ == '__main__':
    unittest.main()
