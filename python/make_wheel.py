#!/usr/bin/env python3
"""Makes a wheel of the package: the modules, the library, and the libraries that it needs but the C
library, so that `pip install` needs no compiler and nothing of the system.

    python3 python/make_wheel.py --build build --out dist [--cc gcc]

The libraries are stripped and get names of their own, by a hash of what they hold, so that another
package's copy (torch's OpenMP, say) is never mistaken for them. The C++ library keeps its name: it
is loaded only where the system has none that is new enough (qkv/c.py). The wheel's tag names the
oldest glibc that has what all of them ask for. The same files give the same wheel, to the bit.
"""
import argparse
import base64
import hashlib
import io
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import zipfile

import generate

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
GLIBC = re.compile(r'^(ld-linux|linux-vdso|lib(c|m|dl|pthread|rt|util|resolv)\.so)')
CPLUSPLUS = re.compile(r'^lib(stdc\+\+|gcc_s)\.so')
DATE = (1980, 1, 1, 0, 0, 0)


def fail(message):
    raise SystemExit('make_wheel.py: ' + message)


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, env=dict(os.environ, LC_ALL='C'))
    if done.returncode:
        fail('%s: %s' % (' '.join(words), done.stderr.strip()))
    return done.stdout


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def check_tools():
    lacking = [t for t in ('patchelf', 'readelf', 'strip', 'ldd') if not shutil.which(t)]
    if lacking:
        fail('not installed: %s (./bootstrap wheel installs what a wheel needs)'
             % ', '.join(lacking))


# ---- libraries ---------------------------------------------------------------------------------

def needed(path):
    """The names of the libraries that a library asks for."""
    return re.findall(r'\(NEEDED\).*\[(.*)\]', run('readelf', '-d', path))


def found(path):
    """name -> path of all libraries that the loader finds for it."""
    lines = re.findall(r'^\s*(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$', run('ldd', path), re.M)
    for name, where in lines:
        if not os.path.isabs(where):
            fail('%s needs %s, which is not found' % (path, name))
    return {name: os.path.realpath(where) for name, where in lines if not GLIBC.match(name)}


def glibc(paths):
    """The newest minor version of glibc that the libraries ask for."""
    asked = re.findall(r'GLIBC_2\.(\d+)', ''.join(run('readelf', '-V', path) for path in paths))
    return max(map(int, asked + ['17']))


def licence(path):
    """(package, text) of the Debian package that a library is from."""
    for name in (path, path.replace('/usr/lib/', '/lib/', 1)):
        done = subprocess.run(['dpkg-query', '-S', name], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        if done.returncode == 0:
            package = done.stdout.split(':')[0]
            return package, read('/usr/share/doc/%s/copyright' % package)
    return fail('%s: the Debian package that it is from, with its licence, is not installed' % path)


def common(text):
    """name -> text of the licences that Debian's copyright files refer to, such as GPL-3."""
    names = re.findall(rb'/usr/share/common-licenses/([\w.+-]*\w)', text)
    return {name.decode(): read(os.path.join(b'/usr/share/common-licenses', name))
            for name in names}


def copy(path, folder, name):
    """A stripped copy, found with what it needs beside it."""
    target = os.path.join(folder, name)
    shutil.copyfile(path, target)
    os.chmod(target, 0o755)
    run('strip', '--strip-unneeded', target)
    return target


def collect(build, folder):
    """Copies the library and what it needs to folder; returns name -> text of the licences."""
    library = os.path.join(build, 'libqkv.so')
    os.makedirs(os.path.join(folder, 'spare'))
    libraries, licences, names = found(library), {}, {}
    for name, path in sorted(libraries.items()):
        package, text = licence(path)
        licences[package] = text
        licences.update(common(text))
        if CPLUSPLUS.match(name):
            copy(path, os.path.join(folder, 'spare'), name)
            continue
        mark = hashlib.sha256(read(path)).hexdigest()[:8]
        stem, rest = name.split('.so', 1)
        names[name] = '%s-%s.so%s' % (stem, mark, rest)
        run('patchelf', '--set-soname', names[name], copy(path, folder, names[name]))
    copy(library, folder, 'libqkv.so')
    for name in sorted(names.values()) + ['libqkv.so']:
        target = os.path.join(folder, name)
        words = [w for n in needed(target) if n in names for w in ('--replace-needed', n, names[n])]
        # Two calls: patchelf 0.14 undoes the names where it has to make room for the path.
        run('patchelf', '--set-rpath', '$ORIGIN', target)
        if words:
            run('patchelf', *words, target)
    check_bundle(folder)
    return licences


def check_bundle(folder):
    """Every library finds what it needs in the folder, or in the C and C++ libraries."""
    there = os.listdir(folder)
    for name in there:
        if '.so' in name:
            for other in needed(os.path.join(folder, name)):
                if other not in there and not GLIBC.match(other) and not CPLUSPLUS.match(other):
                    fail('%s needs %s, which the wheel has not' % (name, other))


# ---- the wheel ---------------------------------------------------------------------------------

METADATA = '''Metadata-Version: 2.1
Name: qkv
Version: %s
Summary: Trains, runs and looks inside transformers on text and images
License: MIT
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == 'numpy'
Description-Content-Type: text/markdown

'''
WHEEL = 'Wheel-Version: 1.0\nGenerator: qkv\nRoot-Is-Purelib: false\nTag: %s\n'


def contents(build, version, folder):
    """name -> (bytes, mode) of all files, and the tag."""
    package = os.path.join(build, 'python', 'qkv')
    files = {}
    for name in sorted(os.listdir(package)):
        if name.endswith(('.py', '.typed')):
            files['qkv/' + name] = read(os.path.join(package, name)), 0o644
    licences = collect(build, folder)
    paths = [os.path.join(at, n) for at, _, names in os.walk(folder) for n in sorted(names)]
    for path in sorted(paths):
        files['qkv/lib/' + os.path.relpath(path, folder)] = read(path), 0o755
    tag = 'py3-none-manylinux_2_%d_%s' % (glibc(paths), platform.machine())
    info = 'qkv-%s.dist-info/' % version
    files[info + 'METADATA'] = (METADATA % version).encode() + read(
        os.path.join(HERE, 'README.md')), 0o644
    files[info + 'WHEEL'] = (WHEEL % tag).encode(), 0o644
    files[info + 'licenses/LICENSE'] = read(os.path.join(ROOT, 'LICENSE')), 0o644
    for name, text in sorted(licences.items()):
        files[info + 'licenses/%s.txt' % name] = text, 0o644
    record = io.StringIO()
    for name, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        record.write('%s,sha256=%s,%d\n' % (name, digest, len(data)))
    record.write(info + 'RECORD,,\n')
    files[info + 'RECORD'] = record.getvalue().encode(), 0o644
    return files, tag


def write(files, path):
    with zipfile.ZipFile(path + '.new', 'w') as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)
    os.replace(path + '.new', path)


def main():
    parser = argparse.ArgumentParser(description='make a wheel')
    parser.add_argument('--build', default='build', help='the build folder')
    parser.add_argument('--out', default='dist', help='the folder that receives the wheel')
    parser.add_argument('--cc', default=os.environ.get('CC', 'cc'), help='the C compiler')
    given = parser.parse_args()
    check_tools()
    headers = generate.package(shlex.split(given.cc), given.build)
    version = '.'.join(str(headers.constants['QKV_VERSION_' + part])
                       for part in ('MAJOR', 'MINOR', 'PATCH'))
    with tempfile.TemporaryDirectory() as folder:
        files, tag = contents(given.build, version, os.path.join(folder, 'lib'))
    os.makedirs(given.out, exist_ok=True)
    path = os.path.join(given.out, 'qkv-%s-%s.whl' % (version, tag))
    write(files, path)
    print('%s: %.1f MB' % (path, os.path.getsize(path) / 1e6))


if __name__ == '__main__':
    main()
