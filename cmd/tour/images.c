/* images.c - the images that the tour's chapters learn from: the emoji of a font, others
 * that the reader names, or drawn ones. */
#include "tour/drawn.h"
#include "tour/images.h"

#include <string.h>

enum { HOLD_OUT_EVERY = 8, MOST = 4000 };

/* Classes of fonts in which every image is another kind of thing. */
static const char *const left_out[] = {"signs", "things"};

/* Where Debian, Arch and Fedora have it. */
static const char *const fonts[] = {"/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf",
                                    "/usr/share/fonts/noto/NotoColorEmoji.ttf",
                                    "/usr/share/fonts/google-noto-emoji/NotoColorEmoji.ttf"};

const char *tour_images_find(qkv_context *ctx)
{
    for (size_t i = 0; i < sizeof fonts / sizeof *fonts; i++) {
        qkv_image_list *p = NULL;
        qkv_image image;
        bool good = qkv_file_exists(fonts[i]) && !qkv_image_list_open(&p, ctx, fonts[i]) &&
                    !qkv_image_list_read(p, 0, &image, NULL);
        if (good)
            qkv_image_free(&image, ctx);
        qkv_image_list_close(p);
        if (good)
            return fonts[i];
    }
    return NULL;
}

static qkv_status images_read_all(qkv_pixels **out, const tour *t, size_t side, uint8_t background)
{
    qkv_context *ctx = t->page->c->ctx;
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_image_list *images;
    if (!t->images)
        return tour_drawn_create(out, ctx, side, background);
    o.height = o.width = side;
    memset(o.background, background, sizeof o.background);
    qkv_status status = qkv_image_list_open(&images, ctx, t->images);
    if (status)
        return status;
    status = qkv_pixels_read(out, ctx, images, NULL, &o, NULL, NULL);
    qkv_image_list_close(images);
    return status;
}

static bool wanted(const qkv_pixels *p, size_t i)
{
    int32_t class_ = qkv_pixels_class(p, i);
    const char *name = class_ < 0 ? "" : qkv_pixels_class_name(p, (size_t)class_);
    for (size_t k = 0; k < sizeof left_out / sizeof *left_out; k++)
        if (strcmp(name, left_out[k]) == 0)
            return false;
    return true;
}

/* The number that each class has once those without an image are gone; told to both parts. */
static qkv_status images_number_classes(int32_t *number, const qkv_pixels *from,
                                        qkv_pixels_writer *w[2])
{
    qkv_status status = QKV_OK;
    int32_t used = 0;
    for (size_t i = 0; i < qkv_pixels_count(from); i++) /* 1: some image has it */
        if (wanted(from, i) && qkv_pixels_class(from, i) >= 0)
            number[qkv_pixels_class(from, i)] = 1;
    for (size_t k = 0; k < qkv_pixels_classes(from); k++) {
        if (!number[k])
            continue;
        for (int part = 0; part < 2 && !status; part++)
            status = qkv_pixels_add_class(w[part], qkv_pixels_class_name(from, k));
        number[k] = used++;
    }
    return status;
}

/* Every so many'th image evaluates: of every class, where they lie sorted by it. */
static qkv_status deal_out(qkv_context *ctx, const qkv_pixels *from, qkv_pixels_writer *w[2])
{
    int32_t *number = qkv_calloc(ctx, qkv_pixels_classes(from) + 1, sizeof *number);
    qkv_status status = number ? images_number_classes(number, from, w) : QKV_E_MEMORY;
    size_t taken = 0;
    for (size_t i = 0; i < qkv_pixels_count(from) && taken < MOST && !status; i++) {
        int32_t class_ = qkv_pixels_class(from, i);
        if (wanted(from, i))
            status = qkv_pixels_add(w[taken++ % HOLD_OUT_EVERY == HOLD_OUT_EVERY / 2],
                                    qkv_pixels_data(from, i), class_ < 0 ? -1 : number[class_],
                                    qkv_pixels_name(from, i));
    }
    qkv_free(ctx, number);
    if (!status && taken < HOLD_OUT_EVERY)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--images: at least %d images expected, found "
                          "%zu", HOLD_OUT_EVERY, taken);
    return status;
}

static qkv_status split(tour_images *out, qkv_context *ctx, const qkv_pixels *all)
{
    qkv_pixels_writer *w[2] = {NULL, NULL};
    qkv_pixels **const parts[2] = {&out->train, &out->valid};
    qkv_status status = QKV_OK;
    for (int i = 0; i < 2 && !status; i++)
        status = qkv_pixels_create(&w[i], ctx, NULL, qkv_pixels_height(all),
                                   qkv_pixels_width(all), 3);
    if (!status)
        status = deal_out(ctx, all, w);
    for (int i = 0; i < 2; i++)
        if (status)
            qkv_pixels_abandon(w[i]);
        else
            status = qkv_pixels_finish(w[i], parts[i]);
    return status;
}

qkv_status tour_images_read(tour_images *out, const tour *t, size_t side, uint8_t background)
{
    qkv_pixels *all = NULL;
    *out = (tour_images){0};
    qkv_status status = images_read_all(&all, t, side, background);
    if (!status)
        status = split(out, t->page->c->ctx, all);
    qkv_pixels_close(all);
    if (status)
        tour_images_close(out);
    return status;
}

void tour_images_close(tour_images *p)
{
    qkv_pixels_close(p->train);
    qkv_pixels_close(p->valid);
    *p = (tour_images){0};
}

double tour_images_time(const tour *t)
{
    static const double share = 0.87, least = 0.2; /* of the chapter; seconds */
    double left = share * t->seconds - (qkv_now() - t->begun);
    return left > least ? left : least;
}

double tour_images_effort(const tour *t)
{
    enum { TRIES = 4 }; /* the best one counts: something else may run at the same time */
    static const double reference = 230e9, few = 30; /* operations a second; seconds */
    return t->seconds < few
               ? t->seconds
               : t->seconds * qkv_machine_peak_flops(t->page->c->ctx, TRIES) / reference;
}

void tour_images_format(const tour_images *p, qkv_model *m)
{
    size_t side = qkv_pixels_height(p->train);
    qkv_image_format f = {.height = side, .width = side, .channels = 3, .resample = 2};
    qkv_pixels_stats(p->train, NULL, qkv_pixels_count(p->train), f.mean, f.std);
    qkv_model_set_image_format(m, &f);
}

void tour_images_tell(const tour_images *p, const tour *t)
{
    size_t side = qkv_pixels_height(p->train);
    page_text(t->page, "The images: %s%s, %zu x %zu pixels. It learns from %zu; %zu others, "
                       "which it never sees before, score it.",
              t->images ? "of " : "drawn by this program, for want of an emoji font",
              t->images ? t->images : "", side, side, qkv_pixels_count(p->train),
              qkv_pixels_count(p->valid));
    page_number(t->page, "images", (double)qkv_pixels_count(p->train));
    page_number(t->page, "held_out", (double)qkv_pixels_count(p->valid));
}
