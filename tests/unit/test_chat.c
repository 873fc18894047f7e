/* Conversations: where a directory has its template, what the assistant says in a text and in ids,
 * answers with and without the keys and values of the last one, what no longer fits, learning. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "pipelines_text.h"
#include "qkv/file.h"
#include "qkv/pipeline_chat.h"
#include "qkv/train.h"

static void check(qkv_status status)
{
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
}

static void expect_sentence(qkv_status status, const char *part)
{
    assert_int_not_equal(status, QKV_OK);
    if (!strstr(qkv_context_message(ctx), part))
        fail_msg("expected \"%s\" in: %s", part, qkv_context_message(ctx));
}

static void put(const char *name, const char *text)
{
    check(qkv_file_write(ctx, in(folder, name), text, strlen(text)));
}

static const char talk[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                           "{\"role\": \"assistant\", \"content\": \"b\"}], \"tools\": null}";

/* The text of a conversation by the folder's template; valid until the next call. */
static const char *text_of(const char *conversation)
{
    static char shown[512];
    qkv_chat_template *t;
    qkv_text out = {0};
    check(qkv_chat_template_open(&t, ctx, folder));
    check(qkv_chat_text(t, "talk", conversation, strlen(conversation), false, &out, NULL));
    snprintf(shown, sizeof shown, "%.*s", (int)out.len, out.data ? out.data : "");
    qkv_text_free(&out, ctx);
    qkv_chat_template_close(t);
    return shown;
}

/* ---- templates ------------------------------------------------------------------------------- */

static void test_places(void **state)
{
    qkv_chat_template *t;
    (void)state;
    expect_sentence(qkv_chat_template_open(&t, ctx, folder), "a chat template expected");
    put("tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"chat_template\": "
        "\"{{ bos_token }}{{ eos_token }}{% for m in messages %}{{ m.content }}{% endfor %}\"}");
    put("special_tokens_map.json", "{\"eos_token\": \"</s>\", \"bos_token\": \"other\"}");
    assert_string_equal(text_of(talk), "<s></s>ab");
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, "
        "{\"name\": \"default\", \"template\": \"{{ messages[0].content }}{{ bos_token }}\"}]}");
    assert_string_equal(text_of(talk), "aother");
    assert_string_equal(text_of("{\"messages\": [{\"role\": \"user\"}], \"tools\": [{}]}"),
                        "tools");
    put("chat_template.json", "{\"chat_template\": \"json {{ messages | length }}\"}");
    assert_string_equal(text_of(talk), "json 2");
    put("chat_template.jinja", "file\n{{ messages[1].role }}\n");
    assert_string_equal(text_of(talk), "file\nassistant");
    check(qkv_chat_template_load(&t, ctx, "chatml", NULL));
    check(qkv_chat_template_save(t, folder)); /* in place of the other */
    qkv_chat_template_close(t);
    assert_string_equal(text_of(talk), "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb"
                                       "<|im_end|>\n");
}

/* null is absent, and what the model thought has all its names. */
static void test_messages(void **state)
{
    (void)state;
    put("chat_template.jinja", "{% for m in messages %}{{ m | tojson }}{% endfor %}");
    assert_string_equal(text_of("{\"messages\": [{\"role\": \"assistant\", \"content\": null, "
                                "\"reasoning\": \"r\"}]}"),
                        "{\"role\": \"assistant\", \"reasoning\": \"r\", \"thinking\": \"r\", "
                        "\"reasoning_content\": \"r\"}");
}

static const struct {
    const char *file, *text, *sentence;
} bad_files[] = {
    {"tokenizer_config.json", "{\"chat_template\": 3}", "\"chat_template\": expected a string"},
    {"tokenizer_config.json", "{\"chat_template\": [{\"name\": \"x\", \"template\": \"\"}]}",
     "a template of the name \"default\" expected"},
    {"tokenizer_config.json", "{\"chat_template\": [{\"template\": \"\"}]}", "name"},
    {"tokenizer_config.json", "{\"chat_template\": \"\", \"bos_token\": 1}", "\"bos_token\""},
    {"tokenizer_config.json", "{\"chat_template\": \"{% if %}\"}",
     "tokenizer_config.json: line 1 of the template: a value expected"},
    {"chat_template.json", "{", "chat_template.json: not JSON"},
    {"chat_template.jinja", "{{ x | }}",
     "chat_template.jinja: line 1 of the template: a name expected, found \"}}\""},
};

static const struct {
    const char *talk, *sentence;
} bad_talks[] = {
    {"", "talk: expected JSON, found an empty file"}, {"[]", "talk: expected an object"},
    {"{}", "field \"messages\": expected an array, found nothing"},
    {"{\"messages\": []}", "at least one message expected"},
    {"{\"messages\": [1]}", "field \"messages.0\": expected an object"},
    {"{\"messages\": [{\"role\": 2}]}", "field \"messages.0.role\": expected a string"},
    {"{\"messages\": [{\"role\": \"x\"}]}", "talk: "},
};

static void test_bad(void **state)
{
    qkv_chat_template *t;
    qkv_text out = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        put(bad_files[i].file, bad_files[i].text);
        expect_sentence(qkv_chat_template_open(&t, ctx, folder), bad_files[i].sentence);
        assert_null(t);
        put(bad_files[i].file, "{}");
    }
    put("chat_template.jinja", "{{ raise_exception('no') }}");
    check(qkv_chat_template_open(&t, ctx, folder));
    for (size_t i = 0; i < sizeof bad_talks / sizeof *bad_talks; i++)
        expect_sentence(qkv_chat_text(t, "talk", bad_talks[i].talk, strlen(bad_talks[i].talk),
                                      false, &out, NULL), bad_talks[i].sentence);
    assert_int_equal(out.len, 0);
    qkv_chat_template_close(t);
    expect_sentence(qkv_chat_template_load(&t, ctx, "nowhere", NULL), "nowhere");
}

/* ---- what the assistant says ----------------------------------------------------------------- */

static const char long_talk[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"the cat\"}, {\"role\": \"assistant\", "
    "\"content\": \"sat\"}, {\"role\": \"user\", \"content\": \"a dog\"}, {\"role\": "
    "\"assistant\", \"content\": \"\\u00e9 \\ud83d\\ude42\"}]}";

/* The stretches that ids are marked in, each in brackets. */
static void expect_marked(qkv_chat_template *t, qkv_tokenizer *tokenizer, const char *expected)
{
    qkv_text text = {0}, shown = {0};
    qkv_chat_spans spans = {0};
    qkv_ids ids = {0}, marks = {0};
    check(qkv_chat_text(t, "talk", long_talk, strlen(long_talk), false, &text, &spans));
    check(qkv_chat_encode(ctx, tokenizer, &text, &spans, &ids, &marks));
    assert_int_equal(ids.count, marks.count);
    for (size_t i = 0; i <= ids.count; i++) {
        bool now = i < ids.count && marks.data[i], before = i > 0 && marks.data[i - 1];
        qkv_text *s = &shown;
        if (now != before) {
            char bracket = now ? '[' : ']';
            s->data = qkv_realloc(ctx, s->data, s->capacity, s->len + 8);
            s->capacity = s->len + 8;
            s->data[s->len++] = bracket;
        }
        if (i < ids.count)
            check(qkv_tokenizer_decode(tokenizer, &ids.data[i], 1, 0, s));
    }
    if (shown.len != strlen(expected) || memcmp(shown.data, expected, shown.len) != 0)
        fail_msg("expected %s\nfound %.*s", expected, (int)shown.len, shown.data);
    qkv_text_free(&text, ctx);
    qkv_text_free(&shown, ctx);
    qkv_chat_spans_free(&spans, ctx);
    qkv_ids_free(&ids, ctx);
    qkv_ids_free(&marks, ctx);
}

/* Templates that write what is before an answer, or the answer, otherwise when others follow. */
static const char *const unknown[] = {
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}?{% endif %}",
    "{% for m in messages %}{{ m.content }}{% if loop.last and m.role == 'assistant' %}!"
    "{% endif %}{% endfor %}"};

static void test_spans(void **state)
{
    qkv_chat_template *t;
    qkv_tokenizer *tokenizer = learn_words(QKV_TOKENIZER_BPE);
    qkv_chat_spans spans = {0};
    qkv_text text = {0};
    (void)state;
    check(qkv_chat_template_load(&t, ctx, "chatml", NULL));
    expect_marked(t, tokenizer,
                  "<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n[sat<|im_end|>\n]"
                  "<|im_start|>user\na dog<|im_end|>\n<|im_start|>assistant\n"
                  "[\xc3\xa9 \xf0\x9f\x99\x82<|im_end|>\n]");
    qkv_chat_template_close(t);
    put("marked.jinja", "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}|"
                        "{% else %}{% generation %}{{ m.content }}.{% endgeneration %}{% endif %}"
                        "{% endfor %}");
    check(qkv_chat_template_load(&t, ctx, in(folder, "marked.jinja"), NULL));
    expect_marked(t, tokenizer, "the cat|[sat.]a dog|[\xc3\xa9 \xf0\x9f\x99\x82.]");
    qkv_chat_template_close(t);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        put("unknown.jinja", unknown[i]);
        check(qkv_chat_template_load(&t, ctx, in(folder, "unknown.jinja"), NULL));
        expect_sentence(qkv_chat_text(t, "talk", long_talk, strlen(long_talk), false, &text,
                                      &spans), "what the assistant says is not known");
        qkv_chat_template_close(t);
    }
    qkv_text_free(&text, ctx);
    qkv_chat_spans_free(&spans, ctx);
    qkv_tokenizer_destroy(tokenizer);
}

/* ---- answers --------------------------------------------------------------------------------- */

static qkv_pipeline *make_talker(size_t positions)
{
    qkv_gpt_config c;
    qkv_tokenizer *t = learn_words(QKV_TOKENIZER_BPE);
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &c);
    c.vocab = qkv_tokenizer_vocab_size(t);
    c.positions = positions;
    c.width = 16;
    c.layers = 2;
    c.heads = 2;
    c.eos = c.bos = -1;
    return make("talker", qkv_llama_type(), &c, t);
}

typedef struct {
    char text[4096];
    size_t len, pieces, prompt, reused, most; /* most: pieces after which it is stopped; 0: never */
    qkv_chat_reason reason;
} heard;

static bool on_piece(void *user, const qkv_chat_piece *piece)
{
    heard *h = user;
    if (piece->kind == QKV_CHAT_END) {
        assert_int_equal(piece->len, h->len);
        assert_memory_equal(piece->text, h->text, h->len);
        h->prompt = piece->prompt;
        h->reused = piece->reused;
        h->reason = piece->reason;
        return true;
    }
    memcpy(h->text + h->len, piece->text, piece->len);
    h->len += piece->len;
    h->text[h->len] = 0;
    return ++h->pieces != h->most;
}

static void test_answers(void **state)
{
    qkv_pipeline *p = make_talker(256);
    qkv_chat *c, *other;
    qkv_chat_options o = qkv_chat_defaults();
    heard a = {0}, b = {0}, all = {0}, stopped = {.most = 2};
    char again[8192];
    (void)state;
    expect_sentence(qkv_chat_open(&c, p, &o), "a chat template expected");
    o.chat_template = "chatml";
    o.tokens = 12;
    o.greedy = true;
    check(qkv_chat_open(&c, p, &o));
    check(qkv_chat_say(c, "the cat", on_piece, &a));
    assert_int_equal(a.reason, QKV_CHAT_LENGTH);
    assert_int_equal(a.reused, 0);
    check(qkv_chat_say(c, "a dog", on_piece, &b));
    assert_true(b.reused >= a.prompt && b.reused < b.prompt);
    snprintf(again, sizeof again, "{\"messages\": [{\"role\": \"user\", \"content\": \"the cat\"}, "
             "{\"role\": \"assistant\", \"content\": \"%s\"}, {\"role\": \"user\", \"content\": "
             "\"a dog\"}]}", "X");
    check(qkv_chat_open(&other, p, &o)); /* the same, computed anew */
    check(qkv_chat_answer(other, "talk", again, strlen(again), on_piece, &all));
    assert_int_equal(all.reused, 0);
    qkv_chat_close(other);
    check(qkv_chat_reset(c));
    memset(&all, 0, sizeof all);
    check(qkv_chat_say(c, "the cat", on_piece, &all));
    assert_string_equal(all.text, a.text);
    check(qkv_chat_say(c, "on", on_piece, &stopped));
    assert_int_equal(stopped.reason, QKV_CHAT_INTERRUPTED);
    expect_sentence(qkv_chat_say(c, "\xff", on_piece, &a), "valid UTF-8");
    qkv_chat_close(c);
    qkv_pipeline_close(p);
}

/* An answer made with the keys and values of the last text is the one computed anew. */
static void test_generator(void **state)
{
    qkv_pipeline *p = make_talker(64);
    qkv_model *m = qkv_pipeline_model(p);
    qkv_generator *g;
    int32_t prompt[40];
    qkv_generate_options o = {.tokens = 8};
    (void)state;
    for (size_t i = 0; i < 40; i++)
        prompt[i] = (int32_t)(i * 7 % 250);
    check(qkv_generator_create(&g, m));
    for (size_t n = 10; n <= 40; n += 10) {
        qkv_ids kept = {0}, anew = {0};
        check(qkv_generator_run(g, prompt, n, &o, NULL, NULL, &kept));
        assert_int_equal(qkv_generator_reused(g), n - 10);
        check(qkv_generate(m, prompt, n, &o, NULL, NULL, &anew));
        assert_int_equal(kept.count, anew.count);
        assert_memory_equal(kept.data, anew.data, anew.count * sizeof *anew.data);
        qkv_ids_free(&kept, ctx);
        qkv_ids_free(&anew, ctx);
    }
    prompt[5] = 3; /* differs from there on */
    check(qkv_generator_run(g, prompt, 40, &o, NULL, NULL, NULL));
    assert_int_equal(qkv_generator_reused(g), 5);
    o.window = 8; /* the last tokens of a prompt are read alone */
    check(qkv_generator_run(g, prompt, 40, &o, NULL, NULL, NULL));
    assert_int_equal(qkv_generator_reused(g), 0);
    assert_int_equal(qkv_generator_run(g, prompt, 0, &o, NULL, NULL, NULL), QKV_E_ARGUMENT);
    qkv_generator_destroy(g);
    qkv_pipeline_close(p);
}

static size_t notes;

static bool count_notes(void *user, const qkv_event *event)
{
    (void)user;
    notes += event->kind == QKV_EVENT_NOTE && strstr(event->text, "no longer fit") != NULL;
    return true;
}

static void test_too_long(void **state)
{
    qkv_pipeline *p = make_talker(640);
    qkv_chat *c;
    qkv_chat_options o = qkv_chat_defaults();
    char text[700];
    (void)state;
    o.chat_template = "chatml";
    o.system = "sys";
    o.tokens = 4;
    check(qkv_chat_open(&c, p, &o));
    qkv_context_on_event(ctx, count_notes, NULL);
    for (size_t i = 0; i < 30; i++) {
        heard h = {0};
        check(qkv_chat_say(c, "the cat sat on the mat", on_piece, &h));
        assert_true(h.prompt + 4 <= 640);
    }
    assert_in_range(notes, 3, 12); /* then there is room for a few */
    memset(text, 'q', sizeof text);
    text[sizeof text - 1] = 0;
    expect_sentence(qkv_chat_say(c, text, on_piece, &(heard){0}), "tokens with what the template");
    heard h = {0};
    check(qkv_chat_say(c, "a", on_piece, &h)); /* as if it had not been said */
    qkv_context_on_event(ctx, NULL, NULL);
    qkv_chat_close(c);
    qkv_pipeline_close(p);
}

/* ---- learning -------------------------------------------------------------------------------- */

static qkv_records *make_records(qkv_tokenizer *tokenizer, size_t length, qkv_chat_count *count)
{
    static const char lines[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"cat\"}, {\"role\": \"assistant\", "
        "\"content\": \"sat\"}]}\n\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"dog\"}, {\"role\": \"assistant\", "
        "\"content\": \"mat\"}, {\"role\": \"user\", \"content\": \"a\"}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"nobody answers\"}]}\n";
    const qkv_text_span part = {.data = lines, .len = strlen(lines), .name = "talks.jsonl"};
    qkv_records_writer *w;
    qkv_records *r;
    qkv_chat_template *t;
    check(qkv_chat_template_load(&t, ctx, "chatml", NULL));
    check(qkv_records_create(&w, ctx, NULL, 2));
    check(qkv_chat_add_records(w, t, tokenizer, &part, length, count));
    check(qkv_records_finish(w, &r));
    qkv_chat_template_close(t);
    return r;
}

/* -log p of the answers' tokens of one conversation, in sum. */
static double answers_loss(qkv_model *m, qkv_tape *t, const qkv_records *r, size_t record)
{
    const int32_t *ids, *marks;
    size_t n = qkv_records_get(r, record, 0, &ids) - 1, shape[] = {1, n};
    int32_t targets[256];
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM};
    (void)qkv_records_get(r, record, 1, &marks);
    for (size_t i = 0; i < n; i++)
        targets[i] = marks[i + 1] ? ids[i + 1] : QKV_IGNORED;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *h = qkv_lm_hidden(m, t, qkv_tensor_ids(t, ids, 2, shape), 0, NULL, NULL);
    return (double)qkv_item(t, qkv_lm_loss(m, t, h, qkv_tensor_ids(t, targets, 2, shape), &o));
}

/* The loss is that of the answers' tokens, each conversation read by itself. */
static void test_task(void **state)
{
    qkv_pipeline *p = make_talker(256);
    qkv_model *m = qkv_pipeline_model(p);
    qkv_chat_count n = {0};
    qkv_records *r = make_records(qkv_pipeline_tokenizer(p), 256, &n);
    qkv_tape *t;
    qkv_task task;
    qkv_chat_score score;
    double sum = 0;
    (void)state;
    assert_int_equal(n.conversations, 2);
    assert_int_equal(n.left_out, 1);
    assert_int_equal(n.cut, 0);
    check(qkv_tape_create(&t, ctx));
    check(qkv_chat_evaluate(m, t, r, 0, &score));
    assert_int_equal(score.answers, n.answers);
    for (size_t i = 0; i < 2; i++)
        sum += answers_loss(m, t, r, i);
    assert_true(fabs(sum / (double)score.answers - score.loss) < 1e-5);
    check(qkv_task_chat(&task, m, r, NULL, 256, 1));
    const qkv_micro_batch whole = {.step = 0, .first = 0, .count = 1, .total = 1};
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    double loss = (double)qkv_item(t, task.type->loss(task.self, t, &whole));
    assert_true(fabs(loss - score.loss) < 1e-4);
    qkv_task_destroy(&task);
    qkv_tape_destroy(t);
    qkv_records_close(r);
    n = (qkv_chat_count){0};
    r = make_records(qkv_pipeline_tokenizer(p), 60, &n); /* ids */
    assert_true(n.cut + n.left_out > 1);
    qkv_records_close(r);
    qkv_pipeline_close(p);
}

static qkv_status talk_once(void *user)
{
    qkv_chat *c;
    qkv_chat_options o = qkv_chat_defaults();
    heard h = {0};
    o.chat_template = "chatml";
    o.system = "s";
    o.tokens = 2;
    qkv_status status = qkv_chat_open(&c, user, &o);
    if (!status)
        status = qkv_chat_say(c, "cat", on_piece, &h);
    qkv_chat_close(c);
    return status;
}

static void test_memory(void **state)
{
    qkv_pipeline *p = make_talker(128);
    (void)state;
    check(talk_once(p));
    expect_memory_told(talk_once, p, 20);
    qkv_pipeline_close(p);
}

static size_t json_left; /* allocations of jansson until one fails, once */

static void *json_malloc(size_t bytes) { return json_left-- == 0 ? NULL : malloc(bytes); }

/* Whatever jansson has no memory for, no message is left out in silence. */
static void test_json_memory(void **state)
{
    qkv_chat_template *t;
    size_t n = 0;
    (void)state;
    put("chat_template.jinja", "{% for m in messages %}{{ m.role }} {{ m.content }}, {% endfor %}");
    check(qkv_chat_template_open(&t, ctx, folder));
    do {
        qkv_text out = {0};
        json_left = n++;
        json_set_alloc_funcs(json_malloc, free);
        if (!qkv_chat_text(t, "talk", talk, strlen(talk), false, &out, NULL))
            assert_string_equal(out.data, "user a, assistant b, ");
        json_set_alloc_funcs(malloc, free);
        qkv_text_free(&out, ctx);
    } while (json_left >= n); /* one has failed */
    assert_true(n > 20);
    qkv_chat_template_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),  cmocka_unit_test(test_messages),
        cmocka_unit_test(test_bad),     cmocka_unit_test(test_spans),
        cmocka_unit_test(test_answers), cmocka_unit_test(test_generator),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_task),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_json_memory),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
