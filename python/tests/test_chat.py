"""Conversations; adapters."""
import gc
import json
import unittest

import base
import qkv
from base import Test, model

TALK = [{'role': 'user', 'content': 'Number 2?'}]


class Chats(Test):
    def test_the_commands_answers(self):
        m, pieces = model('talk'), []
        said = base.answers('chat', m.directory, '--greedy', '--tokens', '30', '--message',
                            'Number 2?', '--message', 'Number 3?')
        with m.chat(greedy=True, tokens=30) as chat:
            for text, other in zip(('Number 2?', 'Number 3?'), said):
                answer = chat.say(text, pieces.append)
                self.assertEqual([answer.text, answer.ids, answer.end, answer.prompt_tokens,
                                  answer.reused_tokens], [other[k] for k in (
                                      'text', 'ids', 'end', 'prompt_tokens', 'reused_tokens')])
            self.assertGreater(answer.reused_tokens, 10)
            self.assertEqual(''.join(pieces), said[0]['text'] + said[1]['text'])
            chat.reset()
            self.assertEqual(chat.say('Number 2?').text, said[0]['text'])

    def test_whole_conversations(self):
        m = model('talk')
        chat = m.chat(greedy=True, tokens=8, system='It is 2.', variables={'bos': ''})
        said = chat.text(TALK)
        self.assertIn('It is 2.', said)
        self.assertTrue(said.endswith('Number 2?<|im_end|>\n<|im_start|>assistant\n'), said)
        self.assertEqual(chat.answer({'messages': TALK}).ids, chat.answer(TALK).ids)
        self.assertEqual(chat.answer(TALK).text, m.chat(greedy=True, tokens=8,
                                                        system='It is 2.').say('Number 2?').text)

    def test_ends(self):
        chat, pieces = model('talk').chat(greedy=True, tokens=8), []
        answer = chat.say('Number 1?', lambda text: pieces.append(text) or len(pieces) < 3)
        self.assertEqual((answer.end, answer.text), ('interrupted', ''.join(pieces)))

        def fail(_):
            raise KeyError('mine')
        chat.reset()
        first = chat.say('Number 1?')
        self.fails(KeyError, None, chat.say, 'Number 2?', fail)
        chat.reset()
        self.assertEqual(chat.say('Number 1?').text, first.text)

    def test_it_keeps_the_model(self):
        c = base.context()
        before = c.memory()
        m = qkv.Model(base.directory('talk'), ctx=c)
        chat = m.chat(tokens=4)
        m.close()
        del m
        gc.collect()
        self.assertTrue(chat.say('Number 1?').ids)
        chat.close()
        chat.close()
        self.fails(qkv.ClosedError, 'this chat is closed', chat.say, 'a')
        self.assertEqual(c.memory(), before)

    def test_collected_in_any_order(self):
        """The collector may end a model before its conversation, where both are in a cycle."""
        c = base.context()
        closed, core = [], c._core
        model, chat = (qkv.context.Handle(core, name, closed.append) for name in 'mc')
        chat.owner = model
        core.live[chat._number] = model._number
        model.__del__()
        self.assertEqual(closed, [])
        chat.__del__()
        self.assertEqual(closed, ['c', 'm'])
        for handle in (model, chat):
            core.live[handle._number] = 0  # they end once more

    def test_sentences(self):
        m = model('talk')
        self.fails(qkv.ArgumentError, 'unknown field tokns; did you mean tokens?', m.chat, tokns=3)
        self.fails(qkv.FormatError, None, m.chat().answer, [])
        self.fails(qkv.ArgumentError, None, m.chat().answer, [object()])
        said = base.sentence('chat', base.directory('lm'), '--message', 'a')
        self.fails(qkv.FileError, said, model('lm').chat)
        self.fails(qkv.UnsupportedError, None, model('words').chat)
        self.fails(qkv.Error, 'the model is in use by the call that this function was called from',
                   m.chat().say, 'Number 1?', lambda text: m.generate('Number'))


class Adapters(Test):
    def test_lora(self):
        kind, given = base.settings('lm', init=base.directory('lm'), lora='r=2', steps=2, lr=0.1)
        for name in ('tokenizer', 'model'):
            given.pop(name)
        qkv.train(kind, out=base.path('adapter'), ctx=base.CONTEXT, resume=True, **given)
        alone = model('lm')
        adapted = qkv.Model(base.path('adapter'), ctx=base.CONTEXT)
        text = adapted.generate('the cat', greedy=True, tokens=30)
        self.assertEqual(text, base.answers('generate', base.path('adapter'), '--prompt', 'the cat',
                                            '--greedy', '--tokens', '30')[0]['text'])
        before = alone.evaluate()['loss']
        self.assertLess(adapted.evaluate(file=base.file('text'))['loss'], before)
        for weight, expected in ((1, adapted), (0, alone)):
            m = model('lm', adapter=['%s=%g' % (base.path('adapter'), weight)])
            self.assertEqual(m.evaluate(file=base.file('text')),
                             expected.evaluate(file=base.file('text')))
        self.fails(qkv.FileError, None, model, 'lm', adapter='nowhere')


if __name__ == '__main__':
    unittest.main()
