/* codes.c - learning codes for images: phase 0 updates encoder, codes and decoder, phase 1 the
 * discriminator. */
#include "task/codes_evaluate.h"

#include <math.h>
#include <string.h>

#include "dist/dist.h"
#include "task/common.h"
#include "task/tables.h"

typedef struct {
    qkv__image_task base;
    qkv_model *lpips; /* or NULL */
    qkv_codes_options o;
    bool *trains;      /* (parameters) those that no phase but the other's freezes */
    qkv_real *decoded; /* (room) of the whole batch, for the discriminator */
    size_t room;
    qkv_real *moves; /* (codes, code width): what pulls at each code in this step */
    struct {         /* what the passes of this phase have coded so far */
        qkv_real *z; /* (count, code width) */
        int32_t *ids;
        size_t count, z_room, ids_room;
    } coded;
    bool with_discriminator; /* the discriminator took part in the last step */
} codes_task;

#define FIELD(member) .offset = offsetof(qkv_codes_options, member)
static const char *const gan_losses[] = {"hinge", "vanilla", NULL};
static const qkv_option rows[] = {
    {.flag = "codebook-weight", .key = "codebook_weight", .type = QKV_OPT_REAL, .max = 1000,
     FIELD(codebook), .initial = "1", .help = "of what the codes' distance costs"},
    {.flag = "commitment", .key = "beta", .type = QKV_OPT_REAL, .max = 1000, FIELD(commitment),
     .initial = "0.25", .help = "share of it that moves the encoder"},
    {.flag = "legacy", .key = "legacy", .type = QKV_OPT_BOOL, FIELD(legacy), .initial = "false",
     .help = "that share moves the codes instead, as in the authors' code"},
    {.flag = "squared", .key = "squared_weight", .type = QKV_OPT_REAL, .max = 1000, FIELD(squared),
     .initial = "0", .help = "weight of the squared error beside the absolute one"},
    {.flag = "perceptual", .key = "perceptual_weight", .type = QKV_OPT_REAL, .max = 1000,
     FIELD(perceptual), .initial = "1", .help = "weight of the perceptual distance (LPIPS)"},
    {.flag = "adversarial", .key = "disc_weight", .type = QKV_OPT_REAL, .max = 1000,
     FIELD(adversarial), .initial = "0.8", .help = "weight of the discriminator; 0: none"},
    {.flag = "disc-start", .key = "disc_start", .type = QKV_OPT_U64, .max = 1e12,
     FIELD(disc_start), .initial = "0", .help = "steps before it takes part"},
    {.flag = "disc-ramp", .key = "disc_ramp", .type = QKV_OPT_U64, .max = 1e12, FIELD(disc_ramp),
     .initial = "0", .help = "steps over which its share grows; 0: at once"},
    {.flag = "disc-loss", .key = "disc_loss", .type = QKV_OPT_ENUM, FIELD(disc_loss),
     .names = gan_losses, .initial = "hinge", .help = "what the discriminator minimises"},
    {.flag = "second-forward", .key = "second_forward", .type = QKV_OPT_BOOL, FIELD(second),
     .initial = "false", .help = "it sees images decoded anew after the update"},
    {.flag = "code-decay", .key = "code_decay", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(decay), .initial = "0.99",
     .help = "codes are running means of what they code; 0: gradients move them"},
    {.flag = "revive", .key = "revive", .type = QKV_OPT_BOOL, FIELD(revive), .initial = "true",
     .help = "codes that are not met become what is to be coded"},
};
const qkv_option_table qkv__codes_table = {"Codes", rows, sizeof rows / sizeof *rows,
                                           sizeof(qkv_codes_options)};
const qkv_option_table *qkv_codes_table(void) { return &qkv__codes_table; }

qkv_codes_options qkv_codes_defaults(void)
{
    qkv_codes_options o;
    qkv_option_defaults(&qkv__codes_table, &o);
    o.augment = qkv_augment_defaults();
    return o;
}

enum { GENERATOR, DISCRIMINATOR };

/* A code that is not met for 350 steps becomes another: 0.99^350 is 0.03. */
static const double USAGE_DECAY = 0.99, RARE = 0.03;
static const double RATIO_EPS = 1e-4, MOST_RATIO = 1e4; /* of the two gradients */

/* ---- the codes ---------------------------------------------------------------------------- */

/* Counts the codes of a batch: met becomes a running mean. Is it the first one? */
static bool codes_count_codes(codes_task *s, const int32_t *ids, size_t n, double decay)
{
    qkv_param *usage = qkv_vqgan_usage(s->base.model);
    size_t K = qkv_param_dim(usage, 0);
    qkv_real *met = qkv_param_data(usage);
    bool first = true;
    for (size_t k = 0; k < K; k++) {
        first = first && met[k] == 0;
        met[k] *= (qkv_real)decay;
    }
    for (size_t i = 0; i < n && !first; i++)
        met[ids[i]] += (qkv_real)(1 - decay);
    qkv_param_touch(usage);
    return first;
}

/* Each code met becomes sums over met, where both are running means: the code before it, moved by
 * (1 - decay) n / met towards the mean of its n vectors. False: out of memory. */
static bool codes_follow(codes_task *s, const qkv_real *z, const int32_t *ids, size_t n,
                         double decay)
{
    qkv_param *table = qkv_vqgan_codebook(s->base.model);
    size_t K = qkv_param_dim(table, 0), width = qkv_param_dim(table, 1);
    const qkv_real *met = qkv_param_data(qkv_vqgan_usage(s->base.model));
    qkv_real *vectors = qkv_param_data(table);
    if (!s->moves)
        s->moves = qkv_malloc(s->base.ctx, K * width * sizeof *s->moves);
    if (!s->moves)
        return false;
    memset(s->moves, 0, K * width * sizeof *s->moves);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0, at = (size_t)ids[i] * width; d < width; d++)
            s->moves[at + d] += z[i * width + d] - vectors[at + d];
    for (size_t i = 0; i < K * width; i++)
        vectors[i] += (qkv_real)(1 - decay) * s->moves[i] /
                      (met[i / width] > 0 ? met[i / width] : 1);
    qkv_param_touch(table);
    return true;
}

/* Rare codes, at first all, are moved onto vectors drawn from the batch. */
static void revive(codes_task *s, const qkv_real *z, size_t n, uint64_t step, double decay)
{
    qkv_param *table = qkv_vqgan_codebook(s->base.model), *usage = qkv_vqgan_usage(s->base.model);
    size_t K = qkv_param_dim(table, 0), width = qkv_param_dim(table, 1);
    qkv_real *met = qkv_param_data(usage), *vectors = qkv_param_data(table);
    qkv_rng r;
    qkv_rng_init(&r, s->base.seed, qkv_hash64("revive", 6) + step);
    for (size_t k = 0; k < K; k++) {
        uint32_t from = qkv_rng_below(&r, (uint32_t)n);
        if ((double)met[k] >= RARE * (1 - decay))
            continue;
        memcpy(vectors + k * width, z + from * width, width * sizeof *z);
        met[k] = (qkv_real)(1 - decay);
    }
    qkv_param_touch(usage);
    qkv_param_touch(table);
}

static bool codes_move(const codes_task *s) { return s->o.revive || s->o.decay > 0; }

/* What is to be coded -> its codes. In the generator's phase both are kept for its end. */
static qkv_tensor *codes_choose(codes_task *s, qkv_tape *t, qkv_tensor *z,
                                const qkv_micro_batch *part)
{
    qkv_tensor *ids = qkv_vqgan_codes(s->base.model, t, z);
    if (!ids || part->phase != GENERATOR || !codes_move(s))
        return ids;
    const qkv_real *x = qkv_data(t, z);
    const int32_t *met = qkv_data_ids(t, ids);
    size_t n = qkv_count(ids), width = qkv_count(z) / n, had = s->coded.count;
    if (!x || !met ||
        !qkv__grow(s->base.ctx, &s->coded.z, &s->coded.z_room, (had + n) * width, sizeof *x) ||
        !qkv__grow(s->base.ctx, &s->coded.ids, &s->coded.ids_room, had + n, sizeof *met))
        return NULL;
    memcpy(s->coded.z + had * width, x, n * width * sizeof *x);
    memcpy(s->coded.ids + had, met, n * sizeof *met);
    s->coded.count += n;
    return ids;
}

/* The codes move by the batch as a whole, that of all ranks. */
static qkv_status codes_end_phase(void *self, uint64_t step, int phase)
{
    codes_task *s = self;
    qkv_context *ctx = s->base.ctx;
    double decay = s->o.decay > 0 ? s->o.decay : USAGE_DECAY;
    size_t width = qkv_param_dim(qkv_vqgan_codebook(s->base.model), 1), n = 0;
    qkv_real *z = NULL;
    int32_t *ids = NULL;
    if (phase != GENERATOR || !codes_move(s))
        return QKV_OK;
    qkv_status status = qkv__dist_concat(ctx, s->coded.z, s->coded.count * width * sizeof *z,
                                         (void **)&z, &n);
    if (!status)
        status = qkv__dist_concat(ctx, s->coded.ids, s->coded.count * sizeof *ids, (void **)&ids,
                                  &n);
    n /= sizeof *ids;
    s->coded.count = 0;
    bool first = !status && codes_count_codes(s, ids, n, decay);
    if (!status && s->o.decay > 0 && !first && !codes_follow(s, z, ids, n, decay))
        status = QKV_E_MEMORY;
    if (!status && (first || s->o.revive))
        revive(s, z, n, step, decay);
    qkv_free(ctx, z);
    qkv_free(ctx, ids);
    return status;
}

static qkv_tensor *from_fixed(qkv_tape *t, qkv_tensor *moves, qkv_tensor *stays)
{
    return qkv_mse_loss(t, moves, stays ? qkv_detach(t, stays) : NULL);
}

/* The decoded images; *price: what the codes' distance costs, without its weight. The decoder's
 * gradient goes past the codes, straight to the encoder. */
static qkv_tensor *reconstruct(codes_task *s, qkv_tape *t, qkv_tensor *x,
                               const qkv_micro_batch *part, qkv_tensor **price)
{
    const qkv_codes_options *o = &s->o;
    qkv_tensor *z = qkv_vqgan_encode(s->base.model, t, x);
    qkv_tensor *vectors = qkv_vqgan_vectors(s->base.model, t, codes_choose(s, t, z, part));
    if (!vectors)
        return NULL;
    qkv_tensor *of_z = from_fixed(t, z, vectors), *of_codes = from_fixed(t, vectors, z);
    of_z = o->legacy ? of_z : qkv_scale(t, of_z, o->commitment);
    of_codes = o->legacy ? qkv_scale(t, of_codes, o->commitment) : of_codes;
    *price = o->decay > 0 ? of_z : qkv_add(t, of_z, of_codes);
    return qkv_vqgan_decode(s->base.model, t,
                            qkv_add(t, z, qkv_detach(t, qkv_sub(t, vectors, z))));
}

/* ---- the generator ------------------------------------------------------------------------ */

/* The share of the discriminator in this step, in [0, 1]. */
static double share_at(const codes_task *s, uint64_t step)
{
    const qkv_codes_options *o = &s->o;
    if (o->adversarial == 0 || step < o->disc_start)
        return 0;
    uint64_t into = step - o->disc_start + 1;
    return into < o->disc_ramp ? (double)into / (double)o->disc_ramp : 1;
}

static void freeze(codes_task *s, int phase)
{
    qkv_params *ps = qkv_model_params(s->base.model);
    const qkv_param *followed = s->o.decay > 0 ? qkv_vqgan_codebook(s->base.model) : NULL;
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        if (s->trains[i])
            qkv_param_freeze(p, p == followed ||
                             qkv_vqgan_is_discriminator(p) == (phase == GENERATOR));
    }
}

/* A copy of d(loss)/dx; the notes stay. */
static qkv_tensor *codes_slope(qkv_tape *t, qkv_tensor *loss, qkv_tensor *x)
{
    const qkv_backward_args args = {.n = 1, .outputs = &loss, .n_wrt = 1, .wrt = &x, .retain_graph =
        true};
    if (!loss || qkv_backward_from(t, &args))
        return NULL;
    const qkv_tensor *d = qkv_grad_of(t, x);
    size_t shape[QKV_MAX_DIMS];
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    return qkv_tensor_from(t, qkv_data(t, d), qkv_ndim(x), shape);
}

/* The norm of what the gradient dy of the images does to the last layer's weight. */
static double norm_at_last(codes_task *s, qkv_tape *t, qkv_tensor *y, const qkv_tensor *dy)
{
    qkv_tensor *last = qkv_use(t, qkv_vqgan_last(s->base.model));
    const qkv_backward_args args = {.n = 1, .outputs = &y, .gradients = &dy, .n_wrt = 1,
                                    .wrt = &last, .retain_graph = true};
    if (!dy || qkv_backward_from(t, &args))
        return 0;
    const qkv_tensor *d = qkv_grad_of(t, last);
    const qkv_real *g = qkv_data(t, d);
    double sum = 0;
    for (size_t i = 0; g && i < qkv_count(d); i++)
        sum += (double)g[i] * (double)g[i];
    return sqrt(sum);
}

static double limited(double x) { return x < MOST_RATIO ? x : MOST_RATIO; }

/* unlike + w share g, where g = -mean of what the discriminator says, and w the ratio of the two
 * gradients at the last layer. Both are brought back to the images once; from there on their sum
 * goes on, as the gradient of <y, sum>, whose value is then put right. */
static qkv_tensor *with_discriminator(codes_task *s, qkv_tape *t, qkv_tensor *y, qkv_tensor *unlike,
                                      const qkv_micro_batch *part)
{
    qkv_tensor *g = qkv_scale(t, qkv_mean(t, qkv_vqgan_discriminate(s->base.model, t, y)), -1);
    qkv_tensor *of_unlike = codes_slope(t, unlike, y), *of_g = codes_slope(t, g, y);
    if (!of_unlike || !of_g)
        return NULL;
    double ratio = norm_at_last(s, t, y, of_unlike) / (norm_at_last(s, t, y, of_g) + RATIO_EPS);
    double weight = limited(ratio) * s->o.adversarial * share_at(s, part->step);
    qkv__report(part, "generator", t, g);
    qkv_term_mean(part, "adaptive_weight", limited(ratio));
    qkv_tensor *both = qkv_add(t, of_unlike, qkv_scale(t, of_g, weight));
    qkv_tensor *along = qkv_sum(t, qkv_mul(t, y, both));
    qkv_real value = qkv_item(t, unlike) + (qkv_real)weight * qkv_item(t, g) - qkv_item(t, along);
    return qkv_add(t, along, qkv_tensor_from(t, &value, 0, NULL));
}

/* Keeps what was decoded for the discriminator's phase. */
static bool codes_remember(codes_task *s, qkv_tape *t, qkv_tensor *y, size_t first, size_t total)
{
    size_t n = qkv_count(y), each = n / qkv_dim(y, 0);
    if (!qkv__grow(s->base.ctx, &s->decoded, &s->room, total * each, sizeof *s->decoded))
        return false;
    memcpy(s->decoded + first * each, qkv_data(t, y), n * sizeof *s->decoded);
    return true;
}

static qkv_tensor *generator(codes_task *s, qkv_tape *t, qkv_tensor *x, const qkv_micro_batch *part)
{
    double share = share_at(s, part->step);
    qkv_tensor *price, *y;
    s->with_discriminator = share > 0;
    freeze(s, GENERATOR);
    y = reconstruct(s, t, x, part, &price);
    if (!y)
        return NULL;
    qkv_tensor *unlike = qkv__codes_unlike(s->lpips, s->o.perceptual, t, y, x, part);
    if (s->o.squared > 0) {
        qkv_tensor *squared = qkv_mse_loss(t, y, x);
        qkv__report(part, "squared", t, squared);
        unlike = qkv_add(t, unlike, qkv_scale(t, squared, s->o.squared));
    }
    qkv__report(part, "codebook", t, price);
    if (share > 0 && !s->o.second && !codes_remember(s, t, y, part->first, part->total))
        return NULL;
    return qkv_add(t, share > 0 ? with_discriminator(s, t, y, unlike, part) : unlike,
                   qkv_scale(t, price, s->o.codebook));
}

/* ---- the discriminator -------------------------------------------------------------------- */

/* mean max(0, 1 - sign x), or mean log(1 + e^(-sign x)) */
static qkv_tensor *doubt(const codes_task *s, qkv_tape *t, qkv_tensor *x, double sign)
{
    if (!x)
        return NULL;
    if (s->o.disc_loss == QKV_GAN_VANILLA) {
        size_t shape[QKV_MAX_DIMS];
        for (int i = 0; i < qkv_ndim(x); i++)
            shape[i] = qkv_dim(x, i);
        qkv_tensor *truth = qkv_tensor_from(t, NULL, qkv_ndim(x), shape);
        for (size_t i = 0; truth && i < qkv_count(truth); i++)
            qkv_tensor_fill(truth)[i] = sign > 0;
        return qkv_bce_with_logits_loss(t, x, truth);
    }
    const qkv_real one = 1;
    qkv_tensor *y = qkv_add(t, qkv_scale(t, x, -sign), qkv_tensor_from(t, &one, 0, NULL));
    return qkv_mean(t, qkv_activate(t, y, QKV_ACT_RELU));
}

static qkv_tensor *discriminator(codes_task *s, qkv_tape *t, qkv_tensor *x,
                                 const qkv_micro_batch *part)
{
    qkv_tensor *y = NULL, *price;
    freeze(s, DISCRIMINATOR);
    if (s->o.second) {
        y = reconstruct(s, t, x, part, &price);
        y = y ? qkv_detach(t, y) : NULL;
    } else {
        size_t shape[] = {part->count, qkv_dim(x, 1), qkv_dim(x, 2), qkv_dim(x, 3)};
        size_t each = shape[1] * shape[2] * shape[3];
        y = qkv_tensor_from(t, s->decoded + part->first * each, 4, shape);
    }
    /* What batch norms keep depends on the order: the true ones first, as by the authors. */
    qkv_tensor *of_true = doubt(s, t, qkv_vqgan_discriminate(s->base.model, t, x), 1);
    qkv_tensor *of_decoded = doubt(s, t, qkv_vqgan_discriminate(s->base.model, t, y), -1);
    qkv__report(part, "real", t, of_true);
    qkv__report(part, "fake", t, of_decoded);
    return qkv_scale(t, qkv_add(t, of_true, of_decoded), 0.5 * (share_at(s, part->step) > 0));
}

/* ---- the task ----------------------------------------------------------------------------- */

/* The authors' code goes through the motions before the discriminator takes part, and so counts
 * its optimiser's steps. */
static bool idle(void *self, uint64_t step, int phase)
{
    const codes_task *s = self;
    return phase == DISCRIMINATOR && !s->o.second && share_at(s, step) == 0;
}

static qkv_tensor *codes_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    codes_task *s = self;
    double begun = qkv_now();
    qkv_tensor *x = qkv__images_tensor(t, s->base.train, part->count);
    if (!x || qkv_batches_get(s->base.batches, qkv__first_sample(part), part->count,
                              qkv_tensor_fill(x), NULL, NULL))
        return NULL;
    qkv__add_data_time(part, begun);
    qkv_tensor *y = part->phase == GENERATOR ? generator(s, t, x, part)
                                             : discriminator(s, t, x, part);
    return qkv__share_of_batch(t, y, part);
}

static qkv_status task_codes_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    codes_task *s = self;
    qkv_codes_score score;
    qkv_status status = qkv_codes_evaluate(s->base.model, s->lpips, s->o.perceptual, t,
                                           s->base.valid, limit, &score);
    /* newest: what the discriminator asks for costs distance; how much it may cost says nobody */
    *out = (qkv_metrics){.item = {{"loss", score.loss}, {"psnr", score.psnr},
                                  {"ssim", score.ssim}, {"codes_used", score.used},
                                  {"perplexity", score.perplexity}},
                         .count = 5, .newest = s->with_discriminator, .scored = score.images,
                         .units = qkv_pixels_count(s->base.valid)};
    return status;
}

static double codes_count(const codes_task *s, const qkv_model *m, qkv_pass pass,
                          qkv_model_part part)
{
    return qkv_model_flops(m, &(qkv_workload){.pass = pass, .part = part, .samples = 1,
                                              .height = qkv_pixels_height(s->base.train),
                                              .width = qkv_pixels_width(s->base.train)});
}

/* As the last step was, whose discriminator may not have begun. */
static double codes_flops(void *self)
{
    const codes_task *s = self;
    double sum = codes_count(s, s->base.model, QKV_PASS_TRAIN, QKV_PART_WHOLE);
    if (s->lpips && s->o.perceptual > 0)
        sum += codes_count(s, s->lpips, QKV_PASS_INPUT, QKV_PART_WHOLE) +
               codes_count(s, s->lpips, QKV_PASS_FORWARD, QKV_PART_WHOLE);
    if (s->with_discriminator) /* asked in the generator's phase; about both images in its own */
        sum += codes_count(s, s->base.model, QKV_PASS_INPUT, QKV_PART_DISCRIMINATOR) +
               2 * codes_count(s, s->base.model, QKV_PASS_TRAIN, QKV_PART_DISCRIMINATOR) +
               (s->o.second ? codes_count(s, s->base.model, QKV_PASS_FORWARD, QKV_PART_WHOLE) : 0);
    return sum;
}

static void codes_destroy(void *self)
{
    codes_task *s = self;
    qkv_params *ps = qkv_model_params(s->base.model);
    for (size_t i = 0; s->trains && i < qkv_params_count(ps); i++)
        qkv_param_freeze(qkv_params_at(ps, i), !s->trains[i]);
    qkv_free(s->base.ctx, s->trains);
    qkv_free(s->base.ctx, s->decoded);
    qkv_free(s->base.ctx, s->moves);
    qkv_free(s->base.ctx, s->coded.z);
    qkv_free(s->base.ctx, s->coded.ids);
    qkv__image_task_destroy(s);
}

static const qkv_task_type codes_type = {.name = "codes", .unit = "images", .phases = 2,
                                         .loss = codes_loss, .evaluate = task_codes_evaluate,
                                         .flops = codes_flops, .end_phase = codes_end_phase,
                                         .idle = idle, .destroy = codes_destroy};

/* Which parameters move at all. Codes that are running means are not the optimiser's. */
static bool find_moving(codes_task *s)
{
    qkv_params *ps = qkv_model_params(s->base.model);
    s->trains = qkv_calloc(s->base.ctx, qkv_params_count(ps) + 1, sizeof *s->trains);
    for (size_t i = 0; s->trains && i < qkv_params_count(ps); i++)
        s->trains[i] = !qkv_param_frozen(qkv_params_at(ps, i));
    if (s->trains && s->o.decay > 0)
        qkv_param_freeze(qkv_vqgan_codebook(s->base.model), true);
    return s->trains != NULL;
}

static qkv_status codes_check_options(const codes_task *s)
{
    const qkv_vqgan_config *c = qkv_model_config(s->base.model);
    if (qkv_augment_mixes(&s->o.augment))
        return qkv_fail(s->base.ctx, QKV_E_ARGUMENT, "images that are to be coded are not mixed");
    if (s->o.adversarial > 0 && !c->disc_layers)
        return qkv_fail(s->base.ctx, QKV_E_ARGUMENT, "an adversarial weight of %g, and the model "
                        "has no discriminator (disc_num_layers 0)", s->o.adversarial);
    return QKV_OK;
}

qkv_status qkv_task_codes(qkv_task *out, qkv_model *model, qkv_model *lpips,
                          const qkv_pixels *train, const qkv_pixels *valid,
                          const qkv_codes_options *options, uint64_t seed)
{
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_ENCODE_IMAGES) ||
        (lpips && !qkv__model_as(lpips, NULL, __func__, QKV_CAN_COMPARE_IMAGES)))
        return QKV_E_ARGUMENT;
    qkv_status status = qkv__codes_check(model, train, "training");
    if (!status && valid)
        status = qkv__codes_check(model, valid, "held-out");
    codes_task *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    s->lpips = lpips;
    s->o = options ? *options : qkv_codes_defaults();
    status = qkv__image_task_init(&s->base, model, train, valid, seed,
                                  (qkv_batches_options){.augment = s->o.augment}, NULL);
    if (!status)
        status = codes_check_options(s);
    if (!status)
        status = find_moving(s) ? QKV_OK : QKV_E_MEMORY;
    return qkv__task_finish(out, status,
                            (qkv_task){&codes_type, s, model, seed, valid != NULL});
}
