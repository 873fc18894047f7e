/* preprocessor.c - preprocessor_config.json: how a model wants its images, in the words of
 * Hugging Face's ViTImageProcessor, or of its CLIPImageProcessor or DeiTImageProcessor where they
 * are cut to shape. What asks for another preparation than resizing, cutting out the middle,
 * dividing by 255 and normalising is refused. */
#include <math.h>
#include <string.h>

#include "hub/parts.h"
#include "io/file.h"

enum { MOST_PIXELS = 65536, BILINEAR = 2, BOX = 4 };
static const double DEFAULT_MEAN = 0.5, DEFAULT_STD = 0.5; /* ViTImageProcessor's */

/* ---- reading ------------------------------------------------------------------------------- */

/* One number for both sides, {"height", "width"}, or {"shortest_edge"}; *shortest: it was that, and
 * unchanged by one number or none. */
static qkv_status preprocessor_read_shape(const qkv__json *j, const char *key, size_t shape[2],
                                          bool *shortest)
{
    int64_t side[2] = {(int64_t)shape[0], (int64_t)shape[1]};
    qkv__json size;
    qkv_status status = QKV_OK;
    if (!qkv__json_has(j, key))
        return QKV_OK;
    if (json_is_object(json_object_get(j->value, key))) {
        status = qkv__json_get_object(j, key, &size);
        bool edge = *shortest = !status && qkv__json_has(&size, "shortest_edge");
        if (!status)
            status = qkv__json_get_int(&size, edge ? "shortest_edge" : "height", 1, MOST_PIXELS,
                                       &side[0]);
        if (!status)
            status = qkv__json_get_int(&size, edge ? "shortest_edge" : "width", 1, MOST_PIXELS,
                                       &side[1]);
    } else {
        status = qkv__json_get_int(j, key, 1, MOST_PIXELS, &side[0]);
        side[1] = side[0];
    }
    shape[0] = (size_t)side[0];
    shape[1] = (size_t)side[1];
    return status;
}

/* Up to three numbers, or one; *count: how many, as it was when the key is absent. */
static qkv_status preprocessor_read_numbers(const qkv__json *j, const char *key, double least,
                                            double out[3], size_t *count)
{
    qkv__json list, item;
    qkv_status status = QKV_OK;
    if (!qkv__json_has(j, key))
        return QKV_OK;
    if (json_is_number(json_object_get(j->value, key))) {
        status = qkv__json_get_real(j, key, least, 1e6, &out[0]);
        out[1] = out[2] = out[0];
        return status;
    }
    status = qkv__json_get_array(j, key, &list);
    *count = status ? 1 : qkv__json_count(&list);
    if (!status && *count != 1 && *count != 3)
        return qkv__json_fail(j, key, "1 or 3 numbers expected, found %zu", *count);
    for (size_t i = 0; i < *count && !status; i++) {
        qkv__json_item(&list, i, &item);
        status = qkv__json_get_real(&item, NULL, least, 1e6, &out[i]);
    }
    return status;
}

static qkv_status read_colours(const qkv__json *j, qkv_image_format *f)
{
    size_t means = 3, stds = 3;
    bool normalize = true, rescale = true;
    double factor = 1 / 255.0;
    for (int i = 0; i < 3; i++) {
        f->mean[i] = DEFAULT_MEAN;
        f->std[i] = DEFAULT_STD;
    }
    qkv_status status = preprocessor_read_numbers(j, "image_mean", -1e6, f->mean, &means);
    if (!status)
        status = preprocessor_read_numbers(j, "image_std", 1e-6, f->std, &stds);
    if (!status)
        status = qkv__json_opt_bool(j, "do_normalize", &normalize);
    if (!status)
        status = qkv__json_opt_bool(j, "do_rescale", &rescale);
    if (!status)
        status = qkv__json_opt_real(j, "rescale_factor", 0, 1e6, &factor);
    if (status)
        return status;
    if (means != stds)
        return qkv__json_fail(j, "image_std", "%zu numbers, but image_mean has %zu", stds, means);
    if (!rescale || fabs(factor * 255 - 1) > 1e-3)
        return qkv__json_fail(j, "rescale_factor", "pixels that are not divided by 255 are not "
                              "supported");
    for (int i = 0; i < 3 && !normalize; i++) {
        f->mean[i] = 0;
        f->std[i] = 1;
    }
    f->channels = means;
    return QKV_OK;
}

/* Whether a single number is the length of the shorter side, where a file does not say: of
 * processors that cut out the middle, but DeiT's. */
static qkv_status number_is_shortest(const qkv__json *j, bool *shortest)
{
    static const char *const keys[] = {"image_processor_type", "feature_extractor_type"};
    qkv_status status = qkv__json_opt_bool(j, "do_center_crop", shortest);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status; i++) {
        const char *type = "";
        status = qkv__json_opt_string(j, keys[i], &type);
        if (!status && strncmp(type, "DeiT", 4) == 0)
            *shortest = false;
    }
    return status;
}

/* What is cut of a resized image; cut: height and width, or zeros. */
static qkv_status format_shape(const qkv__json *j, qkv_image_format *f, const size_t size[2],
                               const size_t cut[2], bool shortest)
{
    f->height = cut[0] ? cut[0] : size[0];
    f->width = cut[1] ? cut[1] : size[1];
    f->crop = shortest;
    size_t shorter = f->height < f->width ? f->height : f->width;
    if (!shortest && f->height == size[0] && f->width == size[1])
        return QKV_OK;
    if (shortest && shorter == size[0] && f->height != f->width) /* as it is written here */
        return QKV_OK;
    if (size[0] != size[1])
        return qkv__json_fail(j, "size", "%zu x %zu, of which a part is cut, is not supported: "
                              "both sides the same expected", size[1], size[0]);
    if (f->height > size[0] || f->width > size[0])
        return qkv__json_fail(j, "crop_size", "a crop larger than the resized image (%zu) is not "
                              "supported", size[0]);
    f->resize = size[0];
    return QKV_OK;
}

static qkv_status read_format(const qkv__json *j, qkv_image_format *f)
{
    size_t size[2] = {224, 224}, cropped[2] = {0, 0};
    int64_t resample = BILINEAR;
    bool crops = false, shortest = false, unused;
    qkv_status status = number_is_shortest(j, &shortest);
    if (!status)
        status = preprocessor_read_shape(j, "size", size, &shortest);
    if (!status)
        status = qkv__json_opt_bool(j, "do_center_crop", &crops);
    if (!status && crops)
        status = preprocessor_read_shape(j, "crop_size", cropped, &unused);
    if (!status)
        status = qkv__json_opt_int(j, "resample", 0, 5, &resample);
    if (!status)
        status = read_colours(j, f);
    if (status)
        return status;
    if (resample < BILINEAR || resample > BOX)
        return qkv__json_fail(j, "resample", "2 (bilinear), 3 (bicubic) or 4 (box) expected, found "
                              "%d", (int)resample);
    f->resample = (int)resample;
    return format_shape(j, f, size, cropped, shortest);
}

qkv_status qkv__hub_read_preprocessor(qkv_model *m, const char *dir)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_path path = qkv_path_in(dir, "preprocessor_config.json");
    qkv__json j;
    qkv_image_format f = {0};
    if (!qkv_file_exists(path.text))
        return QKV_OK;
    qkv_status status = qkv__json_load(&j, ctx, path.text);
    if (!status)
        status = read_format(&j, &f);
    if (!status)
        qkv_model_set_image_format(m, &f);
    qkv__json_free(&j);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void put_shape(qkv_json_writer *w, const char *key, size_t height, size_t width)
{
    qkv_json_begin_object(w, key);
    qkv_json_put_int(w, "height", (int64_t)height);
    qkv_json_put_int(w, "width", (int64_t)width);
    qkv_json_end_object(w);
}

qkv_status qkv__hub_write_preprocessor(qkv_model *m, const char *dir)
{
    const qkv_image_format *f = qkv_model_image_format(m);
    if (!f)
        return QKV_OK;
    qkv_json_writer w;
    qkv_json_writer_init(&w, qkv_model_context(m), 2);
    qkv_json_begin_object(&w, NULL);
    size_t shorter = f->height < f->width ? f->height : f->width;
    size_t resize = f->resize ? f->resize : shorter;
    bool squash = !f->crop && f->resize, cuts = f->crop || squash;
    /* ViT's does not crop; CLIP's, which does, would make three channels of one. */
    qkv_json_put_string(&w, "image_processor_type",
                        f->crop ? "CLIPImageProcessor" : squash ? "DeiTImageProcessor"
                                                                : "ViTImageProcessor");
    if (f->crop)
        qkv_json_put_bool(&w, "do_convert_rgb", f->channels == 3);
    qkv_json_put_bool(&w, "do_resize", true);
    if (f->crop) {
        qkv_json_begin_object(&w, "size");
        qkv_json_put_int(&w, "shortest_edge", (int64_t)resize);
        qkv_json_end_object(&w);
    } else {
        put_shape(&w, "size", squash ? resize : f->height, squash ? resize : f->width);
    }
    if (cuts)
        put_shape(&w, "crop_size", f->height, f->width);
    qkv_json_put_bool(&w, "do_center_crop", cuts);
    qkv_json_put_int(&w, "resample", f->resample);
    qkv_json_put_bool(&w, "do_rescale", true);
    qkv_json_put_real(&w, "rescale_factor", 1 / 255.0);
    qkv_json_put_bool(&w, "do_normalize", true);
    qkv_json_put_reals(&w, "image_mean", f->mean, f->channels);
    qkv_json_put_reals(&w, "image_std", f->std, f->channels);
    qkv_json_end_object(&w);
    return qkv_json_writer_save(&w, qkv_path_in(dir, "preprocessor_config.json").text);
}
