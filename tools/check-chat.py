#!/usr/bin/env python3
"""Compares the texts that qkv makes of conversations with those of transformers, for the templates
of a folder (*.jinja); run by hand, with transformers and jinja2.

    python3 tools/check-chat.py --build build TEMPLATES

Each template is put into the directory of a small model. Each conversation is rendered with and
without a prompt for an answer, tools, documents and thinking. Both make the same text, or both
refuse; what qkv refuses because it does not know it is counted apart.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def user(text):
    return {"role": "user", "content": text}


def says(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather <of> a city & \"more\"",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "The city"},
        "days": {"type": ["integer", "null"], "enum": [1, 2, 3]},
        "units": {"type": "array", "items": {"type": "string"}, "default": ["c"]}}},
    "return": {"type": "number", "description": "the temperature"}}}
CALL = {"id": "abc123XYZ", "type": "function", "function": {
    "name": "get_weather", "arguments": {"city": "Z\u00fcrich", "days": 2, "x": 1.5, "f": True,
                                         "n": None, "l": [1, "a"]}}}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "abc123XYZ",
          "content": "{\"t\": 20}"}
CONVERSATIONS = [
    [user("Hi")], [system("Be brief."), user("Hi")], [user("Hi"), says("Hello"), user("Bye")],
    [system("  sys with spaces \n"), user("\n\n a \n"), says("  b  "), user("")],
    [user("\u00fcn\u00efc\u00f6d\u00e9 \U0001f642 \u6f22\u5b57 \u2028 <b>&'\"</b>"),
     says("line\r\nline\ttab"), user("</s><|im_end|>{{ x }}{% if %}")],
    [says("I begin"), user("why")], [user("a"), user("b")], [system("x")],
    [user("a"), says("b"), says("c")], [system("s"), system("t"), user("u")],
    [user("q"), says("<think>\nhmm\n</think>\n\nanswer"), user("and"), says("<think>x</think>y")],
    [user("q"), says("a", reasoning_content="because"), user("r")],
    [user("w?"), says("", tool_calls=[CALL]), RESULT, says("20 degrees"), user("thanks")],
    [user("w?"), {"role": "assistant", "tool_calls": [CALL, dict(CALL, id="def456UVW")]}, RESULT,
     dict(RESULT, tool_call_id="def456UVW")],
    [user("w?"), says(None, tool_calls=[CALL]), RESULT],
    [user([{"type": "text", "text": "part one"}, {"type": "text", "text": " part two"}]),
     says([{"type": "text", "text": "ok"}])],
    [user([{"type": "image"}, {"type": "text", "text": "what is it"}])],
    [{"role": "developer", "content": "dev"}, user("x")],
    [{"role": "alien", "content": "z"}, user("x")], [system(""), user(" "), says(""), user("0")],
    [{"role": "user"}], [user(5)], [user("x" * 3000), says("y\n" * 50), user("z")],
    [system("You are. /no_think"), user("hi /think"), says("yo"), user("b")],
]
VARIABLES = [
    {}, {"add_generation_prompt": True}, {"add_generation_prompt": True, "tools": [TOOL]},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "tools": [TOOL, TOOL],
     "documents": [{"title": "T", "text": "body"}]},
]
UNKNOWN = ("is not known", "is not understood")


def make_directory(folder):
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for token in ("<s>", "</s>", "<unk>", "<pad>"):
        vocab[token] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                   unk_token="<unk>", pad_token="<pad>")
    config = LlamaConfig(vocab_size=len(vocab), hidden_size=8, intermediate_size=8,
                         num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=64)
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return fast


def expected(fast, template, messages, variables):
    try:
        return fast.apply_chat_template(messages, chat_template=template, tokenize=False,
                                        **variables)
    except Exception:  # what is refused
        return None


def found(qkv, folder, cases):
    """qkv's texts, or the sentences that refuse them: a run of the command stops at the first."""
    texts, path = [], os.path.join(folder, "cases.jsonl")
    while len(texts) < len(cases):
        with open(path, "w", encoding="utf-8") as f:
            for messages, variables in cases[len(texts):]:
                line = {"add_generation_prompt": False, **variables, "messages": messages}
                f.write(json.dumps(line) + "\n")
        run = subprocess.run([qkv, "chat", folder, "--file", path, "--show-text", "--json",
                              "--quiet"], capture_output=True, text=True)
        texts += [("text", json.loads(line)["text"]) for line in run.stdout.split("\n") if line]
        if run.returncode:
            texts.append(("refused", run.stderr.strip()))
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("templates")
    o = parser.parse_args()
    qkv = os.path.join(o.build, "qkv")
    cases = [(m, v) for m in CONVERSATIONS for v in VARIABLES]
    all_same = all_refused = all_unknown = different = 0
    files = sorted(glob.glob(os.path.join(o.templates, "*.jinja")))
    with tempfile.TemporaryDirectory() as folder:
        fast = make_directory(folder)
        for file in files:
            with open(file, encoding="utf-8", newline="") as f:
                template = f.read()
            with open(os.path.join(folder, "chat_template.jinja"), "w", newline="") as f:
                f.write(template)
            same = refused = unknown = 0
            for (messages, variables), (kind, text) in zip(cases, found(qkv, folder, cases)):
                wanted = expected(fast, template, messages, variables)
                same += kind == "text" and text == wanted
                refused += kind == "refused" and wanted is None
                unknown += kind == "refused" and wanted is None and any(
                    u in text for u in UNKNOWN)
                if (text if kind == "text" else None) != wanted:
                    different += 1
                    print(f"{file}\n  {json.dumps(messages)[:200]} {list(variables)}\n"
                          f"  transformers {wanted!r:.300}\n  qkv {text!r:.300}")
            print(f"{os.path.basename(file):60} same {same:4}  both refuse {refused:4}")
            all_same, all_refused = all_same + same, all_refused + refused
            all_unknown += unknown
    print(f"{len(files)} templates, {len(cases)} cases each: {all_same} texts are the same, "
          f"{all_refused} are refused by both ({all_unknown} of them for what qkv does not know), "
          f"{different} differ")
    sys.exit(different > 0)


main()
