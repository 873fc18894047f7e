/* 12_edit_code.c - an image as a grid of codes, one of which is changed.
 *
 *     12_edit_code DIR IMAGE TO FROM     codes count from 0, row by row
 *
 * DIR is one that `qkv train vqgan` wrote. The image becomes codes; code TO is exchanged for a
 * copy of code FROM; edited.png shows what the codes stand for now. Without arguments a small model
 * learns images of coloured squares; a square of one that it never saw then gets another's
 * colour. */
#include <stdio.h>
#include <stdlib.h>

#include <qkv.h>

enum { SIDE = 8, SQUARE = 2, IMAGES = 100 };

/* Squares of four colours, each once in a row. Number 0 is not among those to learn from. */
static qkv_status draw(qkv_context *ctx, size_t number)
{
    char path[50];
    qkv_image image;
    (void)snprintf(path, sizeof path, "coder/%s%d.png", number ? "squares/" : "", (int)number);
    qkv_status status = qkv_image_create(&image, ctx, SIDE, SIDE, 3);
    for (size_t i = 0; i < (size_t)SIDE * SIDE * 3 && !status; i++) {
        const size_t row = i / 3 / SIDE / SQUARE, column = i / 3 % SIDE / SQUARE;
        image.data[i] = qkv_shuffled(column, 4, number * 4 + row) >> i % 3 & 1 ? 220 : 40;
    }
    if (!status) status = qkv_image_write(&image, ctx, path);
    qkv_image_free(&image, ctx);
    return status;
}

/* No discriminator, and no network that says how unlike images look: the absolute error alone. */
static qkv_status make(qkv_context *ctx)
{
    static const char settings[] =
        "{\"images\": \"coder/squares\", \"out\": \"coder/run\", \"perceptual\": 0, "
        "\"adversarial\": 0, \"model\": \"nano\", \"ch_mult\": \"1,1\", \"num_res_blocks\": 1, "
        "\"steps\": 300, \"lr\": 6e-3}";
    qkv_job *job;
    qkv_status status = qkv_dir_create(ctx, "coder/squares");
    for (size_t i = 0; i <= IMAGES && !status; i++) status = draw(ctx, i);
    if (status || qkv_job_create(&job, ctx, "vqgan")) return qkv_context_status(ctx);
    status = qkv_job_set_json(job, settings, sizeof settings - 1);
    if (!status) status = qkv_job_run(job, NULL, NULL, NULL);
    qkv_job_destroy(job);
    return status;
}

int main(int argc, char **argv)
{
    const bool own = argc < 5;
    const qkv_image_source in = {own ? "coder/0.png" : argv[2], NULL};
    const size_t to = own ? 0 : (size_t)atoi(argv[3]), from = own ? 1 : (size_t)atoi(argv[4]);
    qkv_context *ctx;
    qkv_pipeline *p;
    qkv_code_grid grid;
    qkv_image edited;
    if ((own && system("rm -rf coder")) || qkv_context_create(&ctx, NULL)) return 1;
    if ((own && make(ctx)) || qkv_pipeline_open(&p, ctx, own ? "coder/run" : argv[1]) ||
        qkv_pipeline_encode(p, &in, &grid))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    if (to >= grid.rows * grid.columns || from >= grid.rows * grid.columns) return 2;
    grid.codes[to] = grid.codes[from];
    if (qkv_pipeline_decode(p, &grid, &edited) || qkv_image_write(&edited, ctx, "edited.png"))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    int off = 0; /* between the first two squares */
    for (int k = 0; k < 3; k++) off += abs(edited.data[k] - edited.data[3 * SQUARE + k]);
    printf("%zu x %zu codes; levels between squares: %d\n", grid.rows, grid.columns, off);
    qkv_image_free(&edited, ctx);
    qkv_code_grid_free(&grid);
    qkv_pipeline_close(p);
    qkv_context_destroy(ctx);
    return own && off > 90; /* of different colours 180 at least */
}
