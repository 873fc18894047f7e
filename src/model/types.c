/* types.c - the list of model types, what they say of themselves, and the check that a function got
 * a model that it takes. */
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "qkv/bert.h"
#include "qkv/dense.h"
#include "qkv/forecast.h"
#include "qkv/gpt.h"
#include "qkv/mae.h"
#include "qkv/marian.h"
#include "qkv/perceptual.h"
#include "qkv/vit.h"
#include "qkv/vqgan.h"
#include "tensor/make.h"

static const qkv_model_type *const types[] = {&qkv_gpt2_type, &qkv_llama_type,
                                              &qkv_bert_masked_type, &qkv_bert_classifier_type,
                                              &qkv_marian_type, &qkv_translator_type,
                                              &qkv_forecast_type, &qkv_vit_type, &qkv_cct_type,
                                              &qkv_segmenter_type, &qkv_colorizer_type,
                                              &qkv_mae_type, &qkv_vqgan_type,
                                              &qkv_perceptual_type, &qkv_prior_type};
enum { TYPES = sizeof types / sizeof *types };

/* ---- finding ------------------------------------------------------------------------------ */

const qkv_model_type *qkv_model_type_at(const qkv_context *ctx, size_t i)
{
    return i < TYPES ? types[i] : ctx ? qkv__context_type_at(ctx, i - TYPES) : NULL;
}

const qkv_model_type *qkv_model_type_find(const qkv_context *ctx, const char *name,
                                          const char *architecture)
{
    const qkv_model_type *first = NULL, *type;
    for (size_t i = 0; (type = qkv_model_type_at(ctx, i)); i++) {
        if (strcmp(type->name, name) != 0)
            continue;
        if (architecture && strcmp(qkv_model_type_architecture(type), architecture) == 0)
            return type;
        first = first ? first : type;
    }
    return first;
}

static bool is_ours(const qkv_model_type *type)
{
    size_t i = 0;
    while (i < TYPES && types[i] != type)
        i++;
    return i < TYPES;
}

qkv_status qkv__model_type_check(qkv_context *ctx, const qkv_model_type *type)
{
    if (!type || !type->name || !type->make)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "model type %s: a name and make are required",
                        type && type->name ? type->name : "?");
    if ((type->can || type->lm) && !is_ours(type))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "model type %s: can and lm are for the library's own "
                        "types: 0 expected", type->name);
    if (type->config_size && !type->config)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "model type %s: a configuration of %zu bytes without "
                        "a table that describes it", type->name, type->config_size);
    return QKV_OK;
}

qkv_status qkv_model_type_register(qkv_context *ctx, const qkv_model_type *type)
{
    qkv_status status = qkv__model_type_check(ctx, type);
    const char *architecture = status ? NULL : qkv_model_type_architecture(type);
    const qkv_model_type *other = status ? NULL
                                         : qkv_model_type_find(ctx, type->name, architecture);
    if (status || other == type)
        return status;
    if (other && strcmp(qkv_model_type_architecture(other), architecture) == 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "model type %s: there is one with this architecture",
                        type->name);
    return qkv__context_add_type(ctx, type);
}

qkv_model_type qkv_model_type_defaults(const char *name, qkv_status (*make)(qkv_model *m),
                                       size_t self_size)
{
    return (qkv_model_type){.name = name, .make = make, .self_size = self_size};
}

/* ---- what a type says of itself ------------------------------------------------------------- */

const char *qkv_model_type_name(const qkv_model_type *type) { return type->name; }
size_t qkv_model_type_config_size(const qkv_model_type *type) { return type->config_size; }

const char *qkv_model_type_architecture(const qkv_model_type *type)
{
    return type->architecture ? type->architecture : type->name;
}

const char *qkv_model_type_prefix(const qkv_model_type *type)
{
    return type->prefix ? type->prefix : "";
}

const qkv_option_table *qkv_model_type_config(const qkv_model_type *type)
{
    static const qkv_option_table empty = {"Model", NULL, 0};
    return type->config ? type->config : &empty;
}

const char *qkv_model_type_preset_name(const qkv_model_type *type, size_t i, const char **summary)
{
    return type->preset ? type->preset(type, i, summary, NULL) : NULL;
}

bool qkv_model_type_preset(const qkv_model_type *type, const char *name, void *config)
{
    const char *at;
    for (size_t i = 0; (at = qkv_model_type_preset_name(type, i, NULL)); i++)
        if (strcmp(at, name) == 0)
            return type->preset(type, i, NULL, config) != NULL;
    return false;
}

const qkv__named_size *qkv__size_at(const qkv__named_size *list, size_t i, const char **summary)
{
    size_t count = 0;
    while (list[count].name)
        count++;
    if (i < count && summary)
        *summary = list[i].summary;
    return i < count ? &list[i] : NULL;
}

double qkv__flops(qkv_pass pass, double products, double attention)
{
    return 2 * qkv__passes(pass) * products + (pass == QKV_PASS_FORWARD ? 1 : 3.5) * attention;
}

int qkv__passes(qkv_pass pass) { return 3 - (int)pass; }

/* ---- is a model of a kind? ------------------------------------------------------------------ */

void *qkv__model_as(const qkv_model *m, qkv_tape *t, const char *function, unsigned capabilities)
{
    if (m->type->can & capabilities)
        return m->self;
    char takes[160] = "";
    for (size_t i = 0, n = 0; i < TYPES && n < sizeof takes; i++)
        if (types[i]->can & capabilities)
            n += (size_t)snprintf(takes + n, sizeof takes - n, "%s%s", n ? " or " : "",
                                  types[i]->architecture);
    if (!t || !qkv_tape_status(t)) {
        qkv_status status = qkv_fail(m->ctx, QKV_E_ARGUMENT, "%s takes a %s, not a %s", function,
                                     takes, qkv_model_type_architecture(m->type));
        if (t)
            (void)qkv__take_status(t, status);
    }
    return NULL;
}
