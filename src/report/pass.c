/* pass.c - one pass of a model over an input, with probes of the caller's. */
#include "pipeline/changing.h"
#include "report/looking.h"
#include "tensor/make.h"

/* A probe that matches nothing is a mistake: it would say nothing. */
static qkv_status probes_check(const qkv_pipeline *p, size_t from)
{
    const char *place = qkv__probe_unmet(p->tape, from);
    return place ? qkv__no_such_place(p, place) : QKV_OK;
}

static qkv_status pass_run(qkv__looking *l, qkv_pipeline_pass_fn *begin, void *user)
{
    qkv_tape *t = l->p->tape;
    size_t own = 0; /* probes that are not the caller's */
    qkv_status status = qkv__look_suits(l);
    if (!status)
        status = qkv__changes_read(&l->changes, l->p->ctx, &l->o.changes);
    if (!status)
        status = l->kind->prepare(l);
    if (!status && l->changes) /* first: the probes see what they make */
        status = qkv_changes_apply(l->changes, t);
    if (!status) {
        own = qkv__probe_count(t);
        status = begin(user, t);
    }
    if (!status)
        status = l->kind->run(l);
    if (!status)
        status = qkv__changes_check(l->p, l->changes);
    if (!status)
        status = probes_check(l->p, own);
    qkv_probes_clear(t);
    return status;
}

qkv_status qkv_pipeline_pass(qkv_pipeline *p, const qkv_look_input *in,
                             const qkv_pipeline_look_options *options,
                             qkv_pipeline_pass_fn *begin, void *user)
{
    qkv_look look = {.ctx = p->ctx, .kind = qkv_model_type_name(qkv_model_type_of(p->model))};
    qkv__looking l = {.p = p, .kind = qkv__look_kind_of(p, in), .in = in, .out = &look,
                      .o = options ? *options : qkv_pipeline_look_defaults()};
    if (!l.kind)
        return qkv__pipeline_refuse(p, "let activations be read");
    qkv_status status = pass_run(&l, begin, user);
    qkv__look_end(&l);
    qkv_look_free(&look);
    return status;
}
