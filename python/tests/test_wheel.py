"""The wheel: small, complete, described by its RECORD; it runs where it was unpacked."""
import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

import base
from base import Test

BUILD = os.path.dirname(os.path.abspath(base.COMMAND))
TOOLS = [t for t in ('patchelf', 'readelf', 'strip', 'ldd', 'dpkg-query') if not shutil.which(t)]


@unittest.skipIf(TOOLS, 'not installed: ' + ', '.join(TOOLS))
class Wheel(Test):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(
            [sys.executable, os.path.join(base.SOURCE, 'python', 'make_wheel.py'), '--build', BUILD,
             '--out', base.path('dist')], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout)
        cls.path = base.path('dist', os.listdir(base.path('dist'))[0])
        cls.archive = zipfile.ZipFile(cls.path)
        cls.names = cls.archive.namelist()
        cls.archive.extractall(base.path('site'))

    @classmethod
    def tearDownClass(cls):
        cls.archive.close()

    def test_size_and_name(self):
        self.assertLessEqual(os.path.getsize(self.path), 15e6)
        self.assertRegex(os.path.basename(self.path),
                         r'^qkv-[0-9.]+-py3-none-manylinux_2_[0-9]+_\w+\.whl$')
        tag = os.path.basename(self.path)[:-4].split('-', 2)[2]
        info = next(n for n in self.names if n.endswith('/WHEEL'))
        self.assertIn('Tag: %s\n' % tag, self.archive.read(info).decode())

    def test_record(self):
        record = next(n for n in self.names if n.endswith('/RECORD'))
        rows = list(csv.reader(io.StringIO(self.archive.read(record).decode())))
        self.assertEqual([r[0] for r in rows], self.names)
        for name, digest, size in rows:
            if name != record:
                data = self.archive.read(name)
                made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
                self.assertEqual((digest, size), ('sha256=' + made, str(len(data))))

    def test_licences(self):
        libraries = [n for n in self.names if '.so' in n and not n.endswith('libqkv.so')]
        texts = {n.rsplit('/', 1)[1][:-4]: self.archive.read(n).decode('utf-8', 'replace')
                 for n in self.names if n.endswith('.txt') and '/licenses/' in n}
        self.assertEqual(len([n for n in texts if n.startswith(('lib', 'ocl', 'zlib'))]),
                         len(libraries))
        for name, text in texts.items():  # Debian's say "see GPL-3", which a bare wheel has not
            for common in re.findall(r'/usr/share/common-licenses/([\w.+-]*\w)', text):
                self.assertIn(common, texts, name)
        self.assertIn('GNU GENERAL PUBLIC LICENSE', texts['GPL-3'])
        self.assertIn('Apache License', texts['Apache-2.0'])

    def test_every_module_is_there(self):
        sources = {n for n in os.listdir(os.path.join(base.SOURCE, 'python', 'qkv'))
                   if n.endswith(('.py', '.typed'))}
        self.assertEqual({n[4:] for n in self.names if re.fullmatch(r'qkv/\w+\.(py|typed)', n)},
                         sources | {'_tables.py'})

    def test_it_uses_its_own_libraries(self):
        code = ('import qkv, re, sys\n'
                'm = qkv.Model(sys.argv[1], ctx=qkv.Context(threads=1))\n'
                'assert len(m.generate("the", tokens=4)) == 4\n'
                'for line in open("/proc/self/maps"):\n'
                '    path = line.split()[-1]\n'
                '    if ".so" in path and re.search("dnnl|gomp|jansson|png|jpeg|pcre|utf8proc", '
                'path): print(path)\n')
        done = subprocess.run([sys.executable, '-S', '-c', code, base.directory('lm')], text=True,
                              check=True, stdout=subprocess.PIPE,
                              env={'PYTHONPATH': base.path('site'), 'PATH': '/nowhere'})
        paths = set(done.stdout.split())
        self.assertGreaterEqual(len(paths), 6)
        self.assertTrue(all(p.startswith(base.path('site')) for p in paths), paths)


if __name__ == '__main__':
    unittest.main()
