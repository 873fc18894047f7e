/* image_chapter.c - how every chapter on images goes: a model learns, says what it reaches beside
 * what needs no network, and leaves an image to try it on. What is learnt is the chapter's. */
#include "tour/images.h"

enum { HEAD = 32, ROWS = 8 };
static const double DECAY = 0.05;

void tour_trunk_set(qkv_patches_config *trunk, size_t blocks)
{
    trunk->image = TOUR_SIDE;
    trunk->layers = trunk->heads = blocks;
    trunk->width = HEAD * blocks;
}

qkv_status tour_pupil_create(tour_pupil *h, const qkv_model_type *type, const void *config)
{
    return tour_make(&h->model, h->t, type, config);
}

static qkv_status image_chapter_learn(tour_pupil *h, const tour_image_chapter *l)
{
    qkv_task task = {0};
    qkv_training s = qkv_training_defaults();
    s.loop.batch = l->batch;
    s.schedule.lr = l->rate;
    s.optimizer.weight_decay = DECAY;
    if (l->beta2 > 0)
        s.optimizer.beta2 = l->beta2;
    qkv_status status = l->make_task(&task, h);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir, tour_images_time(h->t));
    qkv_task_destroy(&task);
    return status;
}

static qkv_status image_chapter_report(const tour_pupil *h, const tour_image_chapter *l)
{
    const page *p = h->t->page;
    const char *dir = h->t->dir;
    bool better = false;
    tour_training_show(&h->training, h->t, "Training loss over the time:");
    qkv_status status = l->evaluate(h, &better);
    if (!status)
        status = tour_image_write(h->t, "image.png", qkv_pixels_data(h->p.valid, 0),
                                  TOUR_SIDE);
    if (status)
        return status;
    if (better)
        tour_say(h->t, "What was learnt: %s.", l->learnt);
    else
        tour_say(h->t, "What was learnt: %s. The time was short; give it more with --minutes.",
                       l->not_learnt);
    page_text(p, "Ask it yourself: qkv %s %s %s/image.png%s", l->verb, dir, dir, l->options);
    const qkv_path image = qkv_path_in(dir, "image.png");
    return tour_look(h->t, dir, &(qkv_look_input){.image = {.path = image.text}}, "look.html",
                     "Patches that the class token, or the patch in the middle, attends to: last "
                     "layer, mean of the heads");
}

qkv_status tour_image_chapter_train(const tour_image_chapter *l, tour_pupil *h)
{
    qkv_status status = l->make_model(h);
    if (!status)
        status = image_chapter_learn(h, l);
    if (!status && !h->training.result.stopped)
        status = image_chapter_report(h, l);
    qkv_model_destroy(h->model);
    h->model = NULL;
    return status;
}

qkv_status tour_image_chapter_run(const tour_image_chapter *l, tour *t)
{
    tour_pupil h = {.t = t};
    qkv_status status = tour_images_read(&h.p, t, TOUR_SIDE, UINT8_MAX);
    if (!status) {
        tour_images_tell(&h.p, t);
        status = tour_image_chapter_train(l, &h);
    }
    tour_images_close(&h.p);
    return status;
}

qkv_status tour_pupil_sheet(const tour_pupil *h, size_t columns, tour_row_fn *put,
                            const char *name, const char *caption)
{
    size_t n = qkv_pixels_count(h->p.valid), rows = n < ROWS ? n : ROWS;
    tour_sheet sheet;
    qkv_status status = tour_sheet_create(&sheet, h->t->page->c->ctx, rows, columns, TOUR_SIDE);
    for (size_t row = 0; row < rows && !status; row++)
        status = put(h, &sheet, row, (2 * row + 1) * n / (2 * rows));
    if (!status)
        status = tour_sheet_write(&sheet, h->t, name, caption);
    tour_sheet_free(&sheet);
    return status;
}
