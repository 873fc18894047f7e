#!/usr/bin/env python3
"""Makes the package in a build folder: BUILD/python/qkv, which `PYTHONPATH=BUILD/python` finds.

    python3 python/generate.py --build build [--cc gcc]

It holds the modules of python/qkv, the shared library, and the tables of the C interface that
qkv/c.py reads, made from the public headers: the compiler's preprocessor reads qkv.h, a parser of
declarations makes tables of it (structs, functions, function types, constants), and the compiler
checks the size of every struct, the offset of every field that ctypes computes from them, and every
constant. Nothing is written where one differs.
"""
import argparse
import ctypes
import os
import re
import shlex
import subprocess
import sys

TOKEN = re.compile(r'\s*([A-Za-z_]\w*|0[xX][0-9a-fA-F]+[uUlL]*|\d[\w.]*|"(?:[^"\\]|\\.)*"|'
                   r'\'(?:[^\'\\]|\\.)\'|\.\.\.|<<|>>|[^\s\w])')
PLAIN = {  # C's words for a number, without qualifiers and sorted -> ctypes' name
    'void': 'None', '_Bool': 'c_bool', 'bool': 'c_bool', 'char': 'c_char', 'float': 'c_float',
    'double': 'c_double', 'int': 'c_int', 'unsigned': 'c_uint', 'int unsigned': 'c_uint',
    'long': 'c_long', 'long long': 'c_longlong', 'size_t': 'c_size_t', 'ptrdiff_t': 'c_ssize_t',
    'int8_t': 'c_int8', 'uint8_t': 'c_uint8', 'int16_t': 'c_int16', 'uint16_t': 'c_uint16',
    'int32_t': 'c_int32', 'uint32_t': 'c_uint32', 'int64_t': 'c_int64', 'uint64_t': 'c_uint64'}
QUALIFIERS = {'const', 'extern', 'static', 'inline', 'volatile', 'restrict'}


class Headers:
    """What the declarations of the headers say."""

    def __init__(self, text):
        self.constants = {}  # name -> number
        self.structs = {}    # name -> [(field, type)]
        self.functions = {}  # name -> [type of the result, types of the arguments ..]
        self.callbacks = {}  # name of a function type -> the same
        self.types = {}      # name of a typedef -> type
        self.c_names = {}    # name of a struct -> how C calls it
        self.inline = {}     # name of a field -> type of the function that it points to
        self.left_out = []   # functions that ctypes cannot call: "..." and va_list
        self.tokens = TOKEN.findall(text)
        self.at = 0
        while self.at < len(self.tokens):
            self.declaration()

    def fail(self, message):
        raise SystemExit('generate.py: %s near "%s"' % (
            message, ' '.join(self.tokens[max(self.at - 8, 0):self.at + 4])))

    def next(self, expected=None):
        if self.at >= len(self.tokens):
            self.fail('a header ends too early')
        token = self.tokens[self.at]
        if expected and token != expected:
            self.fail('"%s" expected' % expected)
        self.at += 1
        return token

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ''

    def attributes(self):
        while self.peek() == '__attribute__':
            self.next()
            self.brackets('(', ')')

    def brackets(self, opening, closing):
        """The tokens between brackets; the brackets are left out."""
        self.next(opening)
        inside, depth = [], 1
        while depth:
            token = self.next()
            depth += (token == opening) - (token == closing)
            inside.append(token)
        return inside[:-1]

    def value(self, tokens):
        text = ' '.join(re.sub(r'^(0[xX][0-9a-fA-F]+|\d+)[uUlL]+$', r'\1', t) for t in tokens)
        try:
            return int(eval(text, {'__builtins__': {}}, self.constants))
        except Exception as error:
            return self.fail('no constant: %s (%s)' % (text, error))

    # ---- types

    def base(self, owner):
        """A type without its declarator: the name of a struct, of a function type or of ctypes."""
        words = []
        while True:
            token = self.peek()
            if token in QUALIFIERS:
                self.next()
            elif token == '__attribute__':
                self.attributes()
            elif token in ('struct', 'union'):
                return self.struct(owner)
            elif token == 'enum':
                self.enum()
                return 'c_int'
            elif not words and token in self.types:
                self.next()
                self.qualifiers()
                return self.types[token]
            elif token in ('unsigned', 'signed', 'long', 'short') or (
                    token in PLAIN and not (words and words[-1] not in ('unsigned', 'long'))):
                words.append(self.next())
            elif words:
                break
            elif re.match(r'[A-Za-z_]', token):  # a type of the system: FILE, va_list
                return self.next()
            else:
                self.fail('a type expected')
        return PLAIN.get(' '.join(sorted(words))) or self.fail('unknown type %s' % words)

    def qualifiers(self):
        while self.peek() in QUALIFIERS:
            self.next()

    def enum(self):
        self.next('enum')
        if self.peek() != '{':
            self.next()
        if self.peek() != '{':
            return
        self.next('{')
        value = 0
        while self.peek() != '}':
            name = self.next()
            if self.peek() == '=':
                self.next()
                tokens = []
                while self.peek() not in (',', '}'):
                    tokens.append(self.next())
                value = self.value(tokens)
            self.constants[name] = value
            value += 1
            if self.peek() == ',':
                self.next()
        self.next('}')

    def struct(self, owner):
        if self.next() == 'union':
            self.fail('no unions')
        name = owner
        if self.peek() != '{':
            name = self.next()
            self.c_names.setdefault(name, 'struct ' + name)
        if self.peek() != '{':
            return name
        self.next('{')
        fields = []
        while self.peek() != '}':
            base = self.base('%s.%s' % (name, self.member_name()))
            while True:
                field, kind = self.declarator(base)
                if field in self.inline:
                    self.callbacks['%s.%s' % (name, field)] = self.inline.pop(field)
                # A text may hold 0 bytes: c_char_p would read up to one.
                fields.append((field, 'c_void_p' if kind == 'c_char_p' else kind))
                if self.peek() != ',':
                    break
                self.next()
            self.next(';')
        self.next('}')
        self.structs[name] = fields
        return name

    def member_name(self):
        """The name behind the closing bracket of a struct inside a struct."""
        depth, i = 0, self.at
        while self.tokens[i] != ';' or depth:
            depth += (self.tokens[i] == '{') - (self.tokens[i] == '}')
            i += 1
        name = [t for t in self.tokens[self.at:i] if re.match(r'[A-Za-z_]', t)]
        return name[-1] if name else 'part'

    def declarator(self, base):
        """(name, type) of one declared thing; a function's type is a tuple."""
        constant = self.peek(-1) == 'const' or self.peek(-2) == 'const'
        stars = 0
        while self.peek() in ('*',) or self.peek() in QUALIFIERS:
            stars += self.next() == '*'
        self.attributes()
        if self.peek() == '(' and self.peek(1) == '*':  # a pointer to a function
            self.next()
            self.next()
            name = self.next() if self.peek() != ')' else ''
            self.next(')')
            self.inline[name] = (base if not stars else 'c_void_p',) + self.parameters()
            return name, 'c_void_p'
        name = self.next() if re.match(r'[A-Za-z_]', self.peek()) else ''
        kind = base if not stars else 'c_void_p'
        if stars == 1 and base == 'c_char' and constant:
            kind = 'c_char_p'
        if self.peek() == '(':
            return name, (kind,) + self.parameters()
        sizes = []
        while self.peek() == '[':
            inside = self.brackets('[', ']')
            sizes.append(self.value(inside) if inside else 0)
        for size in reversed(sizes):
            kind = '%s*%d' % (kind, size)
        self.attributes()
        return name, kind

    def parameters(self):
        self.next('(')
        kinds = []
        while self.peek() != ')':
            if self.peek() == '...':
                kinds.append(self.next())
                continue
            _, kind = self.declarator(self.base('parameter'))
            if kind != 'None':  # arrays are pointers here
                kinds.append('c_void_p' if '*' in kind or isinstance(kind, tuple) else kind)
            if self.peek() == ',':
                self.next()
        self.next(')')
        return tuple(kinds)

    def declaration(self):
        if self.peek() == ';':
            self.next()
            return
        typedef = self.peek() == 'typedef'
        if typedef:
            self.next()
        named = self.member_name()
        base = self.base(named)
        while self.peek() != ';':
            name, kind = self.declarator(base)
            self.attributes()
            if typedef and isinstance(kind, tuple):
                self.callbacks[name] = kind
                self.types[name] = name
            elif typedef:
                self.types[name] = kind
                if kind == name:
                    self.c_names[name] = name
            elif isinstance(kind, tuple):
                usable = '...' not in kind and not any('va_list' in k for k in kind)
                if usable:
                    self.functions[name] = kind
                else:
                    self.left_out.append(name)
            if self.peek() == ',':
                self.next()
        self.next(';')


def preprocess(cc, include):
    """The text of the public headers, macros replaced, the system's headers left out."""
    source = '#include <qkv.h>\n'
    done = subprocess.run(cc + ['-E', '-x', 'c', '-std=c11', '-I', include, '-'], text=True,
                          input=source, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit('generate.py: %s cannot read qkv.h' % ' '.join(cc))
    ours, lines = False, []
    root = os.path.realpath(include) + os.sep
    for line in done.stdout.splitlines():
        marker = re.match(r'#\s*(?:line\s+)?\d+ "(.*?)"', line)
        if marker:
            ours = os.path.realpath(marker.group(1)).startswith(root)
        elif ours and not line.startswith('#'):
            lines.append(line)
    return '\n'.join(lines)


def literals(include):
    """#define NAME NUMBER: what the preprocessor leaves nothing of."""
    found = {}
    for folder, _, names in os.walk(include):
        for name in sorted(names):
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                for line in file:
                    match = re.match(r'#define (QKV_\w+) (\(?[\d<> ]+\)?)$', line.strip())
                    if match:
                        found[match.group(1)] = int(eval(match.group(2), {'__builtins__': {}}))
    return found


def fields_text(fields):
    return ' '.join('%s:%s' % f for f in fields)


def write(headers, file):
    file.write('"""Made by python/generate.py from the public headers of qkv."""\n')
    for name, table in (
            ('STRUCTS', {k: fields_text(v) for k, v in headers.structs.items()}),
            ('FUNCTIONS', {k: ' '.join(v) for k, v in headers.functions.items()}),
            ('CALLBACKS', {k: ' '.join(v) for k, v in headers.callbacks.items()}),
            ('CONSTANTS', headers.constants)):
        file.write('%s = {\n' % name)
        for key in sorted(table):
            file.write('    %r: %r,\n' % (key, table[key]))
        file.write('}\n')


def check(headers, tables, cc, include):
    """Has the compiler compare its sizes and offsets with those of ctypes."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'qkv'))
    from layout import Layout  # the code that makes the structs at run time
    layout = Layout(tables['STRUCTS'])
    for name, kinds in list(headers.functions.items()) + list(headers.callbacks.items()):
        try:
            list(map(layout.type, kinds))
        except KeyError as unknown:
            raise SystemExit('generate.py: %s: no type of ctypes for %s' % (
                name, unknown)) from None
    lines = ['#include <qkv.h>', '#include <stddef.h>']
    for name in sorted(headers.structs):
        if '.' in name:
            continue
        c_name, made = headers.c_names.get(name, name), layout.struct(name)
        lines.append('_Static_assert(sizeof(%s) == %d, "%s");' % (
            c_name, ctypes.sizeof(made), name))
        for field, _ in headers.structs[name]:
            lines.append('_Static_assert(offsetof(%s, %s) == %d, "%s.%s");' % (
                c_name, field, getattr(made, field.rstrip()).offset, name, field))
    for name, value in sorted(headers.constants.items()):
        lines.append('_Static_assert(%s == %d, "%s");' % (name, value, name))
    done = subprocess.run(cc + ['-fsyntax-only', '-x', 'c', '-std=c11', '-I', include, '-'],
                          text=True, input='\n'.join(lines) + '\n', check=False)
    if done.returncode:
        raise SystemExit('generate.py: the compiler has another layout than ctypes')


def generate(cc, include, out):
    headers = Headers(preprocess(cc, include))
    headers.constants.update(literals(include))
    temporary = '%s.%d' % (out, os.getpid())
    with open(temporary, 'w', encoding='utf-8') as file:
        write(headers, file)
    tables = {}
    with open(temporary, encoding='utf-8') as file:
        exec(compile(file.read(), temporary, 'exec'), tables)
    check(headers, tables, cc, include)
    os.replace(temporary, out)
    return headers


def link(target, path):
    """A symbolic link, put in place at once: tests may run at the same time."""
    new = '%s.%d' % (path, os.getpid())
    os.symlink(os.path.relpath(target, os.path.dirname(path)), new)
    os.replace(new, path)


def package(cc, build):
    """Makes BUILD/python/qkv; returns what the headers say."""
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(os.path.abspath(build), 'python', 'qkv')
    os.makedirs(os.path.join(folder, 'lib'), exist_ok=True)
    sources = sorted(os.listdir(os.path.join(here, 'qkv')))
    for name in os.listdir(folder):
        if os.path.islink(os.path.join(folder, name)) and name not in sources:
            os.remove(os.path.join(folder, name))
    for name in sources:
        if name.endswith(('.py', '.typed')):
            link(os.path.join(here, 'qkv', name), os.path.join(folder, name))
    library = os.path.join(os.path.abspath(build), 'libqkv.so')
    if not os.path.exists(library):
        raise SystemExit('generate.py: %s is not there: build qkv first' % library)
    link(library, os.path.join(folder, 'lib', 'libqkv.so'))
    return generate(cc, os.path.join(os.path.dirname(here), 'include'),
                    os.path.join(folder, '_tables.py'))


def main():
    parser = argparse.ArgumentParser(description='make the package in a build folder')
    parser.add_argument('--build', default='build', help='the build folder')
    parser.add_argument('--cc', default=os.environ.get('CC', 'cc'), help='the C compiler')
    given = parser.parse_args()
    headers = package(shlex.split(given.cc), given.build)
    print('%d functions (left out: %s), %d structs, %d function types, %d constants' % (
        len(headers.functions), ', '.join(headers.left_out), len(headers.structs),
        len(headers.callbacks), len(headers.constants)))


if __name__ == '__main__':
    main()
