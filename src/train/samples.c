/* samples.c - what the model makes at evaluations: train/samples/STEP-NAME.txt and .png. */
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/image_codecs.h"
#include "io/json.h"
#include "train/loop.h"

enum { MOST_EVALUATIONS = 16, FILE_NAME = 80 };
static const char FOLDER[] = "train/samples";
static const double SAMPLE_SHARE = 0.01; /* of a time budget, that the samples of an evaluation may
                                            take */

typedef struct {
    char name[QKV_SAMPLE_NAME + 1];
    qkv_str text, png;
    qkv_image image; /* data NULL: a text */
} sample;

struct qkv_samples {
    qkv_context *ctx;
    sample items[QKV_SAMPLES];
    size_t count;
};

/* ---- adding ------------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= QKV_SAMPLE_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* A new sample of this name. */
static qkv_status add_sample(qkv_samples *s, const char *name, sample **out)
{
    if (!is_name(name))
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "sample \"%.40s\": 1 to %d letters a-z, digits and "
                        "- expected", name, (int)QKV_SAMPLE_NAME);
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->items[i].name, name) == 0)
            return qkv_fail(s->ctx, QKV_E_ARGUMENT, "sample %s is there twice", name);
    if (s->count == QKV_SAMPLES)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "sample %s: at most %d expected", name,
                        (int)QKV_SAMPLES);
    *out = &s->items[s->count];
    **out = (sample){.text = {.ctx = s->ctx}, .png = {.ctx = s->ctx}};
    strcpy((*out)->name, name);
    return QKV_OK;
}

qkv_status qkv_samples_text(qkv_samples *s, const char *name, const char *text, size_t len)
{
    sample *x;
    qkv_status status = add_sample(s, name, &x);
    if (status)
        return status;
    qkv_str_puts(&x->text, "");
    for (size_t i = 0, n; i < len && x->text.len + 4 <= QKV_SAMPLE_TEXT; i += n ? n : 1) {
        n = qkv__utf8_length((const unsigned char *)text + i, len - i);
        if (n)
            qkv_str_add(&x->text, text + i, n);
        else
            qkv_str_puts(&x->text, "\xef\xbf\xbd");
    }
    if (x->text.failed) {
        qkv_str_free(&x->text);
        return QKV_E_MEMORY;
    }
    s->count++;
    return QKV_OK;
}

static bool put_png(void *user, const void *data, size_t size)
{
    qkv_str *png = user;
    qkv_str_add(png, data, size);
    return !png->failed;
}

qkv_status qkv_samples_image(qkv_samples *s, const char *name, const qkv_image *image)
{
    sample *x;
    qkv_status status = add_sample(s, name, &x);
    if (status)
        return status;
    if (image->width * image->height > QKV_SAMPLE_PIXELS)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "sample %s: %zu x %zu pixels, at most %d expected",
                        name, image->width, image->height, (int)QKV_SAMPLE_PIXELS);
    status = qkv_image_create(&x->image, s->ctx, image->width, image->height, image->channels);
    if (!status) {
        memcpy(x->image.data, image->data, image->width * image->height * image->channels);
        status = qkv__png_encode(image, s->ctx, put_png, &x->png);
        if (x->png.failed)
            status = QKV_E_MEMORY;
    }
    if (status) {
        qkv_image_free(&x->image, s->ctx);
        qkv_str_free(&x->png);
        return status == QKV_E_UNSUPPORTED ? QKV_OK : status; /* a build without images */
    }
    s->count++;
    return QKV_OK;
}

void qkv__samples_free(qkv_samples *s)
{
    for (size_t i = 0; s && i < s->count; i++) {
        qkv_str_free(&s->items[i].text);
        qkv_str_free(&s->items[i].png);
        qkv_image_free(&s->items[i].image, s->ctx);
    }
    if (s)
        qkv_free(s->ctx, s);
}

/* ---- making ------------------------------------------------------------------------------- */

/* Every evaluation up to 16, then every second up to 32, every fourth up to 64 .. */
static bool samples_due(const qkv__loop *l, bool last)
{
    uint64_t every = qkv__eval_every(l), index = every ? l->step / every : 0, stride = 1;
    while (index / stride >= MOST_EVALUATIONS)
        stride *= 2;
    bool affordable = l->o.steps || l->sample_time <= SAMPLE_SHARE * 60 * l->o.minutes;
    return l->o.sample && !l->sampling_failed && affordable && (last || index % stride == 0);
}

static void tell_failure(qkv__loop *l)
{
    char text[512];
    snprintf(text, sizeof text, "warning: no samples: %.400s", qkv_context_message(l->ctx));
    l->sampling_failed = true;
    if (l->event)
        l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step,
                                             .text = text});
}

qkv_status qkv__samples_make(qkv__loop *l, bool last, qkv_samples **out)
{
    double begun = qkv_now();
    *out = NULL;
    if (!samples_due(l, last))
        return QKV_OK;
    qkv_samples *s = qkv_calloc(l->ctx, 1, sizeof *s);
    if (s)
        s->ctx = l->ctx;
    qkv_tape_reset(l->tape);
    qkv_tape_mode(l->tape, false, false);
    (void)qkv__hold(l->ctx, false);
    qkv_status status = s ? l->o.sample(l->o.sample_user, l->tape, s) : QKV_E_MEMORY;
    (void)qkv__hold(l->ctx, true);
    qkv_tape_reset(l->tape);
    l->sample_time = qkv_now() - begun;
    if (!status) {
        *out = s;
        return QKV_OK;
    }
    qkv__samples_free(s);
    if (status == QKV_E_CANCELLED) {
        l->stop = true;
        return qkv_dist_size(l->ctx) == 1 ? status : QKV_OK; /* other ranks know nothing of it */
    }
    tell_failure(l);
    return QKV_OK;
}

/* ---- keeping ------------------------------------------------------------------------------ */

static qkv_status keep_sample(qkv__loop *l, const sample *x)
{
    bool image = x->image.data != NULL;
    const qkv_str *bytes = image ? &x->png : &x->text;
    const qkv_sample s = {.name = x->name, .text = image ? NULL : x->text.data,
                          .length = x->text.len, .image = image ? &x->image : NULL};
    char file[FILE_NAME];
    snprintf(file, sizeof file, "samples/%08llu-%s.%s", (unsigned long long)l->step, x->name,
             image ? "png" : "txt");
    qkv_status status = QKV_OK;
    if (l->dir) {
        const qkv_path train = qkv_path_in(l->dir, "train");
        const qkv_path path = qkv_path_in(train.text, file);
        status = qkv_dir_create(l->ctx, qkv_path_in(l->dir, FOLDER).text);
        if (!status)
            status = qkv__file_remove(l->ctx, path.text);
        if (!status) /* no waiting for the disk: what is lost with the machine is made again */
            status = qkv__file_append(l->ctx, path.text, bytes->data ? bytes->data : "",
                                      bytes->len);
        if (!status)
            status = qkv__log_sample(l, &s, file, &x->png);
    }
    if (!status)
        qkv__tell_sample(l, &s);
    return status;
}

qkv_status qkv__samples_keep(qkv__loop *l, const qkv_samples *s)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; s && i < s->count && !status; i++)
        status = keep_sample(l, &s->items[i]);
    return status;
}

qkv_status qkv__samples_trim(qkv__loop *l)
{
    const qkv_path folder = qkv_path_in(l->dir, FOLDER);
    qkv_names names = {0};
    if (!qkv_dir_exists(folder.text))
        return QKV_OK;
    qkv_status status = qkv_dir_list(&names, l->ctx, folder.text);
    for (size_t i = 0; i < names.count && !status; i++) {
        unsigned long long step;
        char dash;
        if (sscanf(names.names[i], "%20llu%c", &step, &dash) == 2 && dash == '-' &&
            (!l->step || step > l->step))
            status = qkv__file_remove(l->ctx, qkv_path_in(folder.text, names.names[i]).text);
    }
    qkv_names_free(&names);
    return status;
}
