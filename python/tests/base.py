"""What the tests share: small models, made once, and the command to compare with."""
import atexit
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import qkv

os.environ['OPENBLAS_NUM_THREADS'] = '1'  # NumPy's: a thread that blocks no signals
try:
    import numpy
except ImportError:
    numpy = None

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
COMMAND = os.environ.get('QKV', os.path.join(SOURCE, 'build', 'qkv'))
IMAGES = os.path.join(SOURCE, 'tests', 'golden', 'images')
IMAGE = os.path.join(IMAGES, 'type2-8bit.png')
needs_numpy = unittest.skipUnless(numpy, 'NumPy is not installed')

# QKV_PYTHON_FOLDER: a folder that stays, whose models are used again (valgrind would take long to
# train them).
_folder = os.environ.get('QKV_PYTHON_FOLDER')
if _folder:
    os.makedirs(_folder, exist_ok=True)
else:
    _folder = tempfile.mkdtemp(prefix='qkv-python-')
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
_models = {}


def path(*names):
    """A path in the tests' folder."""
    return os.path.join(_folder, *names)


def context(**options):
    options.setdefault('threads', 1)
    return qkv.Context(**options)


CONTEXT = context()


def write(name, text):
    with open(path(name), 'w', encoding='utf-8') as file:
        file.write(text)
    return path(name)


TEXT = ''.join('the cat number %d sat on mat %d and it ran\n' % (i, i * 7 % 31)
               for i in range(200))
FILES = {
    'text': TEXT,
    'german': TEXT.replace('the', 'die').replace('cat', 'katze').replace('sat', 'sass'),
    'labelled.tsv': ''.join('%s\t%s\n' % (('good', 'what a film'), ('bad', 'what a bore'))[i % 2]
                            for i in range(40)),
    'talks.jsonl': ''.join(
        '{"messages": [{"role": "system", "content": "It is 2."}, '
        '{"role": "user", "content": "Number %d?"}, '
        '{"role": "assistant", "content": "It is %s."}]}\n' % (i % 4, 'red blue green black'
                                                              .split()[i % 4])
        for i in range(40)),
    'rows.csv': 'a,b\n' + ''.join('%g,%g\n' % (i % 7, i % 5) for i in range(120)),
    'walks.csv': ''.join('%s,%s\n' % (('up', 'down')[w % 2], ','.join(
        '%g' % ((1, -1)[w % 2] * i) for i in range(16))) for w in range(12))}
NANO = {'model': 'nano', 'steps': 2}
SETTINGS = {
    'lm': ('lm', dict(data='text', tokenizer='char', length=16, batch=4, **NANO)),
    'talk': ('lm', dict(conversations='talks.jsonl', chat_template='chatml', tokenizer='char',
                        length=240, batch=2, **NANO)),
    'large': ('lm', dict(data='text', tokenizer='char', length=8, batch=1, steps=1, eval_units=1,
                         hidden_size=512, num_hidden_layers=4, num_attention_heads=8,
                         intermediate_size=1024)),
    'translator': ('translate', dict(source='text', target='german', vocab=80, **NANO)),
    'words': ('mlm', dict(data='text', vocab=80, **NANO)),
    'mood': ('classify', dict(data='labelled.tsv', init='words', steps=2)),
    'vectors': ('embed', dict(source='text', target='german', vocab=80, **NANO)),
    'series': ('forecast', dict(data='rows.csv', context=24, horizon=6, patch=3, steps=2)),
    'gaps': ('fill', dict(data='rows.csv', context=24, patch=3, valid_last=48, steps=2)),
    'walks': ('classify', dict(data='walks.csv', channels=1, steps=2)),
    'vit': ('classify', dict(data='photos', type='vit', size=16, **NANO)),
    'alike': ('embed', dict(data='set', type='vit', size=16, **NANO)),
    'mae': ('reconstruct', dict(images='set', size=16, **NANO)),
    'parts': ('segment', dict(images='set', masks='masks', size=16, **NANO)),
    'colors': ('colorize', dict(images='set', size=16, **NANO)),
    'codes': ('vqgan', dict(images='set', size=16, ch_mult=[1, 1], num_res_blocks=1,
                            z_channels=16, embed_dim=16, n_embed=32, disc_start=0,
                            perceptual_steps=2, **NANO)),
    'prior': ('imagine', dict(vqgan='codes', images='set', size=16, **NANO))}
PATHS = ('data', 'conversations', 'source', 'target', 'init', 'images', 'masks', 'vqgan')


def _images():
    if os.path.exists(path('set')):
        return
    for folder in ('set', 'masks', 'photos/cat', 'photos/dog'):
        os.makedirs(path(folder))
    for i in range(6):
        shutil.copy(IMAGE, path('set', '%d.png' % i))
        shutil.copy(os.path.join(IMAGES, 'type0-1bit.png'), path('masks', '%d.png' % i))
    for i in range(12):
        pixels = [[[(x * 9 * (i % 2) + y * 9 * (1 - i % 2) + i) % 256] * 3 for x in range(24)]
                  for y in range(24)]
        qkv.Image(pixels, ctx=CONTEXT).save(
            path('photos', ('cat', 'dog')[i % 2], '%d.png' % i))


def file(name):
    """One of the files to learn from."""
    if name in ('set', 'masks', 'photos'):
        _images()
    elif not os.path.exists(path(name)):
        write(name, FILES[name])
    return path(name)


def settings(name, **more):
    """(kind, settings) of a small model, with whole paths."""
    kind, given = SETTINGS[name]
    given = dict(given, **more)
    for key in PATHS:
        if isinstance(given.get(key), str) and not os.path.isabs(given[key]):
            given[key] = directory(given[key]) if given[key] in SETTINGS else file(given[key])
    return kind, given


def directory(name):
    """The directory of a small model, made once."""
    if name not in _models:
        kind, given = settings(name)
        qkv.train(kind, out=path('run-' + name), ctx=CONTEXT, resume=True, **given)
        _models[name] = path('run-' + name)
    return _models[name]


def model(name, **options):
    return qkv.Model(directory(name), ctx=CONTEXT, **options)


def command(*words, check=True, text=None):
    """What the command prints."""
    done = subprocess.run([COMMAND, *map(str, words), '--threads', '1'], input=text,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          encoding='utf-8')
    if check and done.returncode:
        raise AssertionError('qkv %s: %s' % (' '.join(map(str, words)), done.stderr))
    return done


def answers(*words, **options):
    """The JSON lines that the command prints."""
    return [json.loads(line) for line in command(
        *words, '--json', **options).stdout.splitlines()]


def sentence(*words):
    """The sentence with which the command fails."""
    return command(*words, check=False).stderr.strip().split('qkv: ', 1)[1]


class Test(unittest.TestCase):
    def fails(self, expected, said, function, *arguments, **options):
        with self.assertRaises(expected) as caught:
            function(*arguments, **options)
        if said is not None:
            self.assertEqual(str(caught.exception), said)
        return caught.exception
