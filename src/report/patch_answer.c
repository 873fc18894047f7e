/* patch_answer.c - what activation patching measures: an answer of the model at a place. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/patching.h"

/* ---- measuring ------------------------------------------------------------------------------- */

static double log_sum(const qkv_real *logits, size_t n)
{
    double most = (double)logits[0], sum = 0;
    for (size_t k = 0; k < n; k++)
        most = fmax(most, (double)logits[k]);
    for (size_t k = 0; k < n; k++)
        sum += exp((double)logits[k] - most);
    return most + log(fmax(sum, 1)); /* the largest adds 1 */
}

double qkv__patch_measure(const qkv__patching *j, const qkv_real *one)
{
    double answer = (double)one[j->answer];
    if (j->other < j->choices)
        return answer - (double)one[j->other];
    return j->patch->numbers ? answer : answer - log_sum(one, j->choices);
}

static size_t patch_likeliest(const qkv_real *one, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = one[i] > one[best] ? i : best;
    return best;
}

/* How far the outputs of the inputs are from each other at a place. */
static double distance_at(const qkv__patching *j, size_t place)
{
    size_t n = j->choices;
    const qkv_real *a = j->outputs[0] + place * n, *b = j->outputs[1] + place * n;
    size_t best = patch_likeliest(a, n);
    double most = 0;
    if (!j->patch->numbers)
        return fabs((double)a[best] - log_sum(a, n) - (double)b[best] + log_sum(b, n));
    for (size_t k = 0; k < n; k++)
        most = fmax(most, fabs((double)a[k] - (double)b[k]));
    return most;
}

/* ---- what is measured, and where ------------------------------------------------------------- */

/* "X,Y" in an image of so many pixels. */
static qkv_status patch_pixel(const qkv__patching *j, size_t places, size_t columns, size_t *at)
{
    char *end;
    unsigned long column = strtoul(j->o.pixel, &end, 10), row = 0;
    bool fine = columns && *end == ',';
    if (fine)
        row = strtoul(end + 1, &end, 10);
    if (!fine || *end || j->o.pixel[0] == '-' || column >= columns || row >= places / columns)
        return qkv_fail(j->p->ctx, QKV_E_ARGUMENT, columns ? "--pixel: X,Y in an image of "
                        "%zu x %zu expected, found %.60s" : "--pixel: the model does not answer "
                        "at pixels", columns, columns ? places / columns : 0, j->o.pixel);
    *at = row * columns + column;
    return QKV_OK;
}

/* j->at; *everywhere: where the inputs differ most, which the passes show. */
qkv_status qkv__patch_where(qkv__patching *j, bool *everywhere)
{
    size_t columns = 0, places = j->patch->places ? j->patch->places(&j->clean, &columns) : 1;
    *everywhere = false;
    if (j->o.pixel)
        return patch_pixel(j, places, columns, &j->at);
    if (j->o.at >= 0 && (size_t)j->o.at >= places)
        return qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "--at: a %s below %zu expected, found %d",
                        j->patch->place ? j->patch->place : "place", places, j->o.at);
    if (j->o.at >= 0 || places == 1) {
        j->at = j->o.at >= 0 ? (size_t)j->o.at : 0;
        return QKV_OK;
    }
    *everywhere = !j->patch->usual;
    return j->patch->usual ? j->patch->usual(&j->clean, &j->corrupt, &j->at) : QKV_OK;
}

/* The place where outputs differ most becomes j->at; outputs then are of it alone. */
void qkv__patch_choose(qkv__patching *j)
{
    double most = -1;
    for (size_t i = 0; i < j->places; i++) {
        double d = !j->patch->answers || j->patch->answers(&j->clean, i) ? distance_at(j, i) : -1;
        if (d > most) {
            most = d;
            j->at = i;
        }
    }
    for (int i = 0; i < 2; i++)
        memmove(j->outputs[i], j->outputs[i] + j->at * j->choices,
                j->choices * sizeof *j->outputs[i]);
}

/* The choice that a text names. */
static qkv_status patch_choice(qkv__patching *j, const char *flag, const char *text, size_t *choice)
{
    if (j->patch->choice)
        return j->patch->choice(&j->clean, flag, text, j->choices, choice);
    for (*choice = 0; *choice < j->choices; ++*choice) {
        char *name = j->patch->name(&j->clean, *choice);
        bool found = name && strcmp(name, text) == 0;
        qkv_free(j->p->ctx, name);
        if (!name || found)
            return name ? QKV_OK : QKV_E_MEMORY;
    }
    char *first = j->patch->name(&j->clean, 0);
    qkv_status status = qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "%s: one of %zu names such as "
                                 "\"%.60s\" expected, found \"%.60s\"", flag, j->choices,
                                 first ? first : "", text);
    qkv_free(j->p->ctx, first);
    return status;
}

/* The choice that is measured where none is named: of numbers one that differs most. */
static size_t usual_answer(const qkv__patching *j)
{
    size_t best = j->choices;
    double most = -1;
    if (!j->patch->numbers)
        return patch_likeliest(j->outputs[0], j->choices);
    for (size_t i = 0; i < j->choices; i++) {
        double d = fabs((double)j->outputs[0][i] - (double)j->outputs[1][i]);
        if (d > most && (i != j->other || j->choices == 1)) {
            most = d;
            best = i;
        }
    }
    return best < j->choices ? best : 0;
}

qkv_status qkv__patch_answer(qkv__patching *j)
{
    qkv_status status = QKV_OK;
    j->other = j->choices;
    if (j->o.other)
        status = patch_choice(j, "--other", j->o.other, &j->other);
    if (!status && j->o.answer)
        status = patch_choice(j, "--answer", j->o.answer, &j->answer);
    if (status)
        return status;
    if (!j->o.answer)
        j->answer = usual_answer(j);
    j->out->clean = qkv__patch_measure(j, j->outputs[0]);
    j->out->corrupt = qkv__patch_measure(j, j->outputs[1]);
    return QKV_OK;
}

/* ---- names of the result --------------------------------------------------------------------- */

static qkv_status add_outcome(qkv__patching *j, size_t choice)
{
    qkv_patch *out = j->out;
    qkv_patch_outcome *o = &out->outcomes[out->outcome_count];
    double value[2];
    for (int i = 0; i < 2; i++)
        value[i] = j->patch->numbers ? (double)j->outputs[i][choice]
                                     : exp((double)j->outputs[i][choice] -
                                           log_sum(j->outputs[i], j->choices));
    *o = (qkv_patch_outcome){j->patch->name(&j->clean, choice), value[0], value[1]};
    out->outcome_count += o->name != NULL;
    return o->name ? QKV_OK : QKV_E_MEMORY;
}

/* The choices that are likeliest for either input, each once; of numbers the first. */
static qkv_status add_outcomes(qkv__patching *j)
{
    size_t taken[QKV_PATCH_OUTCOMES], count = 0;
    while (count < QKV_PATCH_OUTCOMES && count < j->choices) {
        const qkv_real *from = j->outputs[count % 2];
        size_t best = j->choices;
        for (size_t i = 0; i < j->choices; i++) {
            bool had = false;
            for (size_t k = 0; k < count; k++)
                had = had || taken[k] == i;
            if (!had && (best == j->choices || (!j->patch->numbers && from[i] > from[best])))
                best = i;
        }
        taken[count++] = best;
        qkv_status status = add_outcome(j, best);
        if (status)
            return status;
    }
    return QKV_OK;
}

qkv_status qkv__patch_name(qkv__patching *j)
{
    qkv_context *ctx = j->p->ctx;
    qkv_patch *out = j->out;
    const char *place = j->patch->place ? j->patch->place : "the output";
    char where[96];
    size_t columns = 0, places = j->patch->places ? j->patch->places(&j->clean, &columns) : 0;
    if (columns)
        (void)snprintf(where, sizeof where, "%s %zu,%zu", place, j->at % columns,
                       j->at / columns);
    else if (places)
        (void)snprintf(where, sizeof where, "%s %zu", place, j->at);
    else
        (void)snprintf(where, sizeof where, "%s", place);
    out->answer = j->patch->name(&j->clean, j->answer);
    out->place = qkv_strdup(ctx, j->o.place);
    out->where = qkv_strdup(ctx, where);
    if (j->other < j->choices && !(out->other = j->patch->name(&j->clean, j->other)))
        return QKV_E_MEMORY;
    out->heads = j->o.heads;
    out->numbers = j->patch->numbers;
    return out->answer && out->place && out->where ? add_outcomes(j) : QKV_E_MEMORY;
}

