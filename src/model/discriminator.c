/* discriminator.c - the patch discriminator: strided convolutions that say of every patch of an
 * image whether it is real (Isola et al. 2017). */
#include <stdio.h>

#include "model/discriminator.h"
#include "tensor/make.h"

enum { WINDOW = 4, MOST = 8 }; /* MOST: times the first channels */
static const double DEVIATION = 0.02; /* of initial weights */
const char qkv__discriminator_prefix[] = "loss.discriminator.main.";

static const qkv_conv_options halve = {.stride = 2, .top = 1, .left = 1, .bottom = 1, .right = 1};
static const qkv_conv_options keep = {.stride = 1, .top = 1, .left = 1, .bottom = 1, .right = 1};

/* Where convolution i stands in the sequence of layers, and the norm behind it: an activation
 * follows the first, norm and activation each of the others. */
static size_t discriminator_place(size_t i) { return i ? 3 * i - 1 : 0; }

static void name_at(char name[64], size_t at)
{
    (void)snprintf(name, 64, "%s%zu", qkv__discriminator_prefix, at);
}

static bool is_last(const qkv__discriminator *j, size_t i) { return i == j->layers + 1; }

bool qkv__discriminator_make(qkv__discriminator *j, qkv_params *ps, const qkv_vqgan_config *c)
{
    size_t in = c->colors, times = 1;
    char name[64];
    bool fine = true;
    *j = (qkv__discriminator){.layers = c->disc_layers};
    for (size_t i = 0; j->layers && i < j->layers + 2 && fine; i++) {
        size_t out = is_last(j, i) ? 1 : c->disc_channels * times;
        bool plain = i == 0 || is_last(j, i); /* no norm, so a bias */
        name_at(name, discriminator_place(i));
        fine = qkv__conv_make(&j->conv[i], ps, name, in, out, WINDOW, plain);
        name_at(name, discriminator_place(i) + 1);
        if (fine && !plain)
            fine = qkv_batch_norm_create(&j->norm[i - 1], ps, name, out);
        in = out;
        times = times < MOST ? 2 * times : MOST;
    }
    return fine;
}

/* A visitor of rows whose names are whole, with the visit's own function. */
static void visit_norm(qkv__visit *v, const qkv_batch_norm_layer *b, const char *name)
{
    if (!v->status)
        v->status = qkv_batch_norm_visit(b, name, v->fn, v->user);
}

void qkv__discriminator_visit(const qkv__discriminator *j, qkv__visit *v)
{
    char name[64];
    v->name[0] = 0;
    for (size_t i = 0; j->layers && i < j->layers + 2; i++) {
        name_at(name, discriminator_place(i));
        qkv__visit_conv(v, name, &j->conv[i], DEVIATION);
        name_at(name, discriminator_place(i) + 1);
        if (i && !is_last(j, i))
            visit_norm(v, &j->norm[i - 1], name);
    }
}

qkv_tensor *qkv__discriminator_forward(const qkv__discriminator *j, qkv_tape *t, qkv_tensor *x)
{
    for (size_t i = 0; i < j->layers + 2; i++) {
        qkv_tensor *before = i == 1 ? x : NULL;
        qkv__for_products(t, i == 0); /* without a norm: the next layer alone reads it */
        x = qkv__conv_forward(&j->conv[i], t, x, i < j->layers ? &halve : &keep);
        qkv__let_go(t, before);
        if (i && !is_last(j, i))
            x = qkv_batch_norm_forward(&j->norm[i - 1], t, x);
        if (!is_last(j, i))
            x = qkv_activate(t, x, QKV_ACT_LEAKY_RELU);
        qkv__for_products(t, false);
    }
    return x;
}

double qkv__discriminator_flops(const qkv__discriminator *j, double images, size_t height,
                                size_t width, int passes)
{
    double sum = 0;
    for (size_t i = 0; j->layers && i < j->layers + 2; i++) {
        height = i < j->layers ? height / 2 : height - 1;
        width = i < j->layers ? width / 2 : width - 1;
        sum += qkv__conv_flops(&j->conv[i], images * (double)height * (double)width,
                               i || passes < 3 ? passes : 2);
    }
    return sum;
}
