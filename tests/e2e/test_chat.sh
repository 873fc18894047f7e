#!/bin/sh
# test_chat.sh - a small model learns answers from conversations, is killed and goes on to the same
# bits, and then answers: messages, a pipe, a file; what is refused.
# shellcheck disable=SC2154 # of commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

# Questions with answers; the system's message is in every third one.
talks() {
    awk -v n="$1" 'BEGIN {
        split("red blue green black", colour)
        for (i = 0; i < n; i++) {
            d = i % 4 + 1
            printf "{\"messages\": ["
            if (i % 3 == 0) printf "{\"role\": \"system\", \"content\": \"Be kind.\"}, "
            printf "{\"role\": \"user\", \"content\": \"Number %d?\"}, ", d
            printf "{\"role\": \"assistant\", \"content\": \"It is %s.\"}]}\n", colour[d]
        }
    }'
}
talks 160 >talks.jsonl
small="--tokenizer char --length 240 --batch 4 --threads 1 --set hidden_size=48
    --set num_hidden_layers=1 --set num_attention_heads=2 --set intermediate_size=64 --lr 0.006"

# shellcheck disable=SC2086 # words of $small
goes_on 200 straight stopped train lm --conversations talks.jsonl --chat-template chatml \
    --steps 600 $small
[ -s straight/chat_template.jinja ] || fail "no template beside the model"
[ -n "$(find straight/train/samples -name '*answer-1*')" ] || fail "no sample of an answer"

# Held-out answers, which are the same as in training, are known.
"$QKV" eval straight --json >answer 2>notes || fail "eval: $(cat notes)"
above "$(field accuracy answer)" 0.9 || fail "accuracy: $(cat answer)"
tail -16 talks.jsonl >held.jsonl # the tenth that training held out
"$QKV" eval straight --file held.jsonl --json >again 2>notes || fail "eval: $(cat notes)"
cmp -s answer again || fail "a file of conversations: $(cat again), held out: $(cat answer)"

ask() { "$QKV" chat straight --greedy --threads 1 "$@" 2>notes || fail "chat $*: $(cat notes)"; }

# Alone, in a conversation whose start is not computed again, from a pipe, after /reset.
ask --message 'Number 2?' >answer
[ "$(cat answer)" = "It is blue." ] || fail "one message: $(cat answer)"
ask --message 'Number 3?' --message 'Number 4?' --json >answer
[ "$(wc -l <answer)" -eq 2 ] || fail "two answers expected: $(cat answer)"
head -1 answer | grep -qF '{"text": "It is green.", "ids": [' || fail "--json: $(cat answer)"
head -1 answer | grep -qF '"end": "stop"' || fail "--json: $(cat answer)"
above "$(field reused_tokens answer)" 60 || fail "computed again: $(cat answer)"
printf 'Number 1?\n/reset\n\nNumber 3?\n/quit\nNumber 4?\n' | ask >answer
[ "$(cat answer)" = "It is red.
It is green." ] || fail "a pipe: $(cat answer)"
talks 4 | sed 's/, {"role": "assistant".*}\]}$/]}/' >questions.jsonl
ask --file questions.jsonl >answer
[ "$(cat answer)" = "It is red.
It is blue.
It is green.
It is black." ] || fail "a file: $(cat answer)"
head -1 questions.jsonl >one.jsonl
{ echo; cat one.jsonl; echo; } >blank.jsonl
[ "$(ask --file blank.jsonl)" = "It is red." ] || fail "blank lines: $(ask --file blank.jsonl)"
[ "$(ask --file one.jsonl --show-text)" = "<|im_start|>system
Be kind.<|im_end|>
<|im_start|>user
Number 1?<|im_end|>
<|im_start|>assistant" ] || fail "--show-text: $(ask --file one.jsonl --show-text)"
[ "$(ask --message 'Number 1?' --tokens 4)" = "It i" ] || fail "--tokens: $(cat notes)"

# What no longer fits is left out, with a note; a message that is too long is refused.
for i in 1 2 3 4 1; do echo "Number $i?"; done | ask >answer
[ "$(wc -l <answer)" -eq 5 ] || fail "a long talk: $(cat answer)"
grep -q "no longer fit" notes || fail "a long talk: $(cat notes)"
refused 1 'at most' chat straight --message "$(printf 'Number%.0s ' $(seq 99))"

# A person on a terminal: blank lines say nothing, \ continues a message, commands are told apart
# from messages, a cut answer is said to be. (A bare chroot has no terminals to make.)
typed() {
    printf '%b' "$1" | script -qec "'$QKV' chat straight --greedy --threads 1 $2" /dev/null |
        tr -d '\r' >shown
}
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    typed 'Number 3?\n  \n/help\n/reset\nNumber 2?\n' ""
    grep -q 'It is blue\.$' shown || fail "typed: $(cat shown)"
    grep -q '/help is no command: /reset forgets' shown || fail "/help: $(cat shown)"
    [ "$(grep -c 'It is ' shown)" -eq 2 ] || fail "blank lines: $(cat shown)"
    [ "$(tail -c 1 shown)" = "" ] || fail "Ctrl-D leaves a line begun: $(cat shown)"
    typed 'Number \\\n1?\n/quit\n' "--tokens 3"
    grep -q '| It $' shown || fail "a message of two lines: $(cat shown)"
    [ "$(grep -c 'the answer is cut after 3 tokens' shown)" -eq 1 ] || fail "cut: $(cat shown)"
fi

# A tuned model keeps the template that it began with.
# shellcheck disable=SC2086
"$QKV" train lm --conversations talks.jsonl --init straight --steps 2 --batch 2 --threads 1 \
    --out tuned >answer 2>notes || fail "--init: $(cat notes)"
cmp -s tuned/chat_template.jinja straight/chat_template.jinja || fail "--init: another template"

# Bad input.
refused 1 'nowhere.jinja: cannot be opened' chat straight --chat-template nowhere.jinja --message x
printf '{{ x | nope }}' >bad.jinja
refused 1 'bad.jinja: line 1 of the template: filter "nope" is not known' \
    chat straight --chat-template bad.jinja --message x
printf '{%% for i in range(99999) %%}{%% for j in range(9999) %%}{%% endfor %%}{%% endfor %%}' \
    >slow.jinja
refused 1 'is stopped' chat straight --chat-template slow.jinja --message x
refused 1 'variables: a JSON object expected' chat straight --variables '[1]' --message x
echo '{"messages": [{"role": "user"' >broken.jsonl
refused 1 'broken.jsonl: line 1: not JSON' chat straight --file broken.jsonl
refused 1 'straight: expected a file, found a folder' chat straight --file straight
refused 1 'nowhere.jsonl: cannot be opened: No such file' chat straight --file nowhere.jsonl
refused 2 'one of them expected' chat straight --file one.jsonl --message x
refused 2 '--file expected' chat straight --show-text
refused 1 'broken.jsonl: line 1: not JSON' eval straight --file broken.jsonl
refused 1 'questions.jsonl: a conversation with an answer within the first' \
    eval straight --file questions.jsonl
printf '\377' >latin
refused 1 'a message of valid UTF-8 expected' chat straight --system "$(cat latin)" --message x
refused 1 'broken.jsonl: line 1: not JSON' train lm --conversations broken.jsonl \
    --chat-template chatml --valid-last 0 --steps 1 --out bad
refused 1 '--chat-template or --init expected' train lm --conversations talks.jsonl --steps 1 \
    --out bad
refused 2 'one of them expected, found both' train lm --conversations talks.jsonl \
    --data talks.jsonl --steps 1 --out bad
refused 2 'one of them expected, found none' train lm --steps 1 --out bad
refused 1 'an answer within the first' train lm --conversations questions.jsonl \
    --chat-template chatml --tokenizer char --valid-last 0 --steps 1 --out bad
[ ! -e bad/model.safetensors ] || fail "a model of bad data"
exit $failed
