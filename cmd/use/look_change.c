/* look_change.c - `qkv look --change` and `--vector`: a pass that is changed, beside one that is
 * not; the vectors that steer. */
#include <stdio.h>
#include <string.h>

#include "use/looking.h"

static int change_answer(cli *c, const qkv_changed *found, int at)
{
    qkv_str text;
    qkv_str_init(&text, c->ctx);
    qkv_status status = qkv_changed_text(found, at, &text); /* refuses positions that are not */
    if (!status && !c->common.json)
        (void)fwrite(text.data, 1, text.len, stdout);
    qkv_str_free(&text);
    if (status)
        return cli_error(c);
    if (!c->common.json)
        return cli_flush();
    qkv_json_writer w = cli_object(c);
    qkv_changed_json(found, at, &w);
    return cli_answer(c, &w);
}

int cli_look_change(cli *c, qkv_pipeline *p, const qkv_look_input *in,
                    const qkv_pipeline_look_options *o, int at, const char *page)
{
    qkv_changed found;
    int code;
    if (qkv_pipeline_change(p, in, o, &found))
        return cli_error(c);
    if (page && qkv_changed_page(&found, at, &(qkv_look_page_options){.input = in->text}, page))
        code = cli_error(c);
    else
        code = page && !c->common.json ? CLI_DONE : change_answer(c, &found, at);
    qkv_changed_free(&found);
    return code;
}

int cli_look_vector(cli *c, qkv_pipeline *p, const qkv_look_input *in, const char *minus,
                    const char *place, const char *file)
{
    qkv_array found;
    qkv_look_input other = *in;
    other.text = other.image.path = other.series = minus;
    if (qkv_pipeline_vector(p, in, minus ? &other : NULL, place, &found))
        return cli_error(c);
    qkv_status status = qkv_npy_save(c->ctx, file, 1, found.shape, found.data, QKV_STORE_F32);
    if (!status && c->common.json) {
        qkv_json_writer w = cli_object(c);
        qkv_json_put_string(&w, "file", file);
        qkv_json_put_int(&w, "width", (int64_t)found.count);
        qkv_array_free(&found);
        return cli_answer(c, &w);
    }
    if (!status)
        printf("%s: %zu numbers\n", file, found.count);
    qkv_array_free(&found);
    return status ? cli_error(c) : cli_flush();
}
