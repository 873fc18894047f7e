/* 18_ablate_head.c - a head of a Vision Transformer: captured, drawn over an image, taken out.
 *
 * A capture stores where the first token attends to; the weights of a head over the image become
 * ./head.png. A probe that replaces the head's output by zeros shows what depends on it: the
 * probabilities of the classes with and without it. The model is untrained and the image is drawn;
 * models of directories (qkv_hub_load) and images of files (qkv_image_read, qkv_image_fit) are
 * looked into the same way. */
#include <stdio.h>

#include <qkv.h>

enum { SIDE = 64, PATCH = 16, ACROSS = SIDE / PATCH, PATCHES = ACROSS * ACROSS, CLASSES = 3 };

/* x (B, T, heads, width) times 0 at the head, 1 elsewhere. */
static qkv_tensor *ablate(void *head, qkv_tape *t, const char *name, qkv_tensor *x)
{
    const size_t shape[2] = {qkv_dim(x, 2), 1};
    qkv_tensor *kept = qkv_tensor_from(t, NULL, 2, shape);
    for (size_t i = 0; kept && i < shape[0]; i++) qkv_tensor_fill(kept)[i] = i != *(size_t *)head;
    printf("%s: head %zu taken out\n", name, *(size_t *)head);
    return qkv_mul(t, x, kept);
}

/* Prints the classes' probabilities; the first one is returned. */
static double classify(qkv_model *m, qkv_tape *t, const qkv_image *image)
{
    const size_t shape[4] = {1, SIDE, SIDE, 3};
    qkv_tape_reset(t);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    for (size_t i = 0; x && i < SIDE * SIDE * 3; i++)
        qkv_tensor_fill(x)[i] = (qkv_real)(image->data[i] / 127.5 - 1);
    const qkv_real *p = qkv_data(t, qkv_softmax(t, qkv_vit_logits(m, t, x)));
    for (size_t i = 0; p && i < CLASSES; i++) printf("class %zu: %.4f\n", i, (double)p[i]);
    return p ? (double)p[0] : -1;
}

int main(void)
{
    qkv_capture_options what = qkv_capture_defaults();
    qkv_vit_config c;
    static qkv_heat_map map;
    qkv_image image;
    qkv_real row[1 + PATCHES];
    float cells[PATCHES];
    size_t head = 2;
    qkv_context *ctx; qkv_tape *t; qkv_model *m; qkv_capture *capture; qkv_drawing *d;
    qkv_safetensors *file;
    qkv_option_defaults(qkv_model_type_config(qkv_vit_type()), &c);
    (void)qkv_model_type_preset(qkv_vit_type(), "nano", &c);
    c.trunk.image = SIDE, c.trunk.heads = 4, c.classes = CLASSES;
    what.file = "head.safetensors", what.attentions = true, what.head = (int)head, what.rows = 1;
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx) ||
        qkv_model_create(&m, ctx, qkv_vit_type(), &c) || qkv_model_init(m, 1) ||
        qkv_image_create(&image, ctx, SIDE, SIDE, 3) ||
        qkv_capture_open(&capture, ctx, t, &what)) return 1;
    for (size_t i = 0; i < SIDE * SIDE * 3; i++) image.data[i] = (uint8_t)(i / 3 % SIDE * (i % 3));
    const double whole = classify(m, t, &image);
    if (qkv_capture_close(capture) || qkv_safetensors_open(&file, ctx, what.file) ||
        qkv_safetensors_read(file, qkv_safetensors_at(file, 0), 0, 1 + PATCHES, row) ||
        qkv_drawing_create(&d, ctx, 360, 320)) return 2;
    for (size_t i = 0; i < PATCHES; i++) cells[i] = (float)row[1 + i];
    map.values = cells, map.rows = map.columns = ACROSS, map.beneath = &image;
    qkv_draw_heat(d, NULL, &map);
    const qkv_status drawn = qkv_drawing_save(d, "head.png");
    if (qkv_probe_add(t, "layer.0.attn.z", ablate, &head)) return 3;
    const double without = classify(m, t, &image);
    qkv_drawing_destroy(d);
    qkv_safetensors_close(file);
    qkv_image_free(&image, ctx);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return drawn || without < 0 || without == whole;
}
