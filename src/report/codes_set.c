/* codes_set.c - the codes of a set of images: how often each occurs, next to which others, and
 * the patches that are nearest to it. */
#include "report/code_panels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qkv/chart.h"
#include "qkv/vqgan.h"

enum { PIXELS_AT_ONCE = 1 << 15, MOST_AT_ONCE = 32, TOGETHER = 24 };

/* ---- encoding -------------------------------------------------------------------------------- */

size_t qkv__look_codes_batch(size_t pixels)
{
    size_t n = PIXELS_AT_ONCE / pixels;
    return n < 1 ? 1 : n < MOST_AT_ONCE ? n : MOST_AT_ONCE;
}

const uint8_t *qkv__code_set_image(const qkv__code_set *s, size_t i)
{
    return s->among ? qkv_pixels_data(s->among, i) : s->input->data;
}

/* Puts the patch among the nearest ones of every code. z: the encoder's output there. */
static void code_set_rank(qkv__code_set *s, qkv__code_patch at, const qkv_real *z,
                          const qkv_real *table)
{
    size_t width = s->c->config->code_width;
    for (size_t k = 0; k < s->c->config->codes; k++) {
        const qkv_real *e = table + k * width;
        qkv__code_patch *best = s->nearest + k * QKV__CODE_PATCHES;
        size_t i = QKV__CODE_PATCHES;
        qkv_real sum = 0;
        for (size_t w = 0; w < width; w++)
            sum += (z[w] - e[w]) * (z[w] - e[w]);
        at.distance = sqrt((double)sum);
        for (; i > 0 && (best[i - 1].image == SIZE_MAX || at.distance < best[i - 1].distance); i--)
            if (i < QKV__CODE_PATCHES)
                best[i] = best[i - 1];
        if (i < QKV__CODE_PATCHES)
            best[i] = at;
    }
}

static qkv_status code_set_batch(qkv__code_set *s, size_t first, size_t n)
{
    const qkv__look_codes *c = s->c;
    qkv_tape *t = c->tape;
    size_t each = s->input->height * s->input->width * s->input->channels;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, (size_t[]){n, s->input->height, s->input->width,
                                                           s->input->channels});
    qkv_real *pixels = x ? qkv_tensor_fill(x) : NULL;
    for (size_t i = 0; i < n && pixels; i++)
        for (size_t b = 0; b < each; b++)
            pixels[i * each + b] =
                (qkv_real)((double)qkv__code_set_image(s, first + i)[b] / 127.5 - 1);
    qkv_tensor *z = qkv_vqgan_encode(c->vqgan, t, x);
    const int32_t *ids = qkv_data_ids(t, qkv_vqgan_codes(c->vqgan, t, z));
    const qkv_real *vectors = qkv_data(t, z);
    const qkv_real *table = qkv_data(t, qkv_use(t, qkv_vqgan_codebook(c->vqgan)));
    for (size_t i = 0; i < n * c->places && ids && vectors && table; i++) {
        s->grids[first * c->places + i] = ids[i];
        s->counts[ids[i]]++;
        code_set_rank(s, (qkv__code_patch){.image = first + i / c->places, .place = i % c->places},
                      vectors + i * c->config->code_width, table);
    }
    qkv_status status = qkv_tape_status(t);
    qkv_tape_reset(t);
    return status;
}

typedef struct {
    size_t count;
    int32_t code;
} code_frequency;

static int more_frequent(const void *a, const void *b)
{
    const code_frequency *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->code < y->code ? -1 : 1;
}

static qkv_status code_set_sort(qkv__code_set *s)
{
    size_t codes = s->c->config->codes;
    code_frequency *all = qkv_calloc(s->c->ctx, codes, sizeof *all);
    if (!all)
        return QKV_E_MEMORY;
    for (size_t k = 0; k < codes; k++) {
        all[k] = (code_frequency){s->counts[k], (int32_t)k};
        s->used += s->counts[k] > 0;
    }
    qsort(all, codes, sizeof *all, more_frequent);
    for (size_t k = 0; k < codes; k++)
        s->order[k] = all[k].code;
    qkv_free(s->c->ctx, all);
    return QKV_OK;
}

qkv_status qkv__code_set_read(qkv__code_set *s, const qkv__look_codes *c,
                              const qkv_pixels *among, const qkv_image *input)
{
    size_t codes = c->config->codes;
    size_t batch = qkv__look_codes_batch(input->width * input->height);
    *s = (qkv__code_set){.c = c, .among = among, .input = input,
                         .images = among ? qkv_pixels_count(among) : 1};
    s->grids = qkv_calloc(c->ctx, s->images, c->places * sizeof *s->grids);
    s->counts = qkv_calloc(c->ctx, codes, sizeof *s->counts);
    s->order = qkv_calloc(c->ctx, codes, sizeof *s->order);
    s->nearest = qkv_calloc(c->ctx, codes, QKV__CODE_PATCHES * sizeof *s->nearest);
    if (!s->grids || !s->counts || !s->order || !s->nearest)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < codes * QKV__CODE_PATCHES; i++)
        s->nearest[i].image = SIZE_MAX;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->images && !status; i += batch) {
        status = code_set_batch(s, i, s->images - i < batch ? s->images - i : batch);
        if (!status && s->images > batch)
            status = qkv__progress(c->ctx, "coding", "images",
                                   s->images - i < batch ? s->images : i + batch, s->images);
    }
    return status ? status : code_set_sort(s);
}

void qkv__code_set_free(qkv__code_set *s)
{
    void *const parts[] = {s->grids, s->counts, s->order, s->nearest};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && s->c; i++)
        qkv_free(s->c->ctx, parts[i]);
    *s = (qkv__code_set){0};
}

double qkv__code_set_perplexity(const size_t *counts, size_t codes)
{
    double all = 0, entropy = 0;
    for (size_t k = 0; k < codes; k++)
        all += (double)counts[k];
    for (size_t k = 0; k < codes; k++)
        if (counts[k])
            entropy -= (double)counts[k] / all * log2((double)counts[k] / all);
    return exp2(entropy);
}

size_t qkv__code_set_where(const qkv__code_set *s, int32_t code,
                           qkv__code_patch out[QKV__CODE_PATCHES])
{
    size_t found = 0, places = s->c->places;
    for (int first = 1; first >= 0; first--) /* the first patch of each image, then the others */
        for (size_t i = 0; i < s->images && found < QKV__CODE_PATCHES; i++) {
            bool met = false;
            for (size_t at = 0; at < places && found < QKV__CODE_PATCHES; at++) {
                if (s->grids[i * places + at] != code)
                    continue;
                if (met != (first == 1))
                    out[found++] = (qkv__code_patch){i, at, NAN};
                met = true;
                if (first)
                    break;
            }
        }
    return found;
}

/* ---- usage ----------------------------------------------------------------------------------- */

static void put_usage(qkv_json_writer *w, const qkv__code_set *s, size_t input_used,
                      double input_perplexity)
{
    size_t codes = s->c->config->codes;
    qkv_json_begin_object(w, NULL);
    qkv_json_put_int(w, "images", (int64_t)s->images);
    qkv_json_put_int(w, "patches", (int64_t)(s->images * s->c->places));
    qkv_json_put_int(w, "codes", (int64_t)codes);
    qkv_json_put_int(w, "used", (int64_t)s->used);
    qkv_json_put_int(w, "dead", (int64_t)(codes - s->used));
    qkv_json_put_real(w, "perplexity", qkv__code_set_perplexity(s->counts, codes));
    qkv_json_put_sizes(w, "counts", s->counts, codes);
    qkv_json_begin_object(w, "input");
    qkv_json_put_int(w, "used", (int64_t)input_used);
    qkv_json_put_real(w, "perplexity", input_perplexity);
    qkv_json_end_object(w);
    qkv_json_end_object(w);
}

/* Bars of the counts, the most frequent code first; *values (codes) and *edges are freed by the
 * caller. */
static qkv_status draw_usage(const qkv__code_set *s, double *values, double *edges,
                             qkv_drawing **out)
{
    size_t codes = s->c->config->codes;
    for (size_t k = 0; k <= codes; k++)
        edges[k] = (double)k;
    for (size_t k = 0; k < codes; k++)
        values[k] = (double)s->counts[s->order[k]];
    qkv_status status = qkv_drawing_create(out, s->c->ctx, 720, 260);
    if (status)
        return status;
    qkv_draw_bars(*out, NULL, &(qkv_bar_chart){.x_label = "codes, the most frequent first",
                                               .y_label = "patches", .values = values,
                                               .edges = edges, .count = codes, .decimals = -1});
    return QKV_OK;
}

qkv_status qkv__look_codes_usage(const qkv__code_set *s)
{
    const qkv__look_codes *c = s->c;
    size_t codes = c->config->codes, used = 0;
    double *room = qkv_calloc(c->ctx, 2 * codes + 1, sizeof *room);
    size_t *own = qkv_calloc(c->ctx, codes, sizeof *own);
    qkv_drawing *d = NULL;
    qkv_status status = room && own ? draw_usage(s, room, room + codes, &d) : QKV_E_MEMORY;
    for (size_t i = 0; i < c->places && own; i++)
        used += !own[c->grid[i]]++;
    if (!status) {
        qkv_json_writer w;
        qkv_str note;
        double perplexity = qkv__code_set_perplexity(own, codes);
        qkv_json_writer_init(&w, c->ctx, -1);
        put_usage(&w, s, used, perplexity);
        qkv_str_init(&note, c->ctx);
        qkv_str_printf(&note, "The input has %zu of %zu codes, perplexity %.1f (2 to the entropy "
                       "of their frequencies). ", used, codes, perplexity);
        if (s->among)
            qkv_str_printf(&note, "The %zu images of the set have %zu; %zu are dead there. Their "
                           "perplexity is %.1f, at most %zu.", s->images, s->used,
                           codes - s->used, qkv__code_set_perplexity(s->counts, codes), codes);
        else
            qkv_str_puts(&note, "--among SET counts the codes of a set of images.");
        status = qkv__look_add_panel(c->l, "codes-usage", "Usage of codes",
                                     note.failed ? NULL : note.data, d, &w);
        qkv_str_free(&note);
    }
    qkv_free(c->ctx, own);
    qkv_free(c->ctx, room);
    return status;
}

/* ---- neighbours ------------------------------------------------------------------------------ */

/* Neighbours of the most frequent codes. */
typedef struct {
    size_t shown;      /* codes: the first of the set's order */
    size_t *pairs;     /* (shown, shown) neighbours, in both orders */
    double *ends;      /* (codes) neighbours that a code has in all */
    int32_t *rank;     /* (codes) place in the order; -1: not shown */
    float *bits;       /* (shown, shown) log2 of p(i, j) / (p(i) p(j)); NaN: never together */
    double all;        /* neighbours */
} code_pairs;

static void count_pair(code_pairs *p, int32_t a, int32_t b)
{
    p->ends[a]++;
    p->ends[b]++;
    p->all += 2;
    if (p->rank[a] < 0 || p->rank[b] < 0)
        return;
    p->pairs[(size_t)p->rank[a] * p->shown + (size_t)p->rank[b]]++;
    p->pairs[(size_t)p->rank[b] * p->shown + (size_t)p->rank[a]]++;
}

static void count_neighbours(const qkv__code_set *s, code_pairs *p)
{
    size_t places = s->c->places, columns = s->c->columns, codes = s->c->config->codes;
    for (size_t k = 0; k < codes; k++)
        p->rank[k] = -1;
    for (size_t k = 0; k < p->shown; k++)
        p->rank[s->order[k]] = (int32_t)k;
    for (size_t i = 0; i < s->images; i++) {
        const int32_t *grid = s->grids + i * places;
        for (size_t at = 0; at < places; at++) {
            if ((at + 1) % columns)
                count_pair(p, grid[at], grid[at + 1]);
            if (at + columns < places)
                count_pair(p, grid[at], grid[at + columns]);
        }
    }
    for (size_t i = 0; i < p->shown; i++)
        for (size_t j = 0; j < p->shown; j++) {
            double both = (double)p->pairs[i * p->shown + j] * p->all;
            double each = p->ends[s->order[i]] * p->ends[s->order[j]];
            p->bits[i * p->shown + j] = both > 0 ? (float)log2(both / each) : NAN;
        }
}

static qkv_status draw_pairs(const qkv__code_set *s, const code_pairs *p, qkv_drawing **out)
{
    char text[TOGETHER][16];
    const char *labels[TOGETHER];
    double width, height;
    for (size_t k = 0; k < p->shown; k++) {
        (void)snprintf(text[k], sizeof text[k], "%d", (int)s->order[k]);
        labels[k] = text[k];
    }
    const qkv_heat_map map = {.values = p->bits, .rows = p->shown, .columns = p->shown,
                              .row_labels = labels, .column_labels = labels, .diverging = true,
                              .square = true, .x_label = "code", .y_label = "neighbour"};
    qkv_heat_size(&map, 20, &width, &height);
    qkv_status status = qkv_drawing_create(out, s->c->ctx, width, height);
    if (status)
        return status;
    qkv_draw_heat(*out, NULL, &map);
    return QKV_OK;
}

static void put_pairs(qkv_json_writer *w, const qkv__code_set *s, const code_pairs *p)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_put_ids(w, "codes", s->order, p->shown);
    qkv_json_begin_array(w, "counts");
    for (size_t i = 0; i < p->shown; i++)
        qkv_json_put_sizes(w, NULL, p->pairs + i * p->shown, p->shown);
    qkv_json_end_array(w);
    qkv__look_put_rows(w, "bits", p->bits, p->shown, p->shown);
    qkv_json_end_object(w);
}

qkv_status qkv__look_codes_together(const qkv__code_set *s)
{
    qkv_context *ctx = s->c->ctx;
    size_t codes = s->c->config->codes;
    code_pairs p = {.shown = s->used < TOGETHER ? s->used : TOGETHER};
    qkv_drawing *d = NULL;
    p.pairs = qkv_calloc(ctx, p.shown * p.shown + 1, sizeof *p.pairs);
    p.bits = qkv_calloc(ctx, p.shown * p.shown + 1, sizeof *p.bits);
    p.ends = qkv_calloc(ctx, codes, sizeof *p.ends);
    p.rank = qkv_calloc(ctx, codes, sizeof *p.rank);
    qkv_status status = p.pairs && p.bits && p.ends && p.rank ? QKV_OK : QKV_E_MEMORY;
    if (!status) {
        count_neighbours(s, &p);
        status = draw_pairs(s, &p, &d);
    }
    if (!status) {
        qkv_json_writer w;
        qkv_json_writer_init(&w, ctx, -1);
        put_pairs(&w, s, &p);
        status = qkv__look_add_panel(
            s->c->l, "codes-together", "Codes that occur together",
            "Neighbours, beside or above each other, of the most frequent codes: log2 of how often "
            "two are neighbours over how often they would be by chance, in bits. Grey: never "
            "neighbours.", d, &w);
    }
    qkv_free(ctx, p.pairs);
    qkv_free(ctx, p.bits);
    qkv_free(ctx, p.ends);
    qkv_free(ctx, p.rank);
    return status;
}
