/* look.c - `qkv look`: what a model attends to while it reads one input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cli.h"
#include "use/looking.h"

typedef struct {
    const char *second, *out, *heat, *attention, *corrupt, *panel, *vector, *minus;
    int layer, head, at;
    bool rollout;
} settings;

static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .offset = offsetof(settings, out),
     .value = "F.html", .help = "a page with every head, to explore in a browser"},
    {.flag = "heat", .type = QKV_OPT_STRING, .offset = offsetof(settings, heat),
     .value = "F.svg|F.png", .help = "the row as an image: over the patches, or all rows"},
    {.flag = "panel", .type = QKV_OPT_STRING, .offset = offsetof(settings, panel),
     .value = "NAME", .help = "one of the page's panels: its numbers, or with --heat its drawing"},
    {.flag = "patch", .type = QKV_OPT_STRING, .offset = offsetof(settings, corrupt),
     .value = "CORRUPT", .help = "activation patching: what the answer for this input becomes when "
                                 "one activation is INPUT's, by layer and position"},
    {.flag = "vector", .type = QKV_OPT_STRING, .offset = offsetof(settings, vector),
     .value = "F.npy", .help = "write the mean of what is at --place (\"h.5.resid_post\"), for "
                               "changes that add it"},
    {.flag = "minus", .type = QKV_OPT_STRING, .offset = offsetof(settings, minus),
     .value = "INPUT", .help = "less that of another input"},
    {.flag = "second", .type = QKV_OPT_STRING, .offset = offsetof(settings, second),
     .value = "TEXT", .help = "translator: the target; classifier of texts: the second text"},
    {.flag = "layer", .type = QKV_OPT_INT, .min = -1, .max = 65535,
     .offset = offsetof(settings, layer), .initial = "-1",
     .help = "of the row that is shown, from 0; -1: the last"},
    {.flag = "rollout", .type = QKV_OPT_BOOL, .offset = offsetof(settings, rollout),
     .help = "what flows through all layers to the position, in place of one layer's weights"},
    {.flag = "head", .type = QKV_OPT_INT, .min = -1, .max = 65535,
     .offset = offsetof(settings, head), .initial = "-1",
     .help = "of the row that is shown; -1: the mean of the heads"},
    {.flag = "at", .type = QKV_OPT_INT, .min = -1, .max = 16777215,
     .offset = offsetof(settings, at), .initial = "-1",
     .help = "position whose row is shown, from 0; -1: the last token, the class token, or the "
             "patch in the middle"},
    {.flag = "attention", .type = QKV_OPT_STRING, .offset = offsetof(settings, attention),
     .value = "NAME", .help = "encoder_attentions, decoder_attentions, cross_attentions"},
};
static const qkv_option_table table = {"Showing", rows, sizeof rows / sizeof *rows, 0};

/* NULL: none was given. */
static const char *input_of(const cli *c)
{
    return c->args.count > 1 ? c->args.items[1] : NULL;
}

static int look_answer(const cli *c, const qkv_look *l, const qkv_look_choice *choice)
{
    qkv_str text;
    if (c->common.json) {
        qkv_json_writer w = cli_object(c);
        qkv_look_json(l, choice, &w);
        return cli_answer(c, &w);
    }
    qkv_str_init(&text, c->ctx);
    qkv_status status = qkv_look_text(l, choice, &text);
    if (!status)
        (void)fwrite(text.data, 1, text.len, stdout);
    qkv_str_free(&text);
    return status ? CLI_FAILED : cli_flush();
}

static int look_panel(cli *c, const qkv_look *l, const settings *s)
{
    const qkv_look_panel *p = qkv_look_panel_of(l, s->panel);
    if (!p || (s->heat && qkv_drawing_save(p->drawing, s->heat)))
        return cli_error(c);
    if (!s->heat || c->common.json)
        (void)puts(p->json);
    return cli_flush();
}

static int look_show(cli *c, const qkv_look *l, const settings *s)
{
    qkv_look_choice choice = {0};
    qkv_drawing *d = NULL;
    qkv_status status = QKV_OK;
    if (s->panel)
        return look_panel(c, l, s);
    if (l->attentions_count || s->attention) /* of a VQGAN without any, there is the page */
        status = qkv_look_choose(l, s->attention, &choice);
    choice.layer = s->rollout ? -1 : s->layer >= 0 ? s->layer : choice.layer;
    choice.head = s->head;
    choice.position = s->at >= 0 ? (size_t)s->at : choice.position;
    if (s->heat && !status)
        status = qkv_look_draw(l, &choice, &d);
    if (s->heat && !status)
        status = qkv_drawing_save(d, s->heat);
    qkv_drawing_destroy(d);
    if (!status && s->out)
        status = qkv_look_page(l, &(qkv_look_page_options){.input = input_of(c)}, s->out);
    if (status)
        return cli_error(c);
    int code = (s->heat || s->out) && !c->common.json ? CLI_DONE : look_answer(c, l, &choice);
    return code == CLI_FAILED ? cli_error(c) : code;
}

/* What was asked for in place of attention. */
static int look_other(cli *c, qkv_pipeline *p, const qkv_look_input *in, const settings *s,
                      const qkv_pipeline_look_options *o, qkv_pipeline_patch_options *patch)
{
    const cli_look_patching files = {s->corrupt, s->heat, s->out};
    if (s->vector)
        return cli_look_vector(c, p, in, s->minus, patch->place, s->vector);
    if (!s->corrupt)
        return cli_look_change(c, p, in, o, s->at, s->out);
    patch->at = s->at;
    patch->mask = o->mask;
    patch->seed = o->seed;
    patch->class_ = o->class_;
    return cli_look_patch(c, p, in, &files, patch);
}

/* Flags that would be ignored beside others, or without them, are errors. */
static int look_flags(const cli *c, const settings *s, const qkv_pipeline_look_options *o)
{
    static const char *const of_patch[] = {"answer", "other", "heads", "place"};
    static const char *const of_weights[] = {"panel", "layer", "head", "rollout", "attention",
                                             "capture", "places", "among", "truth", "hint"};
    if (s->corrupt && !input_of(c))
        return cli_fail("--patch: INPUT expected, whose activations it takes");
    if (s->panel && s->out)
        return cli_fail("--panel: a page (--out) has all panels");
    if (s->minus && !s->vector)
        return cli_fail("--minus: --vector expected beside it");
    if (s->vector && !qkv_options_given(c->options, "place"))
        return cli_fail("--vector: --place expected beside it (\"h.5.resid_post\")");
    if (s->corrupt && o->changes.count)
        return cli_fail("--change: not together with --patch");
    for (size_t i = 0; i < sizeof of_patch / sizeof *of_patch; i++)
        if (!s->corrupt && qkv_options_given(c->options, of_patch[i]) &&
            !(s->vector && strcmp(of_patch[i], "place") == 0))
            return cli_fail("--%s: --patch expected beside it", of_patch[i]);
    for (size_t i = 0; i < sizeof of_weights / sizeof *of_weights; i++)
        if (s->corrupt && qkv_options_given(c->options, of_weights[i]))
            return cli_fail("--%s: not together with --patch", of_weights[i]);
    if (!o->panels && !s->corrupt && (o->among || o->pixel || o->truth))
        return cli_fail("%s: for panels: --panel, --out or --json expected beside it",
                        o->among ? "--among" : o->pixel ? "--pixel" : "--truth");
    return CLI_DONE;
}

static int look_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_pipeline_look_options o;
    qkv_pipeline_patch_options patch;
    qkv_pipeline *p = NULL;
    qkv_look found = {0};
    cli_bind(c, &table, &s);
    cli_bind(c, qkv_pipeline_look_table(), &o);
    cli_bind(c, qkv_pipeline_patch_table(), &patch);
    int refused = cli_parse(c, argc, argv, 1, 2);
    if (refused)
        return refused;
    o.seed = c->common.seed;
    o.panels = s.out || s.panel || c->common.json;
    patch.pixel = o.pixel;
    int code = look_flags(c, &s, &o);
    if (code)
        return code;
    cli_listen_notes(c);
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    qkv_look_input in = {.text = input_of(c), .second = s.second,
                         .image = {.path = input_of(c)}, .series = input_of(c)};
    if (!status && (s.vector || s.corrupt || (o.changes.count && !s.heat && !s.panel))) {
        code = look_other(c, p, &in, &s, &o, &patch);
    } else {
        if (!status)
            status = qkv_pipeline_look(p, &in, &o, &found);
        code = status ? cli_error(c) : look_show(c, &found, &s);
        qkv_look_free(&found);
    }
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {
    "qkv look runs/novel \"To be or not to\" --out report.html",
    "qkv look runs/novel \"To be or not to\" --layer 3 --head 2 --at 4",
    "qkv look runs/vit cat.jpg --heat cat-seen.png",
    "qkv look runs/vit cat.jpg --json",
    "qkv look runs/codes cat.png --among photos --out codes.html",
    "qkv look runs/prior --seed 3 --out expected.html",
    "qkv look runs/load history.csv --hold-back 24 --out report.html",
    "qkv look gpt2 \"John gave it to\" --patch \"Mary gave it to\" --out p.html",
    "qkv look runs/vit cat.jpg --patch dog.jpg --answer cat --heat p.png",
    "qkv look gpt2 \"The cat sat\" --change \"h.5.attn.z head=2 zero\"",
    "qkv look gpt2 \"Love\" --minus \"Hate\" --place h.6.resid_post --vector v.npy",
    "qkv look gpt2 \"It was\" --change \"h.6.resid_post add=v.npy times=8\"",
    "qkv look gpt2 \"The cat sat\" --capture inside.safetensors", NULL};

CLI_COMMAND(cli_look, 470) = {
    .manual = {.name = "look", .summary = "what a model attends to",
               .usage = "DIR [INPUT]", .examples = examples,
               .text = "INPUT is a text, an image's file, or a series as a CSV file; a prior on "
                       "codes samples an image where it is left out. Prints the weights with "
                       "which a position attends to the others. --out writes a page instead, in "
                       "which every head, layer and position can be chosen. --json: "
                       "{\"kind\", \"adapters\", \"axes\", \"attentions\": [{\"name\", "
                       "\"figures\", ...}], \"predictions\", \"lens\", \"classes\", "
                       "\"series\", \"panels\", \"row\"}. "
                       "--capture writes all attention weights and hidden states, by the names "
                       "that Hugging Face gives them.\n\n"
                       "--patch measures an answer: a token, class, code, channel, column or "
                       "cosine. --json: {\"answer\", \"where\", \"clean\", \"corrupt\", "
                       "\"outcomes\", \"grids\": [{\"stack\", \"layers\", \"labels\", "
                       "\"values\"}]}. --out writes its page.\n\n"
                       "CHANGE is a place, then what becomes of what is there: head=N, at=N..M, "
                       "zero, scale=X, mean, add=FILE.npy or add=FILE.safetensors:TENSOR, times=X. "
                       "The answers are shown before and after."},
    .library = {[CLI_BEFORE] = qkv_pipeline_patch_table, [CLI_BEHIND] = qkv_pipeline_look_table},
    .own = {&table}, .opens = true, .run = look_run};
