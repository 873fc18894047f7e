/* look.c - looking inside: one pass of a model with probes, whatever its kind. */
#include "pipeline/changing.h"
#include "report/looking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/options.h"

#define FIELD(member) .offset = offsetof(qkv_pipeline_look_options, member)
static const char *const stores[] = {"f32", "f16", "bf16", NULL};
static const qkv_store stored[] = {QKV_STORE_F32, QKV_STORE_F16, QKV_STORE_BF16};
static const qkv_option rows[] = {
    {.flag = "capture", .key = "capture", .type = QKV_OPT_STRING, FIELD(capture),
     .value = "FILE", .help = "safetensors file for attention weights and hidden states"},
    {.flag = "places", .key = "places", .type = QKV_OPT_LIST, FIELD(places), .value = "NAME...",
     .help = "and tensors at these places (\"h.3.attn.z\", \"*.ff.act\")"},
    {.flag = "store", .key = "store", .type = QKV_OPT_ENUM, .names = stores, FIELD(store),
     .initial = "f32", .help = "type of the numbers in the file"},
    {.flag = "least", .key = "least", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     FIELD(least), .initial = "0.001", .help = "smaller weights are left out of maps"},
    {.flag = "top", .key = "top", .type = QKV_OPT_SIZE, .max = 64, FIELD(top), .initial = "5",
     .help = "predictions at each position"},
    {.flag = "lens", .key = "lens", .type = QKV_OPT_BOOL, FIELD(lens), .initial = "true",
     .help = "predictions of each layer, by logit lens"},
    {.key = "weights", .type = QKV_OPT_BOOL, .flags = QKV_OPT_HIDDEN, FIELD(weights),
     .initial = "true", .help = "maps, figures and rollout"},
    {.flag = "mask", .key = "mask", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1,
     FIELD(mask), .initial = "0.75", .help = "masked autoencoder: share of patches to mask"},
    {.key = "seed", .type = QKV_OPT_U64, .flags = QKV_OPT_HIDDEN, FIELD(seed), .initial = "0",
     .help = "selects the masked patches; of an image that a prior samples"},
    {.flag = "hold-back", .key = "hold_back", .type = QKV_OPT_SIZE, .max = 1048576,
     FIELD(hold_back), .initial = "0",
     .help = "forecaster: rows at the end that are not read, but shown as the truth"},
    {.flag = "among", .key = "among", .type = QKV_OPT_STRING, FIELD(among), .value = "IMAGES",
     .help = "a set in which panels search for patches and codes"},
    {.flag = "pixel", .key = "pixel", .type = QKV_OPT_STRING, FIELD(pixel), .value = "X,Y",
     .help = "segmenter, colourer: what gave this pixel its class or its colours; --patch: where "
             "the answer is, in the model's own size"},
    {.flag = "truth", .key = "truth", .type = QKV_OPT_STRING, FIELD(truth), .value = "MASK",
     .help = "segmenter: the right mask of the image, for IoU by class"},
    {.flag = "hint", .key = "hint", .type = QKV_OPT_LIST, FIELD(hints), .value = "X,Y,#RRGGBB",
     .help = "colourer: the colour at a pixel, as often as you like"},
    {.flag = "class", .key = "class", .type = QKV_OPT_STRING, FIELD(class_), .value = "NAME",
     .help = "prior on codes: the class of the image, where classes were learnt; else the first"},
    {.flag = "change", .key = "changes", .type = QKV_OPT_LIST, FIELD(changes), .value = "CHANGE",
     .help = "scale, ablate or steer at a place (\"h.3.attn.z head=2 zero\"), and compare; as "
             "often as you like"},
    {.flag = "continue", .key = "continue", .type = QKV_OPT_SIZE, .max = 1e6, FIELD(go_on),
     .value = "N", .initial = "24",
     .help = "--change: tokens with which a language model goes on, the likeliest each"},
    {.key = "panels", .type = QKV_OPT_BOOL, .flags = QKV_OPT_HIDDEN, FIELD(panels),
     .initial = "true", .help = "drawings of what else is known of the model"},
};
QKV__OPTIONS(qkv_pipeline_look, "Looking")

static const qkv__look_kind *const kinds[] = {
    &qkv__look_prior, /* generates, too: before the language models */
    &qkv__look_lm, &qkv__look_words, &qkv__look_text_classes, &qkv__look_translator,
    &qkv__look_codes_kind, &qkv__look_image_classes, &qkv__look_masked, &qkv__look_segmenter,
    &qkv__look_colorizer, &qkv__look_forecaster, &qkv__look_filler, &qkv__look_series_classes,
    &qkv__look_text_vectors, &qkv__look_image_vectors, &qkv__look_caption_images,
    &qkv__look_caption_texts};

struct qkv_look_tools {
    qkv_head_table *table;
    qkv_head_maps *maps;
    qkv_rollout *rollout[QKV_LOOK_ATTENTIONS];
    qkv_capture *capture;
};

const qkv__look_kind *qkv__look_kind_of(const qkv_pipeline *p, const qkv_look_input *in)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (qkv_model_can(p->model, kinds[i]->can) && (!kinds[i]->reads || kinds[i]->reads(in)))
            return kinds[i];
    return NULL;
}

/* ---- probes ---------------------------------------------------------------------------------- */

/* Keeps the stream before each layer and after the last. */
static qkv_tensor *look_keep_state(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv__looking *l = user;
    const qkv_real *data = qkv_data(t, x);
    qkv_place at;
    size_t i = 0;
    if (!data || !qkv_place_parse(&at, name))
        return x;
    bool post = strcmp(at.part, "resid_post") == 0;
    i = at.layer + post;
    if (i > l->state_count || (!post && strcmp(at.part, "resid_pre") != 0))
        return x;
    l->out_of_memory = l->out_of_memory || !qkv__grow(l->p->ctx, &l->states, &l->state_room,
                                                      i + 1, sizeof *l->states);
    if (i == l->state_count && !l->out_of_memory) {
        l->state_size = qkv_count(x) * sizeof *data;
        l->states[i] = qkv_malloc(l->p->ctx, l->state_size);
        l->out_of_memory = !l->states[i];
        l->state_count += l->states[i] != NULL;
    }
    if (i < l->state_count && l->state_size == qkv_count(x) * sizeof *data)
        memcpy(l->states[i], data, l->state_size);
    return x;
}

static qkv_status add_probes(qkv__looking *l, const qkv__look_kind *k, struct qkv_look_tools *x)
{
    qkv_tape *t = l->p->tape;
    qkv_context *ctx = l->p->ctx;
    const qkv_pipeline_look_options *o = &l->o;
    qkv_status status = QKV_OK;
    if (o->weights) {
        status = qkv_head_table_open(&x->table, ctx, t, NULL);
        if (!status)
            status = qkv_head_maps_open(&x->maps, ctx, t, NULL, o->least);
        for (size_t i = 0; i < QKV_LOOK_ATTENTIONS && !status && k->attentions[i].stack; i++) {
            const qkv__look_attentions *a = &k->attentions[i];
            char pattern[64];
            (void)snprintf(pattern, sizeof pattern, "%s.*.%s", a->stack, a->part);
            if (a->query == a->key && !k->attention_at)
                status = qkv_rollout_open(&x->rollout[i], ctx, t, pattern);
        }
        if (!status)
            status = qkv__look_watch_values(l, k);
    }
    if (!status && o->top && k->predicting) {
        char pattern[64];
        (void)snprintf(pattern, sizeof pattern, "%s.*.resid_*", k->predicting);
        status = qkv_probe_add(t, pattern, look_keep_state, l);
    }
    if (!status && o->capture)
        status = qkv_capture_open(&x->capture, ctx, t, &(qkv_capture_options){
            .file = o->capture, .store = stored[o->store], .attentions = true,
            .hidden_states = true, .final_norm = k->final_norm, .places = o->places, .layer = -1,
            .head = -1});
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */

static qkv_look_attention *attention_of(qkv__looking *l, const qkv__look_kind *k,
                                        const char *name, size_t *layer)
{
    qkv_place at;
    size_t which;
    if (k->attention_at)
        return k->attention_at(l, name, &which, layer) ? &l->out->attentions[which] : NULL;
    if (!qkv_place_parse(&at, name))
        return NULL;
    *layer = at.layer;
    for (size_t i = 0; i < QKV_LOOK_ATTENTIONS && k->attentions[i].stack; i++) {
        const qkv__look_attentions *a = &k->attentions[i];
        if (strlen(a->stack) == at.stack_length && strcmp(a->part, at.part) == 0 &&
            strncmp(a->stack, at.stack, at.stack_length) == 0)
            return &l->out->attentions[i];
    }
    return NULL;
}

static const char *attention_name(const qkv__look_attentions *a)
{
    static const struct {
        const char *stack, *part, *name;
    } names[] = {{"encoder", "attn", "encoder_attentions"},
                 {"decoder", "attn", "decoder_attentions"},
                 {"decoder.layer", "attn", "decoder_attentions"},
                 {"decoder", "cross", "cross_attentions"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(a->stack, names[i].stack) == 0 && strcmp(a->part, names[i].part) == 0)
            return names[i].name;
    return "attentions";
}

/* Layers and heads of each attention, then its arrays. */
static qkv_status make_room(qkv__looking *l, const qkv__look_kind *k,
                            const qkv_head_table *heads)
{
    qkv_head_figures f;
    qkv_look *out = l->out;
    size_t layer;
    for (size_t i = 0; qkv_head_table_at(heads, i, &f); i++) {
        qkv_look_attention *a = attention_of(l, k, f.attention, &layer);
        if (!a)
            continue;
        a->layers = layer >= a->layers ? layer + 1 : a->layers;
        a->heads = (size_t)f.head >= a->heads ? (size_t)f.head + 1 : a->heads;
    }
    for (size_t i = 0; i < QKV_LOOK_ATTENTIONS && k->attentions[i].stack; i++) {
        qkv_look_attention *a = &out->attentions[i];
        if (!a->layers) /* a kind that this model lacks, as those behind it */
            break;
        a->name = attention_name(&k->attentions[i]);
        a->query = k->attentions[i].query;
        a->key = k->attentions[i].key;
        a->causal = k->attentions[i].causal || l->causal[i];
        a->figures = qkv_calloc(l->p->ctx, a->layers * a->heads + 1, sizeof *a->figures);
        a->maps = qkv_calloc(l->p->ctx, a->layers * a->heads + 1, sizeof *a->maps);
        out->attentions_count++;
        if (!a->figures || !a->maps)
            return QKV_E_MEMORY;
    }
    return QKV_OK;
}

static qkv_status collect(qkv__looking *l, const qkv__look_kind *k, struct qkv_look_tools *x)
{
    qkv_head_figures f;
    qkv_head_map m;
    qkv_look *out = l->out;
    size_t layer, found = 0;
    qkv_status status = make_room(l, k, x->table);
    if (status)
        return status;
    for (size_t i = 0; qkv_head_table_at(x->table, i, &f); i++) {
        qkv_look_attention *a = attention_of(l, k, f.attention, &layer);
        if (a && !a->figures[layer * a->heads + (size_t)f.head].rows)
            a->figures[layer * a->heads + (size_t)f.head] = f;
    }
    for (size_t i = 0; qkv_head_maps_at(x->maps, i, &m); i++) {
        qkv_look_attention *a = attention_of(l, k, m.attention, &layer);
        if (!a || layer >= a->layers || (size_t)m.head >= a->heads) /* no figures: out of memory */
            continue;
        if (a->maps[layer * a->heads + (size_t)m.head].rows)
            continue;
        a->maps[layer * a->heads + (size_t)m.head] = m;
        found++;
    }
    if (!found)
        return qkv_fail(l->p->ctx, QKV_E_MEMORY, "out of memory while attention was looked at");
    for (size_t i = 0; i < out->attentions_count; i++) {
        size_t n = 0;
        const qkv_look_attention *a = &out->attentions[i];
        const float *flow = x->rollout[i] ? qkv_rollout_matrix(x->rollout[i], &n) : NULL;
        if (flow && n == out->axes[a->query].count)
            out->attentions[i].rollout = flow;
    }
    return qkv__look_value_norms(l);
}

qkv_status qkv__look_suits(const qkv__looking *l)
{
    const qkv_pipeline_look_options own = qkv_pipeline_look_defaults();
    const struct {
        const char *name, *what;
        bool given;
        unsigned can;
    } options[] = {{"truth", "tells no classes of pixels", l->o.truth != NULL, QKV_CAN_SEGMENT},
                   {"pixel", "gives pixels neither classes nor colours", l->o.pixel != NULL,
                    QKV_CAN_SEGMENT | QKV_CAN_COLORIZE},
                   {"hint", "colours no images", l->o.hints.count > 0, QKV_CAN_COLORIZE},
                   {"among", "reads no images, or has no panel that searches a set",
                    l->o.among != NULL, QKV_CAN_ENCODE_IMAGES | QKV_CAN_CLASSIFY_IMAGES |
                    QKV_CAN_EMBED_IMAGES | QKV_CAN_RECONSTRUCT | QKV_CAN_SEGMENT |
                    QKV_CAN_COLORIZE | QKV_CAN_EMBED_BOTH},
                   {"class", "samples no images", l->o.class_ != NULL, QKV_CAN_SAMPLE_CODES},
                   {"hold-back", "forecasts nothing", l->o.hold_back > 0, QKV_CAN_FORECAST},
                   {"mask", "masks no patches", l->o.mask < own.mask || l->o.mask > own.mask,
                    QKV_CAN_RECONSTRUCT},
                   {"second", "reads one text", l->in->second != NULL, QKV__CAN_READ_TWO}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given && !(l->kind->can & options[i].can))
            return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "--%s: a %s model %s", options[i].name,
                            l->out->kind, options[i].what);
    return QKV_OK;
}

/* Behind the states: changes of the final norm. */
static qkv_status look_predictions(qkv__looking *l, const qkv__look_kind *k)
{
    qkv_status status = l->changes ? qkv_changes_apply(l->changes, l->p->tape) : QKV_OK;
    if (!status)
        status = k->predict(l, k);
    qkv_probes_clear(l->p->tape);
    return status;
}

static qkv_status look(qkv__looking *l, const qkv__look_kind *k)
{
    struct qkv_look_tools *x = l->out->tools;
    qkv_status status = qkv__look_suits(l);
    if (!status)
        status = qkv__changes_read(&l->changes, l->p->ctx, &l->o.changes);
    if (!status && l->changes) /* some kinds answer here */
        status = qkv_changes_apply(l->changes, l->p->tape);
    if (!status)
        status = k->prepare(l);
    if (l->changes)
        qkv_probes_clear(l->p->tape);
    if (!status && l->changes) /* first: the others see what they make */
        status = qkv_changes_apply(l->changes, l->p->tape);
    if (!status)
        status = add_probes(l, k, x);
    if (!status)
        status = k->run(l);
    if (!status)
        status = qkv__changes_check(l->p, l->changes);
    if (!status && l->out_of_memory)
        status = QKV_E_MEMORY;
    if (x->capture && !status)
        status = qkv_capture_close(x->capture);
    else
        qkv_capture_abandon(x->capture);
    x->capture = NULL;
    qkv_probes_clear(l->p->tape);
    if (!status && l->o.weights)
        status = collect(l, k, x);
    if (!status && k->predict && l->o.top)
        status = look_predictions(l, k);
    if (!status)
        status = qkv__look_name_words(l);
    if (!status && l->o.panels && l->o.weights)
        status = qkv__look_stream(l);
    return !status && l->o.panels && l->o.weights && k->panels ? k->panels(l) : status;
}

void qkv__look_end(qkv__looking *l)
{
    for (size_t i = 0; i < l->state_count; i++)
        qkv_free(l->p->ctx, l->states[i]);
    qkv_free(l->p->ctx, l->states);
    qkv_changes_destroy(l->changes);
    qkv_free(l->p->ctx, l->pixels);
    qkv_lm_cache_destroy(l->cache);
    qkv_free(l->p->ctx, l->window);
    qkv_free(l->p->ctx, l->target);
    qkv_free(l->p->ctx, l->toward);
    qkv__look_free_values(l);
    for (size_t i = 0; i < QKV_LOOK_AXES; i++)
        qkv_ids_free(&l->ids[i], l->p->ctx);
}

/* "letters, notes=0.5": the adapters that count, in out->adapters. */
static qkv_status name_adapters(qkv_look *out, const qkv_model *m)
{
    qkv_str s;
    qkv_str_init(&s, out->ctx);
    for (size_t i = 0; i < qkv_model_adapter_count(m); i++) {
        const qkv_adapter *a = qkv_model_adapter(m, i);
        const double weight = qkv_adapter_weight(a);
        if (weight == 1)
            qkv_str_printf(&s, "%s%s", s.len ? ", " : "", qkv_adapter_name(a));
        else if (weight != 0)
            qkv_str_printf(&s, "%s%s=%g", s.len ? ", " : "", qkv_adapter_name(a), weight);
    }
    out->adapters = s.data;
    return s.failed ? QKV_E_MEMORY : QKV_OK;
}

qkv_status qkv_pipeline_look(qkv_pipeline *p, const qkv_look_input *in,
                             const qkv_pipeline_look_options *options, qkv_look *out)
{
    const qkv__look_kind *k = qkv__look_kind_of(p, in);
    qkv__looking l = {.p = p, .kind = k, .in = in, .out = out,
                      .o = options ? *options : qkv_pipeline_look_defaults()};
    *out = (qkv_look){.ctx = p->ctx, .kind = qkv_model_type_name(qkv_model_type_of(p->model))};
    if (!k)
        return qkv__pipeline_refuse(p, "show what it attends to");
    out->tools = qkv_calloc(p->ctx, 1, sizeof *out->tools);
    qkv_status status = out->tools ? name_adapters(out, p->model) : QKV_E_MEMORY;
    if (!status)
        status = look(&l, k);
    qkv__look_end(&l);
    if (status)
        qkv_look_free(out);
    return status;
}

void qkv_look_free(qkv_look *l)
{
    qkv_context *ctx = l->ctx;
    for (size_t i = 0; i < QKV_LOOK_AXES && ctx; i++) {
        for (size_t k = 0; l->axes[i].labels && k < l->axes[i].count; k++)
            qkv_free(ctx, l->axes[i].labels[k]);
        qkv_free(ctx, l->axes[i].labels);
        qkv_free(ctx, l->axes[i].cells);
    }
    for (size_t i = 0; i < QKV_LOOK_ATTENTIONS && ctx; i++) {
        qkv_free(ctx, l->attentions[i].figures);
        qkv_free(ctx, l->attentions[i].maps);
        qkv_free(ctx, l->attentions[i].value_norms);
        if (l->tools)
            qkv_rollout_free(l->tools->rollout[i]);
    }
    qkv__look_free_series(&l->series, ctx);
    qkv_free(ctx, l->adapters);
    for (size_t i = 0; i < QKV_LOOK_IMAGES && ctx; i++)
        qkv_image_free(&l->images[i].image, ctx);
    for (size_t i = 0; i < l->word_count; i++)
        qkv_free(ctx, l->words[i]);
    for (size_t i = 0; i < l->panel_count; i++) {
        qkv_free(ctx, l->panels[i].note);
        qkv_free(ctx, l->panels[i].json);
        qkv_drawing_destroy(l->panels[i].drawing);
    }
    if (l->tools) {
        qkv_head_table_free(l->tools->table);
        qkv_head_maps_free(l->tools->maps);
    }
    if (ctx) {
        qkv_free(ctx, l->target);
        qkv_free(ctx, l->vector);
        qkv_free(ctx, l->panels);
        qkv_free(ctx, l->guesses);
        qkv_free(ctx, l->classes);
        qkv_free(ctx, l->words);
        qkv_free(ctx, l->word_ids);
        qkv_free(ctx, l->tools);
    }
    *l = (qkv_look){0};
}
