/* test_packed.c - a directory whose matrices compressed-tensors packed, under random changes of its
 * tensors or of its config.json, which says how they are packed. */
#include <sys/stat.h>

#include "fuzz.h"
#include "qkv/hub.h"
#include "qkv/model.h"

#define GOLDEN(name) QKV_SOURCE_DIR "/tests/golden/quantized/tiny/" name

static void link_file(const char *dir, const char *name, const char *target)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    (void)unlink(path);
    if (target && symlink(target, path))
        abort();
}

/* A text is config.json, anything else the tensors; the other file is as it was. */
static qkv_status read_packed(qkv_context *c, const char *path)
{
    char dir[100];
    FILE *f = fopen(path, "rb");
    bool text = f && fgetc(f) == '{';
    if (!f || fclose(f))
        abort();
    (void)snprintf(dir, sizeof dir, "%s.dir", path);
    (void)mkdir(dir, 0700);
    link_file(dir, "config.json", text ? path : GOLDEN("config.json"));
    link_file(dir, "model.safetensors", text ? GOLDEN("model.safetensors") : path);
    qkv_model *m = NULL;
    qkv_status status = qkv_hub_load_stored(&m, c, dir, QKV_WEIGHTS_AUTO);
    qkv_model_destroy(m);
    link_file(dir, "config.json", NULL);
    link_file(dir, "model.safetensors", NULL);
    (void)rmdir(dir);
    return status;
}

const fuzz_target fuzz = {
    .read = read_packed,
    .seeds = {GOLDEN("model.safetensors")},
    .texts = {"{\"quantization_config\": {\"config_groups\": {\"group_0\": {\"input_activations\": "
              "null, \"output_activations\": null, \"targets\": [\"Linear\"], \"weights\": {"
              "\"group_size\": 32, \"num_bits\": 4, \"strategy\": \"group\", \"symmetric\": true, "
              "\"type\": \"int\"}}}, \"format\": \"pack-quantized\", \"ignore\": [\"lm_head\"], "
              "\"quant_method\": \"compressed-tensors\"}, \"model_type\": \"llama\", "
              "\"hidden_size\": 32, \"intermediate_size\": 32, \"num_attention_heads\": 2, "
              "\"num_key_value_heads\": 1, \"head_dim\": 16, \"num_hidden_layers\": 1, "
              "\"vocab_size\": 8, \"max_position_embeddings\": 24, \"rms_norm_eps\": 0.01, "
              "\"tie_word_embeddings\": false, \"hidden_act\": \"silu\"}"},
    .rounds = 4000,
};
