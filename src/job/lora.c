/* lora.c - training an adapter instead of the model: --lora. */
#include "job/lora.h"

#include "hub/adapter.h"
#include "model/adapter.h"
#include "qkv/gguf.h"

static qkv_status parse(qkv_context *ctx, const char *lora, qkv_lora_config *c,
                        qkv_options **owner)
{
    qkv_status status = qkv_lora_parse(c, owner, ctx, lora ? lora : "default");
    return status ? qkv_fail_prefix(ctx, "--lora") : QKV_OK;
}

qkv_status qkv__lora_check(qkv_context *ctx, const char *lora)
{
    qkv_lora_config c;
    qkv_options *owner = NULL;
    qkv_status status = parse(ctx, lora, &c, &owner);
    qkv_options_destroy(owner);
    return status;
}

/* Modules to train whole. */
static qkv_status add_module(void *user, const qkv_state_entry *row)
{
    qkv_str *list = user;
    char module[QKV__MODULE_NAME];
    if (qkv__module_of(module, row->name) && !qkv__module_listed(list->data, module))
        qkv_str_printf(list, "%s%s", list->len ? "+" : "", module);
    return QKV_OK;
}

static void tell(qkv_model *m, const qkv_adapter *a)
{
    size_t all = qkv_params_elements(qkv_model_params(m)), own = qkv_adapter_elements(a);
    const char *modules = a->config.modules ? a->config.modules : "";
    qkv__note(qkv_model_context(m), "LoRA, rank %zu, on %zu matrices: %zu of %zu numbers are "
              "trained%s%s", a->config.rank, qkv_adapter_matrices(a), own, all,
              *modules ? "; whole: " : "", modules);
}

qkv_status qkv__lora_begin(qkv_model *m, const char *lora, const char *init, uint64_t seed)
{
    qkv_context *ctx = qkv_model_context(m);
    qkv_lora_config c;
    qkv_options *owner = NULL;
    qkv_adapter *a;
    qkv_str modules;
    if (qkv_gguf_is(init))
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "--lora: a model directory expected, found %s: "
                        "`qkv convert %s DIR` makes one of it", init, init);
    if (qkv__hub_is_adapter(init))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--lora: %s is an adapter already: without --lora it "
                        "is trained on; `qkv convert --merge` makes a model of it", init);
    qkv_str_init(&modules, ctx);
    qkv_status status = parse(ctx, lora, &c, &owner);
    if (!status && c.modules)
        qkv_str_printf(&modules, "%s", c.modules);
    if (!status)
        status = qkv__hub_visit_lacking(m, init, add_module, &modules, NULL);
    c.modules = modules.data;
    if (!status)
        status = modules.failed ? QKV_E_MEMORY : qkv_model_add_lora(&a, m, &c, seed);
    if (!status)
        status = qkv_adapter_set_base(a, init);
    if (!status)
        tell(m, a);
    qkv_str_free(&modules);
    qkv_options_destroy(owner);
    return status;
}

qkv_status qkv__lora_reopen(qkv_model **out, qkv_context *ctx, const char *dir, const char *lora)
{
    qkv_lora_config c;
    qkv_options *owner = NULL;
    qkv_status status = parse(ctx, lora, &c, &owner);
    qkv_options_destroy(owner);
    if (!status)
        status = qkv_hub_load_stored(out, ctx, dir, c.weights);
    if (!status)
        tell(*out, qkv_model_adapter(*out, 0));
    return status;
}
