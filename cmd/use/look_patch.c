/* look_patch.c - `qkv look --patch`: which activations make the difference between two inputs. */
#include <stdio.h>
#include <string.h>

#include "use/looking.h"

static int patch_answer(cli *c, const qkv_patch *x)
{
    qkv_str text;
    if (c->common.json) {
        qkv_json_writer w = cli_object(c);
        qkv_patch_json(x, &w);
        return cli_answer(c, &w);
    }
    qkv_str_init(&text, c->ctx);
    qkv_status status = qkv_patch_text(x, &text);
    if (!status)
        (void)fwrite(text.data, 1, text.len, stdout);
    qkv_str_free(&text);
    return status ? cli_error(c) : cli_flush();
}

/* The drawing of the first grid goes to the file, those of further ones beside it. */
static qkv_status save_heat(const cli *c, const qkv_patch *x, const char *file)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < x->grid_count && !status; i++) {
        qkv_drawing *d = NULL;
        qkv_str path;
        const char *dot = strrchr(file, '.');
        size_t stem = dot ? (size_t)(dot - file) : strlen(file);
        qkv_str_init(&path, c->ctx);
        if (i)
            qkv_str_printf(&path, "%.*s-%s%s", (int)stem, file, x->grids[i].stack, file + stem);
        status = path.failed ? QKV_E_MEMORY : qkv_patch_draw(x, i, &d);
        if (!status)
            status = qkv_drawing_save(d, i ? path.data : file);
        qkv_drawing_destroy(d);
        qkv_str_free(&path);
    }
    return status;
}

int cli_look_patch(cli *c, qkv_pipeline *p, const qkv_look_input *in,
                   const cli_look_patching *files, const qkv_pipeline_patch_options *o)
{
    qkv_patch found;
    qkv_look_input corrupt = *in;
    corrupt.text = corrupt.image.path = corrupt.series = files->corrupt;
    qkv_str inputs;
    qkv_str_init(&inputs, c->ctx);
    qkv_str_printf(&inputs, "clean: %s; corrupt: %s", in->text, files->corrupt);
    qkv_status status = qkv_pipeline_patch(p, in, &corrupt, o, &found);
    if (!status && files->heat)
        status = save_heat(c, &found, files->heat);
    if (!status && files->page)
        status = qkv_patch_page(&found, &(qkv_look_page_options){.input = inputs.data},
                                files->page);
    int code = status ? cli_error(c)
               : (files->page || files->heat) && !c->common.json ? CLI_DONE
                                                                 : patch_answer(c, &found);
    qkv_patch_free(&found);
    qkv_str_free(&inputs);
    return code;
}
