/* vqgan_tower.c - VQGAN's encoder or its decoder: levels of residual blocks, with attention over
 * all pixels where a level's images are small enough. */
#include <math.h>
#include <stdio.h>

#include "model/vqgan_tower.h"
#include "tensor/make.h"

enum { GROUPS = 32, WINDOW = 3 };
static const double EPS = 1e-6;
static const uint32_t DROPOUT_IDS = 0xD0000000u; /* of dropout; a block's is its number in the
                                                    model */

/* What follows an image that is halved: the window begins on it and ends one pixel beyond. */
static const qkv_conv_options down = {.stride = 2, .bottom = 1, .right = 1};

typedef struct {
    qkv_params *ps;
    const qkv_vqgan_config *c;
    uint32_t *blocks; /* made so far */
} maker;

/* ---- making ------------------------------------------------------------------------------- */

/* "encoder.down.0.block.1" + ".conv1" */
typedef struct {
    char text[128];
} path;

static path under(const char *stem, const char *name)
{
    path p;
    (void)snprintf(p.text, sizeof p.text, "%.60s.%.40s", stem, name);
    return p;
}

static path numbered(const char *stem, const char *name, size_t i)
{
    path p;
    (void)snprintf(p.text, sizeof p.text, "%.60s%s%.20s.%zu", stem, *stem ? "." : "", name, i);
    return p;
}

static bool make_group(qkv__group *g, qkv_params *ps, const char *name, size_t channels)
{
    g->channels = channels;
    g->weight = qkv__vector(ps, under(name, "weight").text, channels);
    g->bias = qkv__vector(ps, under(name, "bias").text, channels);
    return g->weight && g->bias;
}

static bool make_residual(qkv__residual *r, maker *m, const char *name, size_t in, size_t out)
{
    qkv_params *ps = m->ps;
    r->dropout_id = DROPOUT_IDS + (*m->blocks)++;
    return make_group(&r->norm1, ps, under(name, "norm1").text, in) &&
           qkv__conv_make(&r->conv1, ps, under(name, "conv1").text, in, out, WINDOW, true) &&
           make_group(&r->norm2, ps, under(name, "norm2").text, out) &&
           qkv__conv_make(&r->conv2, ps, under(name, "conv2").text, out, out, WINDOW, true) &&
           (in == out || qkv__conv_make(&r->skip, ps, under(name, "nin_shortcut").text, in, out, 1,
                                        true));
}

static bool make_attention(qkv__pixel_attention *a, maker *m, const char *name, size_t channels)
{
    qkv_params *ps = m->ps;
    a->weight = qkv__matrix(ps, under(name, "qkv.weight").text, 3 * channels, channels);
    a->bias = qkv__vector(ps, under(name, "qkv.bias").text, 3 * channels);
    return a->weight && a->bias && make_group(&a->norm, ps, under(name, "norm").text, channels) &&
           qkv__conv_make(&a->out, ps, under(name, "proj_out").text, channels, channels, 1, true);
}

static size_t channels_of(const qkv_vqgan_config *c, size_t i)
{
    return c->channels * c->multiples.item[i];
}

/* Whether blocks of the level attend, by the side that images have there at training. */
static bool attends(const qkv_vqgan_config *c, size_t i)
{
    for (size_t k = 0; k < c->attention.count; k++)
        if (c->attention.item[k] == c->image >> i)
            return true;
    return false;
}

static bool make_level(qkv__level *l, maker *m, const qkv__tower *h, size_t i, size_t *in)
{
    path stem = numbered(h->name, h->upward ? "up" : "down", i);
    size_t out = channels_of(m->c, i);
    bool fine = true;
    l->count = m->c->blocks + h->upward;
    l->attends = attends(m->c, i);
    l->scales = h->upward ? i > 0 : i + 1 < m->c->multiples.count;
    for (size_t k = 0; k < l->count && fine; k++) {
        fine = make_residual(&l->block[k], m, numbered(stem.text, "block", k).text, *in, out) &&
               (!l->attends ||
                make_attention(&l->attention[k], m, numbered(stem.text, "attn", k).text, out));
        *in = out;
    }
    path scale = under(stem.text, h->upward ? "upsample.conv" : "downsample.conv");
    return fine && (!l->scales || qkv__conv_make(&l->scale, m->ps, scale.text, out, out,
                                                 WINDOW, true));
}

/* From what goes in to the first level; from the last level, or the middle, to what comes out. */
bool qkv__tower_make(qkv__tower *h, qkv_params *ps, const qkv_vqgan_config *c, const char *name,
                     bool upward, uint32_t *blocks)
{
    size_t n = c->multiples.count, at = upward ? channels_of(c, n - 1) : c->channels;
    maker m = {ps, c, blocks};
    *h = (qkv__tower){.c = c, .name = name, .upward = upward};
    bool fine = qkv__conv_make(&h->in, ps, under(name, "conv_in").text,
                               upward ? c->z_channels : c->colors, at, WINDOW, true);
    for (size_t i = 0; !upward && i < n && fine; i++)
        fine = make_level(&h->level[i], &m, h, i, &at);
    fine = fine && make_residual(&h->first, &m, under(name, "mid.block_1").text, at, at) &&
           make_attention(&h->middle, &m, under(name, "mid.attn_1").text, at) &&
           make_residual(&h->second, &m, under(name, "mid.block_2").text, at, at);
    for (size_t i = n; upward && i-- > 0 && fine;)
        fine = make_level(&h->level[i], &m, h, i, &at);
    return fine && make_group(&h->norm, ps, under(name, "norm_out").text, at) &&
           qkv__conv_make(&h->out, ps, under(name, "conv_out").text, at,
                          upward ? c->colors : c->z_channels, WINDOW, true);
}

/* ---- rows --------------------------------------------------------------------------------- */

static void visit_group(qkv__visit *v, const char *name, const qkv__group *g)
{
    qkv__visit_norm(v, name, g->weight, g->bias, g->channels);
}

static void visit_residual(qkv__visit *v, const char *name, const qkv__residual *r)
{
    visit_group(v, under(name, "norm1").text, &r->norm1);
    qkv__visit_conv(v, under(name, "conv1").text, &r->conv1, 0);
    visit_group(v, under(name, "norm2").text, &r->norm2);
    qkv__visit_conv(v, under(name, "conv2").text, &r->conv2, 0);
    if (r->skip.weight)
        qkv__visit_conv(v, under(name, "nin_shortcut").text, &r->skip, 0);
}

static void visit_attention(qkv__visit *v, const char *name, const qkv__pixel_attention *a)
{
    static const char *const parts[] = {"q", "k", "v"};
    size_t C = a->norm.channels;
    double range = 1 / sqrt((double)C);
    visit_group(v, under(name, "norm").text, &a->norm);
    for (size_t i = 0; i < 3; i++) {
        path stem = under(name, parts[i]);
        qkv_state_entry weight = {.kind = QKV_STATE_PARAM, .param = a->weight, .offset = i * C * C,
                                  .ndim = 4,
                                  .shape = {C, C, 1, 1}, .perm = {0, 3, 1, 2},
                                  .init = QKV_INIT_UNIFORM, .scale = range, .decay = true};
        qkv_state_entry bias = {.kind = QKV_STATE_PARAM, .param = a->bias, .offset = i * C, .ndim =
            1,
                                .shape = {C}, .init = QKV_INIT_UNIFORM, .scale = range};
        qkv__visit_entry(v, &weight, under(stem.text, "weight").text);
        qkv__visit_entry(v, &bias, under(stem.text, "bias").text);
    }
    qkv__visit_conv(v, under(name, "proj_out").text, &a->out, 0);
}

static void visit_level(qkv__visit *v, const qkv__tower *h, size_t i)
{
    const qkv__level *l = &h->level[i];
    path stem = numbered(h->name, h->upward ? "up" : "down", i);
    for (size_t k = 0; k < l->count; k++)
        visit_residual(v, numbered(stem.text, "block", k).text, &l->block[k]);
    for (size_t k = 0; l->attends && k < l->count; k++)
        visit_attention(v, numbered(stem.text, "attn", k).text, &l->attention[k]);
    if (l->scales)
        qkv__visit_conv(v, under(stem.text, h->upward ? "upsample.conv" : "downsample.conv").text,
                        &l->scale, 0);
}

void qkv__tower_visit(const qkv__tower *h, qkv__visit *v)
{
    size_t n = h->c->multiples.count;
    qkv__visit_conv(v, under(h->name, "conv_in").text, &h->in, 0);
    for (size_t i = 0; !h->upward && i < n; i++)
        visit_level(v, h, i);
    visit_residual(v, under(h->name, "mid.block_1").text, &h->first);
    visit_attention(v, under(h->name, "mid.attn_1").text, &h->middle);
    visit_residual(v, under(h->name, "mid.block_2").text, &h->second);
    for (size_t i = 0; h->upward && i < n; i++)
        visit_level(v, h, i);
    visit_group(v, under(h->name, "norm_out").text, &h->norm);
    qkv__visit_conv(v, under(h->name, "conv_out").text, &h->out, 0);
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Nothing but the layer behind it reads it: then let it go. */
static qkv_tensor *norm(const qkv__group *g, qkv_tape *t, qkv_tensor *x, bool silu)
{
    qkv__for_products(t, true);
    x = qkv_group_norm(t, x, qkv_use(t, g->weight), qkv_use(t, g->bias), GROUPS, EPS, silu);
    qkv__for_products(t, false);
    return x;
}

static qkv_tensor *convolve(const qkv__conv *c, qkv_tape *t, qkv_tensor *x)
{
    return qkv__conv_forward(c, t, x, &qkv__conv_same);
}

/* The same, of what only a group norm or a sum with the stream reads. */
static qkv_tensor *convolve_within(const qkv__conv *c, qkv_tape *t, qkv_tensor *x)
{
    qkv__for_products(t, true);
    x = convolve(c, t, x);
    qkv__for_products(t, false);
    return x;
}

static qkv_tensor *run_residual(const qkv__residual *r, const qkv_vqgan_config *c, qkv_tape *t,
                                qkv_tensor *x)
{
    qkv_tensor *h = norm(&r->norm1, t, x, true), *y = convolve_within(&r->conv1, t, h);
    qkv__let_go(t, h);
    h = norm(&r->norm2, t, y, true);
    qkv_tensor *left = c->dropout > 0 ? qkv_dropout(t, h, c->dropout, r->dropout_id) : h;
    y = convolve_within(&r->conv2, t, left);
    qkv__let_go(t, h);
    qkv__spend(t, y);
    return qkv_add(t, r->skip.weight ? qkv__conv_forward(&r->skip, t, x, NULL) : x, y);
}

/* One head as wide as the pixel, over all pixels of an image. */
static qkv_tensor *run_attention(const qkv__pixel_attention *a, qkv_tape *t, qkv_tensor *x,
                                 const char *name)
{
    qkv_tensor *h = norm(&a->norm, t, x, false), *part[3];
    qkv_tensor *y = qkv_linear(t, h, qkv_use(t, a->weight), qkv_use(t, a->bias), QKV_ACT_NONE);
    qkv__let_go(t, h);
    if (!y)
        return NULL;
    const size_t C = a->norm.channels, each[] = {C, C, C};
    const size_t rows[] = {qkv_dim(x, 0), qkv_dim(x, 1) * qkv_dim(x, 2), 1, 3 * C};
    if (!qkv_split(t, qkv_reshape(t, y, 4, rows), 3, 3, each, part))
        return NULL;
    y = qkv_attention(t, part[0], part[1], part[2], &(qkv_attention_options){.probe = name});
    const size_t shape[] = {qkv_dim(x, 0), qkv_dim(x, 1), qkv_dim(x, 2), C};
    y = qkv_reshape(t, y, 4, shape);
    y = qkv__conv_forward(&a->out, t, y, NULL);
    qkv__spend(t, y);
    return qkv_add(t, x, y);
}

static qkv_tensor *run_upsample(const qkv__level *l, qkv_tape *t, qkv_tensor *x)
{
    qkv__for_products(t, true);
    qkv_tensor *large = qkv_upsample(t, x, 2);
    qkv__for_products(t, false);
    qkv_tensor *y = convolve(&l->scale, t, large);
    qkv__let_go(t, large);
    return y;
}

/* A half's way through its layers: in inference each one's memory but its output is released. */
typedef struct {
    const qkv__tower *h;
    qkv_tape *t;
    qkv_scope scope;
    qkv_tensor *x;
    size_t at, from; /* layers that were passed; those before `from` are not computed */
} walk;

/* Whether the next layer is computed. */
static bool due(walk *w) { return w->at++ >= w->from; }

static void vqgan_tower_pass(walk *w, const char *place, qkv_tensor *x)
{
    w->x = qkv_scope_end(w->t, w->scope, qkv_probe(w->t, place, x));
}

/* A place of a level: "block.1". */
static void pass_part(walk *w, const char *part, size_t i, qkv_tensor *x)
{
    vqgan_tower_pass(w, numbered("", part, i).text, x);
}

static void pass_level(walk *w, size_t i)
{
    const qkv__level *l = &w->h->level[i];
    qkv_name_push(w->t, "%s.%zu", w->h->upward ? "up" : "down", i);
    for (size_t k = 0; k < l->count; k++) {
        if (due(w))
            pass_part(w, "block", k, run_residual(&l->block[k], w->h->c, w->t, w->x));
        if (l->attends && due(w))
            pass_part(w, "attn", k, run_attention(&l->attention[k], w->t, w->x,
                                                  numbered("", "attn", k).text));
    }
    bool scales = l->scales && due(w);
    if (scales && w->h->upward)
        vqgan_tower_pass(w, "upsample", run_upsample(l, w->t, w->x));
    else if (scales)
        vqgan_tower_pass(w, "downsample", qkv__conv_forward(&l->scale, w->t, w->x, &down));
    qkv_name_pop(w->t);
}

/* The layer that qkv_tape_enter chose, with the map there; without one the first. */
static void tower_entry(walk *w)
{
    size_t layers = 5; /* conv_in, three in the middle, conv_out */
    for (size_t i = 0; i < w->h->c->multiples.count; i++) {
        const qkv__level *l = &w->h->level[i];
        layers += l->count * (l->attends ? 2 : 1) + l->scales;
    }
    for (size_t i = 0; i <= layers; i++) {
        qkv_tensor *x = qkv__entered(w->t, w->h->name, i);
        if (x) {
            w->x = x;
            w->from = i;
            return;
        }
    }
}

/* A decoder's largest images come last, a residual block's six at once, with its skip: where there
 * is no room for them, nothing is begun that would take minutes to get there. */
static bool has_room(const qkv__tower *h, qkv_tape *t, const qkv_tensor *x)
{
    enum { IMAGES = 6 };
    if (!x || !h->upward || qkv__records(t))
        return true;
    size_t pixels = qkv_count(x) / qkv_dim(x, -1) << 2 * (h->c->multiples.count - 1);
    return qkv__step_room(t, IMAGES * pixels * channels_of(h->c, 0) * sizeof(qkv_real));
}

static void pass_middle(walk *w)
{
    const qkv__tower *h = w->h;
    if (due(w))
        vqgan_tower_pass(w, "mid.block_1", run_residual(&h->first, h->c, w->t, w->x));
    if (due(w))
        vqgan_tower_pass(w, "mid.attn_1", run_attention(&h->middle, w->t, w->x, "mid.attn_1"));
    if (due(w))
        vqgan_tower_pass(w, "mid.block_2", run_residual(&h->second, h->c, w->t, w->x));
}

qkv_tensor *qkv__tower_forward(const qkv__tower *h, qkv_tape *t, qkv_tensor *x)
{
    size_t n = h->c->multiples.count;
    walk w = {.h = h, .t = t, .scope = qkv_scope_begin(t), .x = x};
    if (!has_room(h, t, x))
        return NULL;
    tower_entry(&w);
    qkv_name_push(t, "%s", h->name);
    if (due(&w))
        vqgan_tower_pass(&w, "conv_in", convolve(&h->in, t, w.x));
    for (size_t i = 0; !h->upward && i < n; i++)
        pass_level(&w, i);
    pass_middle(&w);
    for (size_t i = n; h->upward && i-- > 0;)
        pass_level(&w, i);
    if (due(&w)) {
        qkv_tensor *y = norm(&h->norm, t, w.x, true), *pixels = convolve(&h->out, t, y);
        qkv__let_go(t, y);
        vqgan_tower_pass(&w, "conv_out", pixels);
    }
    qkv_name_pop(t);
    return w.x;
}

/* ---- FLOPs -------------------------------------------------------------------------------- */

static double residual_flops(const qkv__residual *r, double pixels, int passes)
{
    return qkv__conv_flops(&r->conv1, pixels, passes) + qkv__conv_flops(&r->conv2, pixels, passes) +
           (r->skip.weight ? qkv__conv_flops(&r->skip, pixels, passes) : 0);
}

/* Four products of C x C a pixel; scores and mixtures 4 pixels^2 C an image, 10 more backward. */
static double attention_flops(const qkv__pixel_attention *a, double images, double pixels,
                              int passes)
{
    double C = (double)a->norm.channels;
    return images * (8 * passes * C * C * pixels + (passes > 1 ? 14 : 4) * pixels * pixels * C);
}

double qkv__tower_flops(const qkv__tower *h, double images, double pixels, int passes)
{
    size_t n = h->c->multiples.count;
    double deepest = pixels / pow(4, (double)(n - 1));
    double sum = residual_flops(&h->first, images * deepest, passes) +
                 residual_flops(&h->second, images * deepest, passes) +
                 attention_flops(&h->middle, images, deepest, passes) +
                 qkv__conv_flops(&h->in, images * (h->upward ? deepest : pixels),
                                 passes == 3 && !h->upward ? 2 : passes) +
                 qkv__conv_flops(&h->out, images * (h->upward ? pixels : deepest), passes);
    for (size_t i = 0; i < n; i++) {
        const qkv__level *l = &h->level[i];
        double here = pixels / pow(4, (double)i);
        for (size_t k = 0; k < l->count; k++)
            sum += residual_flops(&l->block[k], images * here, passes) +
                   (l->attends ? attention_flops(&l->attention[k], images, here, passes) : 0);
        if (l->scales)
            sum += qkv__conv_flops(&l->scale, images * (h->upward ? 4 * here : here / 4), passes);
    }
    return sum;
}
