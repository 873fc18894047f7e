"""Every kind of model, by what the command answers."""
import json
import os
import shutil
import unittest

import base
import qkv
from base import Test, model, needs_numpy, numpy


class Texts(Test):
    def test_translate(self):
        m, lines = model('translator'), ['the cat sat', 'it ran', '']
        words = ['translate', m.directory, '--beam', '2']
        expected = base.command(*words, text='\n'.join(lines) + '\n').stdout.split('\n')[:-1]
        self.assertEqual(m.translate(lines, beam=2), expected)
        self.assertEqual(m.translate(lines[0], beam=2), expected[0])
        best = m.translations(lines[:2], beam=3, n_best=2)
        said = base.answers('translate', m.directory, '--beam', '3', '--n-best', '2',
                            text='\n'.join(lines[:2]) + '\n')
        self.assertEqual([[t.text for t in line] for line in best],
                         [[h['text'] for h in a['hyps']] for a in said])
        self.assertEqual(m.translate([]), [])
        self.fails(qkv.ArgumentError, None, m.translate, 'a\nb')
        self.fails(qkv.ArgumentError, None, m.translate, 'a', beam=2, n_best=3)
        # The directory's settings are the defaults: all but what is given.
        short = base.path('short')
        shutil.copytree(m.directory, short)
        with open(os.path.join(short, 'generation_config.json'), encoding='utf-8') as file:
            settings = json.load(file)
        base.write('short/generation_config.json', json.dumps(dict(settings, max_length=3)))
        short = qkv.Model(short, ctx=base.CONTEXT)
        self.assertLess(len(short.translate(lines[0])), len(m.translate(lines[0])))
        self.assertEqual(short.translate(lines[0], max_length=settings.get('max_length', 512)),
                         m.translate(lines[0]))
        self.assertEqual(m.translate(lines), base.command(
            'translate', m.directory, text='\n'.join(lines) + '\n').stdout.split('\n')[:-1])

    def test_shortlist(self):
        m = model('translator')
        made = qkv.shortlist(m.directory, base.path('lex'), source=base.file('text'),
                             target=base.file('german'), ctx=base.CONTEXT)
        self.assertGreater(made.entries, 0)
        self.assertIsInstance(m.translate('the cat', shortlist=base.path('lex')), str)
        self.assertIsInstance(m.translate('the cat', ensemble=[m.directory]), str)

    def test_fill(self):
        m, text = model('words'), 'the [MASK] sat on [MASK]'
        found = m.fill(text, top_k=3)
        said = base.answers('fill', m.directory, text, '--top-k', '3')
        self.assertEqual([[g.text for g in mask] for mask in found],
                         [[f['token'] for f in a['fills']] for a in said])
        self.assertAlmostEqual(found[0][0].probability, said[0]['fills'][0]['prob'], 6)
        self.assertEqual(m.fill([text, text], top_k=3), [found, found])
        self.fails(qkv.ArgumentError, None, m.fill, 'no mask')

    def test_classify(self):
        m, texts = model('mood'), ['what a film', 'what a bore']
        found = m.classify(texts)
        said = base.answers('classify', m.directory, *texts)
        self.assertEqual([f.label for f in found], [a['label'] for a in said])
        for f, a in zip(found, said):
            self.assertEqual(set(f.probabilities), {'good', 'bad'})
            for label, p in a['probs'].items():
                self.assertAlmostEqual(f.probabilities[label], p, 6)
        self.assertEqual(m.classify(texts[0]).label, found[0].label)
        packed = model('mood', pack=True).classify(texts)
        for f, p in zip(found, packed):
            self.assertAlmostEqual(f.probabilities['good'], p.probabilities['good'], 5)
        self.assertEqual(sorted(m.labels), ['bad', 'good'])
        self.assertIn(m.classify(('a film', 'a bore')).label, m.labels)
        self.assertEqual(len(m.classify_lines(base.file('labelled.tsv'))), 40)
        self.assertEqual(m.classify([]), [])
        self.assertTrue(m.can('classify_text') and not m.can('generate'))
        self.fails(qkv.ArgumentError, None, m.can, 'fly')

    def test_embed(self):
        m = model('vectors')
        v = m.embed(['the cat', 'it ran', 'the cat'])
        self.assertEqual((len(v), v.names), (3, ['the cat', 'it ran', 'the cat']))
        said = base.answers('embed', m.directory, 'the cat')[0]
        for a, b in zip(v.values.tolist()[0], said['vector']):
            self.assertAlmostEqual(a, b, 5)
        nearest = v.nearest(v, 2)
        self.assertEqual([n[0][0] for n in nearest], [0, 1, 0])
        self.assertAlmostEqual(nearest[0][0][1], 1, 5)
        self.fails(qkv.ArgumentError, None, v.nearest, v, 4)
        v.save(base.path('v.npy'))
        self.assertGreater(os.path.getsize(base.path('v.npy')), 100)
        self.assertEqual(len(m.embed_file(base.file('text'))), 200)
        self.fails(qkv.ArgumentError, None, m.embed, [])


class Series(Test):
    def test_forecast(self):
        m = model('series')
        found = m.forecast(base.file('rows.csv'), horizon=6)
        said = base.command('forecast', m.directory, '--horizon', '6',
                            text=base.FILES['rows.csv']).stdout.splitlines()
        self.assertEqual(found.columns, ['a', 'b'])
        self.assertEqual(len(found.values.tolist()), len(said) - 1)
        for row, line in zip(found.values.tolist(), said[1:]):
            for a, b in zip(row, line.split(',')):
                self.assertAlmostEqual(a, float(b), 3)
        rows = [[float(x) for x in line.split(',')] for line in
                base.FILES['rows.csv'].splitlines()[1:]]
        self.assertEqual(m.forecast(rows, horizon=6).values.tolist(), found.values.tolist())
        self.fails(qkv.ArgumentError, None, m.forecast, [[1.0]])
        self.fails(qkv.ArgumentError, None, m.forecast, [1.0, 2.0])
        self.fails(qkv.FileError, None, m.forecast, 'nowhere.csv')

    @needs_numpy
    def test_numpy(self):
        m = model('series')
        rows = numpy.loadtxt(base.file('rows.csv'), delimiter=',', skiprows=1)
        self.fails(qkv.ArgumentError, None, m.forecast, rows)  # float64
        found = numpy.asarray(m.forecast(rows.astype('float32')))
        self.assertEqual(found.shape, (6, 2))

    def test_fill(self):
        m = model('gaps')
        lines = base.FILES['rows.csv'].splitlines()
        lines[40] = ',1'
        gaps = base.write('gaps.csv', '\n'.join(lines) + '\n')
        found = m.fill_series(gaps).values.tolist()
        self.assertEqual(len(found), 120)
        self.assertEqual(found[39][1], 1)
        self.assertTrue(found[39][0] == found[39][0])
        self.assertEqual(found[38], [float(x) for x in lines[39].split(',')])

    def test_classes(self):
        m = model('walks')
        walks = base.write('new.csv', ''.join(line.split(',', 1)[1] + '\n' for line in
                                              base.FILES['walks.csv'].splitlines()))
        found = m.classify(walks)
        said = base.answers('classify', m.directory, walks)
        self.assertEqual([f.label for f in found], [a['label'] for a in said])


class Images(Test):
    def test_classify(self):
        m, image = model('vit'), base.path('photos', 'cat', '0.png')
        found = m.classify(image)
        said = base.answers('classify', m.directory, image)[0]
        self.assertEqual((found.label, found.name), (said['label'], said['file']))
        for label, p in said['probs'].items():
            self.assertAlmostEqual(found.probabilities[label], p, 6)
        pixels = qkv.Image.open(image, ctx=base.CONTEXT)
        self.assertEqual(m.classify(pixels).probabilities, found.probabilities)
        self.assertEqual(m.classify(pixels.array).probabilities, found.probabilities)
        self.assertEqual(len(m.classify(base.path('photos', 'cat'))), 6)
        self.assertEqual(len(m.classify([image, pixels])), 2)
        said = base.sentence('classify', m.directory, 'nowhere.png')
        self.fails(qkv.FileError, said, m.classify, 'nowhere.png')
        self.assertIn('label=', repr(found))
        self.fails(TypeError, 'an input or a list of them expected, found int', m.classify, 3)

    @needs_numpy
    def test_numpy(self):
        m, image = model('vit'), base.path('photos', 'dog', '1.png')
        array = numpy.asarray(qkv.Image.open(image, ctx=base.CONTEXT))
        self.assertEqual(m.classify(array).probabilities, m.classify(image).probabilities)
        self.fails(qkv.ArgumentError, None, m.classify, array.astype('float32'))

    def test_embed(self):
        base.file('set')
        v = model('alike').embed([base.path('set', '0.png'), base.path('set', '1.png')])
        self.assertEqual(len(v), 2)
        self.assertAlmostEqual(v.nearest(v, 2)[0][0][1], 1, 5)

    def check_picture(self, picture, name, *words):
        """An image of Python's is the one that the command writes."""
        base.command(*words, '--out', base.path(name))
        expected = qkv.Image.open(base.path(name), channels=0, ctx=base.CONTEXT)
        self.assertEqual(picture.array.tolist(), expected.array.tolist())

    def test_segment(self):
        m = model('parts')
        found = m.segment(base.IMAGE)
        self.check_picture(found.image, 'classes.png', 'segment', m.directory, base.IMAGE)
        self.assertEqual(found.map.shape, found.image.shape[:2])
        self.assertEqual(sum(found.pixels), found.map.shape[0] * found.map.shape[1])
        image = found.image
        copy, before = image.array.tolist(), base.CONTEXT.memory()
        found.close()
        del found
        self.assertEqual((image.array.tolist(), base.CONTEXT.memory()), (copy, before))
        del image
        self.assertLess(base.CONTEXT.memory(), before)

    def test_colorize(self):
        m = model('colors')
        found = m.colorize(base.IMAGE, hint=['3,3,#e0a060'])
        self.check_picture(found.image, 'coloured.png', 'colorize', m.directory, base.IMAGE,
                           '--hint', '3,3,#e0a060')
        self.assertIsNone(found.attention)
        self.assertIsNotNone(m.colorize(base.IMAGE, attention='3,3').attention)
        self.fails(qkv.ArgumentError, None, m.colorize, base.IMAGE, hint='nonsense')

    def test_reconstruct(self):
        m = model('mae')
        found = m.reconstruct(base.IMAGE, mask=0.5, seed=3)
        self.assertEqual(found.filled.shape, found.image.shape)
        self.assertEqual(found.hidden.shape, (16, 16, 3))
        self.assertEqual(found.filled.array.tolist(),
                         m.reconstruct(base.IMAGE, mask=0.5, seed=3).filled.array.tolist())
        self.fails(qkv.ArgumentError, None, m.reconstruct, base.IMAGE, mask=1)

    def test_codes(self):
        m = model('codes')
        self.assertEqual(m.config['ch_mult'], '1,1')
        codes = m.encode(base.IMAGE)
        base.command('encode', m.directory, base.IMAGE, '--out', base.path('codes.npy'))
        codes.save(base.path('own.npy'))
        with open(base.path('codes.npy'), 'rb') as a, open(base.path('own.npy'), 'rb') as b:
            self.assertEqual(a.read(), b.read())
        for given in (codes, base.path('codes.npy'), codes.values.tolist()):
            self.check_picture(m.decode(given), 'decoded.png', 'decode', m.directory,
                               base.path('codes.npy'))
        self.fails(qkv.ArgumentError, None, m.decode, [[10 ** 6]])
        self.fails(qkv.ArgumentError, None, m.decode, [1, 2])

    def test_imagine(self):
        m = model('prior')
        found = m.imagine(count=3, seed=4, show_next=2)
        self.assertEqual(found.images.shape, (3, 16, 16, 3))
        self.assertEqual(found.codes.shape[0], 3)
        self.assertEqual(len(found.next), 3)
        self.check_picture(m.imagine(count=3, seed=4).sheet, 'sheet.png', 'imagine', m.directory,
                           '--count', '3', '--seed', '4')
        half = m.imagine(count=1, complete=base.IMAGE, keep=0.5)
        self.assertEqual(half.images.shape[0], 1)


if __name__ == '__main__':
    unittest.main()
